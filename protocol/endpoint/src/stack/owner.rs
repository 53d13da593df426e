//! Whose a connection is.

use alloc::sync::Arc;

use smoltcp::socket::tcp::{self, State as TcpState};

use super::aside::Aside;
use super::listen::Place;
use crate::SocketError;
use crate::cell::{Cell, Readiness};

/// Who is told what happens to a connection.
pub(crate) enum Owner {
    /// A [`crate::TcpStream`] of the node, by smoltcp's own wakers.
    Stream,
    /// A program's socket.
    User(User),
    /// The listener at that place; `ready` to be accepted, or still being made.
    Listener { place: Place, ready: bool, aside: Aside },
    /// Nobody any more: it is closing. Who was closed earlier has a smaller number.
    Nobody { order: u64 },
}

/// A program's side of its connection.
pub(crate) struct User {
    pub(crate) cell: Arc<Cell>,
    /// What is read first of what was received.
    pub(crate) aside: Aside,
    /// SO_ERROR.
    pub(crate) error: Option<SocketError>,
    /// shutdown(2) was called, per direction.
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    /// It was connected once.
    pub(crate) was_connected: bool,
    /// The peer has said that it sends nothing more.
    pub(crate) peer_ended: bool,
    /// It is being made again ([`super::again`]).
    pub(crate) is_made_again: bool,
    /// It was made again, and its peer was not called yet.
    pub(crate) is_to_call: bool,
}

/// Whether the peer has said that it sends nothing more.
pub(crate) fn has_ended(state: TcpState) -> bool {
    matches!(state, TcpState::CloseWait | TcpState::LastAck | TcpState::Closing | TcpState::TimeWait)
}

impl User {
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        let (read_shut, write_shut, was_connected, peer_ended) = (false, false, false, false);
        Self {
            cell,
            aside: Aside::default(),
            error: None,
            read_shut,
            write_shut,
            was_connected,
            peer_ended,
            is_made_again: false,
            is_to_call: false,
        }
    }

    /// Says what can be done with the connection now; `news`: something came.
    pub(crate) fn update(&self, socket: &tcp::Socket<'_>, news: bool) {
        self.cell.set(self.readiness(socket), news);
    }

    /// Received and not yet taken, bytes.
    pub(crate) fn received(&self, socket: &tcp::Socket<'_>) -> usize {
        self.aside.len() + socket.recv_queue()
    }

    fn readiness(&self, socket: &tcp::Socket<'_>) -> Readiness {
        let state = socket.state();
        if self.is_to_call || matches!(state, TcpState::Listen | TcpState::SynSent | TcpState::SynReceived) {
            return Readiness::NONE;
        }
        let closed = state == TcpState::Closed;
        let (queued, capacity) = (socket.send_queue(), socket.send_capacity());
        let read_hang_up = closed || self.read_shut || has_ended(state);
        Readiness {
            readable: read_hang_up || self.received(socket) > 0,
            writable: closed || self.write_shut || capacity - queued >= queued / 2,
            error: self.error.is_some(),
            hang_up: closed || (read_hang_up && self.write_shut),
            read_hang_up,
        }
    }
}
