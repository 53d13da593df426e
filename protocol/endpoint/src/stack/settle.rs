//! Conclusions from what happened to a socket: who must hear of it, and whether it is done with.

use smoltcp::socket::tcp::{self, State as TcpState};

use super::listen::Arrival;
use super::net::Net;
use super::owner::{Owner, User, has_ended};
use super::table::{Before, Key};
use crate::SocketError;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A packet came.
    Packet,
    /// Time passed, or its owner did something.
    Time,
}

/// What becomes of the socket.
enum Fate {
    Stays,
    Remove,
    /// The listener has it no more.
    Unmade,
    /// It is made, and waits at its listener to be accepted.
    Made,
}

impl Net {
    /// Draws the conclusions from what happened to a socket that was like `before`.
    pub(crate) fn settle(&mut self, key: Key, before: Before, cause: Cause) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let held = entry.holding.is_some();
        let (socket, owner) = entry.split();
        let state = socket.state();
        let over = state == TcpState::Closed && socket.remote_endpoint().is_none() && !self.again.is_to_call(key);
        let fate = match owner {
            Owner::Stream => Fate::Stays,
            Owner::User(user) => {
                user.settle(socket, before, cause);
                if user.is_made_again && is_made(state) {
                    user.is_made_again = false;
                    if user.write_shut {
                        socket.close();
                    }
                }
                Fate::Stays
            }
            Owner::Listener { ready: true, .. } => Fate::Stays,
            Owner::Listener { .. } => match state {
                TcpState::Listen => Fate::Unmade,
                TcpState::Closed if over => Fate::Unmade,
                TcpState::Closed | TcpState::SynReceived => Fate::Stays,
                _ => Fate::Made,
            },
            Owner::Nobody { .. } => {
                if held && socket.recv_queue() > 0 && socket.is_open() {
                    // A program closed it, and the peer has more to say: nobody will ever hear it.
                    socket.abort();
                }
                // It was closed when it was made again.
                if is_made(state) {
                    socket.close();
                }
                // A socket that still knows its peer has a reset to send.
                if over || state == TcpState::TimeWait { Fate::Remove } else { Fate::Stays }
            }
        };
        if over {
            self.table.forget_route(key);
        }
        match fate {
            Fate::Stays => {}
            Fate::Remove => self.remove(key),
            Fate::Unmade => self.unmake(key),
            Fate::Made => self.make(key),
        }
    }

    /// A connection that a listener had been offered is not made.
    fn unmake(&mut self, key: Key) {
        if let Some(Owner::Listener { place, .. }) = self.table.get(key).map(|entry| &entry.owner)
            && let Some(listener) = self.listeners.get_mut(*place)
        {
            listener.forget(key);
            listener.admit();
        }
        self.remove(key);
    }

    /// A connection is made and waits to be accepted.
    fn make(&mut self, key: Key) {
        if let Some(Owner::Listener { place, ready, .. }) = self.table.get_mut(key).map(|entry| &mut entry.owner)
            && let Some(listener) = self.listeners.get_mut(*place)
        {
            *ready = true;
            listener.arrive(Arrival::Remote(key));
        }
    }
}

impl User {
    fn settle(&mut self, socket: &tcp::Socket<'_>, before: Before, cause: Cause) {
        if socket.state() == TcpState::Closed && before.state != TcpState::Closed {
            self.error = match core::mem::take(&mut self.is_made_again) {
                true => Some(SocketError::Reset),
                false => closing_error(before.state, cause).or(self.error),
            };
        }
        self.peer_ended |= has_ended(before.state) || has_ended(socket.state());
        self.was_connected |= !matches!(socket.state(), TcpState::SynSent | TcpState::SynReceived | TcpState::Closed);
        self.update(socket, socket.recv_queue() > before.received);
    }
}

/// Whether a connection that was being made is there.
fn is_made(state: TcpState) -> bool {
    matches!(state, TcpState::Established | TcpState::CloseWait)
}

/// The error of a connection that got closed when it was in `state`; as Linux has them (tcp_reset).
fn closing_error(state: TcpState, cause: Cause) -> Option<SocketError> {
    match (state, cause) {
        // Closed in both directions: that is how they end.
        (TcpState::LastAck | TcpState::TimeWait | TcpState::Closing, _) => None,
        (_, Cause::Time) => Some(SocketError::TimedOut),
        (TcpState::SynSent, Cause::Packet) => Some(SocketError::Refused),
        (TcpState::CloseWait, Cause::Packet) => Some(SocketError::Closed),
        (_, Cause::Packet) => Some(SocketError::Reset),
    }
}
