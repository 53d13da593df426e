//! Signs of life (keep-alive): a peer is asked for one when nothing was said for a while.
//!
//! What smoltcp sends then has a byte that the peer must have already, and is none of the program's. So the peer is
//! asked only while it is owed nothing that it may not have.

use smoltcp::socket::tcp::State as TcpState;
use smoltcp::time::{Duration, Instant};

use super::table::Entry;

/// What was asked of a connection.
#[derive(Default)]
pub(crate) struct Life {
    /// After so long.
    interval: Option<Duration>,
    /// When the first sign is asked for since nothing is owed.
    due: Option<Instant>,
}

impl Life {
    /// Whether signs are asked for.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.interval.is_some()
    }

    /// When the first one is.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }
}

impl Entry {
    /// Has the peer asked for a sign of life whenever the connection was silent for so long.
    pub(crate) fn set_keep_alive(&mut self, interval: Option<Duration>) {
        self.life = Life { interval, due: None };
        self.socket_mut().set_keep_alive(None);
    }

    /// Has signs asked for as the connection now is.
    pub(crate) fn watch_life(&mut self, now: Instant) {
        let socket = self.socket();
        let is_owed = !matches!(socket.state(), TcpState::Established | TcpState::CloseWait | TcpState::FinWait2)
            || socket.send_queue() > 0;
        let is_asking = socket.keep_alive().is_some();
        match self.life.interval {
            Some(interval) if !is_owed => {
                if is_asking {
                    return;
                }
                let due = *self.life.due.get_or_insert(now + interval);
                if due <= now {
                    self.life.due = None;
                    self.socket_mut().set_keep_alive(Some(interval));
                }
            }
            _ => {
                self.life.due = None;
                if is_asking {
                    self.socket_mut().set_keep_alive(None);
                }
            }
        }
    }
}
