//! How long a peer may be silent: only while something is wanted of it, and from when it is.
//!
//! smoltcp has a clock for that, too, but counts from the last segment that it liked: a connection that was silent for
//! long, and rightly, would be broken off as soon as it is to end.

use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::time::{Duration, Instant};

use super::life::Life;
use super::owner::Owner;
use super::stack_duration;
use super::table::Entry;
use crate::limits::{CONNECT_NS_MAX, UNACKNOWLEDGED_NS_MAX};

/// What is known of a peer's silence.
#[derive(Default)]
pub(crate) struct Silence {
    /// When the last segment came.
    heard: Option<Instant>,
    /// How long it may last, and since when that is so.
    allowed: Option<(Duration, Instant)>,
    /// The peer is known to be gone.
    is_given_up: bool,
}

impl Silence {
    /// The peer is gone, whatever is wanted of it.
    pub(crate) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// When it has lasted too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (allowed, since) = self.allowed?;
        Some(self.heard.map_or(since, |heard| heard.max(since)) + allowed)
    }
}

impl Entry {
    /// A segment came.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.silence.heard = Some(now);
    }

    /// Starts or stops the clock, as the socket now is, and breaks the connection off if its time is up.
    pub(crate) fn watch_silence(&mut self, now: Instant) {
        let is_users = matches!(self.owner, Owner::User(_));
        let allowed = allowed(self.socket(), is_users.then_some(&self.life)).map(stack_duration);
        if self.silence.allowed.map(|(allowed, _)| allowed) != allowed {
            self.silence.allowed = allowed.map(|allowed| (allowed, now));
        }
        if self.silence.is_given_up || self.silence.deadline().is_some_and(|deadline| deadline <= now) {
            self.socket_mut().abort();
        }
    }
}

/// How long the peer of a socket may be silent, ns; of a program's, with the signs of life it asks for.
fn allowed(socket: &tcp::Socket<'_>, of_program: Option<&Life>) -> Option<u64> {
    let is_users = of_program.is_some();
    match socket.state() {
        TcpState::Closed | TcpState::Listen | TcpState::TimeWait => None,
        // A connecting stream's owner has a limit of its own.
        TcpState::SynSent => is_users.then_some(CONNECT_NS_MAX),
        // A program that sends nothing more may wait for an answer as long as it likes.
        TcpState::FinWait2 if is_users => None,
        TcpState::Established | TcpState::CloseWait => {
            let waits = socket.send_queue() > 0 || of_program.is_some_and(Life::is_wanted);
            waits.then_some(UNACKNOWLEDGED_NS_MAX)
        }
        _ => Some(UNACKNOWLEDGED_NS_MAX),
    }
}
