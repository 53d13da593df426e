//! An end of a connection within the node as data.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smoltcp::storage::RingBuffer;
use spin::Mutex;

use super::{ACCEPTOR, CONNECTOR, End, Link, Phase, Side};
use crate::SocketError;
use crate::accounts::{Accounts, Ticket};
use crate::cell::Cell;
use crate::record::{EndRecord, NotMade, SideRecord, Stage};

/// Connections of which one end was made again and the other not yet.
#[derive(Default)]
pub(crate) struct HalfMade(BTreeMap<u64, Half>);

struct Half {
    link: Arc<Mutex<Link>>,
    /// The end that is to come.
    side: usize,
}

impl Side {
    fn record(&mut self) -> SideRecord {
        let mut received = alloc::vec![0; self.ring.len()];
        let length = self.ring.read_allocated(0, &mut received);
        received.truncate(length);
        let capacity = self.ring.capacity() as u32;
        let &mut Self { error, read_shut, write_shut, ended, .. } = self;
        SideRecord { capacity, received, error, read_shut, write_shut, ended }
    }

    /// In the place of one that is still to be made.
    fn to_come() -> Self {
        let (error, read_shut, write_shut, ended) = (None, false, false, false);
        let ring = RingBuffer::new(Vec::new());
        Self { ring, grant: None, cell: None, error, read_shut, write_shut, ended, gone: false }
    }

    fn again(record: &SideRecord, accounts: &Arc<Accounts>, is_gone: bool) -> Result<Self, NotMade> {
        let (mut ring, mut grant) = (Vec::new(), None);
        if !is_gone {
            let (bytes, granted) = accounts.ring_again(record.capacity)?;
            (ring, grant) = (bytes, Some(granted));
        }
        let mut ring = RingBuffer::new(ring);
        if ring.enqueue_slice(&record.received) < record.received.len() {
            return Err(NotMade::Damaged);
        }
        let &SideRecord { error, read_shut, write_shut, ended, .. } = record;
        Ok(Self { ring, grant, cell: None, error, read_shut, write_shut, ended, gone: is_gone })
    }
}

impl End {
    /// Writes it down.
    pub(crate) fn record(&self) -> EndRecord {
        let mut link = self.link.lock();
        let stage = match link.phase {
            Phase::Waiting => Stage::Connecting,
            Phase::Open => Stage::Open,
            Phase::Closed => Stage::Over,
        };
        let (own, other) = link.split(self.side);
        EndRecord {
            pair: Arc::as_ptr(&self.link).addr() as u64,
            is_acceptor: self.side == ACCEPTOR,
            own: self.own,
            peer: self.peer,
            stage,
            side: own.record(),
            left: other.gone.then(|| other.record()),
        }
    }

    /// Makes it again; `cell` is told of changes, `ticket` is the acceptor's until it is accepted.
    ///
    /// # Errors
    /// [`NotMade`].
    pub(crate) fn again(
        record: &EndRecord,
        (accounts, wipe): (&Arc<Accounts>, fn(&mut [u8])),
        half_made: &mut HalfMade,
        (cell, ticket): (Option<Arc<Cell>>, Option<Ticket>),
    ) -> Result<Self, NotMade> {
        let side = if record.is_acceptor { ACCEPTOR } else { CONNECTOR };
        let mut made = Side::again(&record.side, accounts, false)?;
        made.cell = cell;
        if half_made.0.get(&record.pair).is_some_and(|half| half.side != side) {
            // Both say that they are the same end. The other of the first may still come.
            return Err(NotMade::Damaged);
        }
        let link = match half_made.0.remove(&record.pair) {
            Some(half) => {
                *half.link.lock().split(side).0 = made;
                half.link
            }
            None => {
                let other = match &record.left {
                    Some(left) => Side::again(left, accounts, true)?,
                    None => Side::to_come(),
                };
                let phase = match record.stage {
                    Stage::Connecting => Phase::Waiting,
                    Stage::Open => Phase::Open,
                    Stage::Over => Phase::Closed,
                };
                let sides = if record.is_acceptor { [other, made] } else { [made, other] };
                let link = Arc::new(Mutex::new(Link { phase, sides, wipe }));
                if record.left.is_none() {
                    half_made.0.insert(record.pair, Half { link: Arc::clone(&link), side: 1 - side });
                }
                link
            }
        };
        link.lock().update(None);
        Ok(Self { link, side, own: record.own, peer: record.peer, ticket })
    }
}

impl HalfMade {
    /// No more ends come: those whose others did not are reset. Gives how many there are.
    pub(crate) fn give_up(&mut self) -> usize {
        let given_up = core::mem::take(&mut self.0);
        for half in given_up.values() {
            let mut link = half.link.lock();
            link.split(half.side).0.gone = true;
            link.break_off(half.side, SocketError::Reset);
        }
        given_up.len()
    }
}
