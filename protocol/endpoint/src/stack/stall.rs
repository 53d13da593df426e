//! Connections that smoltcp would forget to go on with.
//!
//! There are two ways in which its clock for what is not acknowledged stops although something is not, and then nothing
//! ever happens again.
//!
//! *The end.* The peer acknowledges the same three times while nothing but the end of the connection is on its way.
//! smoltcp means to send that again at once, does not, as there are no bytes, and has stopped the clock. So it does not
//! hear such acknowledgements, which say nothing.
//!
//! *Bytes.* They are sent again although the peer has no room for them; it says that it has none, so that the clock for
//! asking it takes the other one's place; then it has some, and that clock stops, too. smoltcp then hears three times
//! what the peer has acknowledged, as if the peer had said it: that makes it send the rest.

use alloc::vec;

use smoltcp::iface::Interface;
use smoltcp::phy::TxToken;
use smoltcp::socket::tcp::State as TcpState;
use smoltcp::time::Instant;
use smoltcp::wire::{IpAddress, TcpControl, TcpPacket, TcpSeqNumber};

use super::ingest::Single;
use super::stack_duration;
use super::table::Entry;
use crate::limits::STALLED_NS;
use crate::reset::{BARE_BYTES, Bare};

/// What the peer of a connection said last.
#[derive(Clone, Copy)]
pub(crate) struct Said {
    /// Where its next byte will be.
    next: TcpSeqNumber,
    acknowledged: TcpSeqNumber,
    /// Its window, as it stands in a segment.
    window: u16,
}

impl Entry {
    /// Whether a segment that came says nothing, and must not be heard. Otherwise it is noted what it says.
    pub(crate) fn says_nothing(&mut self, tcp: &TcpPacket<&[u8]>) -> bool {
        if !tcp.ack() {
            return false;
        }
        let (acknowledged, window) = (tcp.ack_number(), tcp.window_len());
        let is_bare = tcp.segment_len() == 0 && !tcp.rst();
        let only_end_is_owed =
            matches!(self.socket().state(), TcpState::FinWait1 | TcpState::Closing) && self.socket().send_queue() == 0;
        match &mut self.said {
            Some(said) if is_bare && only_end_is_owed && said.acknowledged == acknowledged => true,
            Some(said) => {
                let end = tcp.seq_number() + tcp.segment_len();
                said.next = if end > said.next { end } else { said.next };
                // While nothing but the end is owed, whatever acknowledges more is about that, and is heard each time.
                if acknowledged >= said.acknowledged && !only_end_is_owed {
                    (said.acknowledged, said.window) = (acknowledged, window);
                }
                false
            }
            said @ None => {
                *said = Some(Said { next: tcp.seq_number() + tcp.segment_len(), acknowledged, window });
                false
            }
        }
    }

    /// Notes whether bytes wait for an acknowledgement without a clock for that; the socket wants to be asked again at
    /// `due`.
    pub(crate) fn watch_stall(&mut self, due: Option<Instant>, now: Instant) {
        let can_stall = matches!(
            self.socket().state(),
            TcpState::Established | TcpState::CloseWait | TcpState::FinWait1 | TcpState::Closing
        );
        if due.is_some() || !can_stall || self.socket().send_queue() == 0 {
            self.stalled = None;
        } else if self.stalled.is_none() {
            self.stalled = Some(now + stack_duration(STALLED_NS));
        }
    }

    /// Has the socket go on if it has stalled for long enough.
    pub(crate) fn end_stall(&mut self, now: Instant, interface: &mut Interface) {
        if self.stalled.is_none_or(|due| due > now) {
            return;
        }
        self.stalled = None;
        let (Some(said), Some(own), Some(peer)) =
            (self.said, self.socket().local_endpoint(), self.socket().remote_endpoint())
        else {
            return;
        };
        // One with another window is none that is said again: it begins the count.
        let window = said.window ^ 1;
        let (IpAddress::Ipv4(source), IpAddress::Ipv4(destination)) = (peer.addr, own.addr);
        let segment = Bare {
            source: (source, peer.port),
            destination: (destination, own.port),
            control: TcpControl::None,
            sequence: said.next,
            acknowledged: Some(said.acknowledged),
            window,
        };
        let mut packet = [0; BARE_BYTES];
        segment.emit(&mut packet);
        for _ in 0..4 {
            let mut device = Single { packet: Some(&packet), transmit: Some(Nowhere) };
            interface.poll_ingress_single(now, &mut device, &mut self.set);
        }
    }
}

/// For the answers to that.
struct Nowhere;

impl TxToken for Nowhere {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        f(&mut vec![0; length])
    }
}
