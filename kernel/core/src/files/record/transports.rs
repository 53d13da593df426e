//! What carries the bytes of a process's sockets, in the order in which the record of its files has those sockets.

use alloc::vec::Vec;

use coppice_endpoint::record::{NotMade, NotQuiet};

use super::Outside;
use crate::files::socket::Transport;
use crate::files::socket::record::TransportRecord;
use crate::net::Network;

/// Writes them down.
///
/// # Errors
/// [`NotQuiet`].
pub(crate) fn record(outside: &[Outside]) -> Result<Vec<TransportRecord>, NotQuiet> {
    let transports = outside.iter().filter_map(|outside| match outside {
        Outside::Transport(transport) => Some(transport.record()),
        _ => None,
    });
    transports.collect()
}

/// Lets go of them without a word to their peers.
pub(crate) fn forget(outside: &mut [Outside]) {
    for outside in outside {
        if let Outside::Transport(_) = outside
            && let Outside::Transport(transport) = core::mem::replace(outside, Outside::NoTransport)
        {
            transport.forget();
        }
    }
}

/// Makes those again that were let go of.
///
/// # Errors
/// [`NotMade`].
pub(crate) fn make(outside: &mut [Outside], records: &[TransportRecord], network: &dyn Network) -> Result<(), NotMade> {
    let mut records = records.iter();
    for outside in outside {
        if matches!(outside, Outside::NoTransport) {
            let record = records.next().ok_or(NotMade::Damaged)?;
            *outside = Outside::Transport(Transport::again(record, network)?);
        }
    }
    Ok(())
}
