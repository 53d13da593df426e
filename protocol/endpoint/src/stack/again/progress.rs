//! How far connections are that are being made again, and whom a node lets connect meanwhile.
//!
//! A call may be a program's, which has gone on elsewhere already, or for a connection that is made again; nothing in
//! it says which. While nodes call for those, no program goes on anywhere: all other calls are refused, so that nobody
//! waits for an end that is no more. Once all nodes have called, others get connections, but nobody gets one between
//! the names of one that was given up here: whoever calls from there takes it for the one that was.

use alloc::vec::Vec;

use smoltcp::time::Instant;

use crate::SocketError;
use crate::limits::CALLS_REFUSED_NS;
use crate::local::record::HalfMade;
use crate::record::Stage;
use crate::stack::stack_duration;
use crate::stack::table::{Key, Route};

/// How far they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// None is being made.
    #[default]
    Idle,
    /// Sockets are made, and call for their connections.
    Calling,
    /// All have called: those who were called answer.
    Settling,
}

/// See this module.
#[derive(Default)]
pub(crate) struct Again {
    pub(crate) half_made: HalfMade,
    phase: Phase,
    /// Connections that this side is to call for.
    calls: Vec<Key>,
    /// Those that programs were calling for, which they go on with when all others are made.
    calls_of_programs: Vec<Key>,
    /// How many are being made, for each of which there is room in `refused`.
    made: usize,
    /// The names of those that were given up, and until when nobody is to connect there.
    refused: Vec<Route>,
    refused_until: Option<Instant>,
    /// How many that is this time.
    late: usize,
}

impl Again {
    /// Sockets are made again from now on, until that is ended.
    pub(crate) fn begin(&mut self) {
        if self.phase == Phase::Idle {
            self.refused.clear();
            (self.phase, self.made, self.late) = (Phase::Calling, 0, 0);
        }
    }

    /// Makes room for one more.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`].
    pub(super) fn reserve(&mut self, stage: Stage) -> Result<(), SocketError> {
        let calls = match stage {
            Stage::Connecting => &mut self.calls_of_programs,
            Stage::Open | Stage::Over => &mut self.calls,
        };
        let room = calls.try_reserve(1).and_then(|()| self.refused.try_reserve(self.made + 1));
        room.map_err(|_| SocketError::NoMemory)
    }

    /// One is made that there is room for. It calls, or waits to be called.
    pub(super) fn add(&mut self, key: Key, stage: Stage, waits: bool) {
        match stage {
            Stage::Over => return,
            Stage::Connecting => self.calls_of_programs.push(key),
            Stage::Open if waits => {}
            Stage::Open => self.calls.push(key),
        }
        self.made += 1;
    }

    /// Whether a connection was made again that has not called its peer yet.
    pub(crate) fn is_to_call(&self, key: Key) -> bool {
        self.phase != Phase::Idle && (self.calls.contains(&key) || self.calls_of_programs.contains(&key))
    }

    /// Those that are to be called for now.
    pub(super) fn take_calls(&mut self) -> Vec<Key> {
        core::mem::take(&mut self.calls)
    }

    /// Others may connect from now on.
    pub(super) fn settle(&mut self) {
        self.phase = Phase::Settling;
    }

    /// Nobody is to connect between these names for a while.
    pub(super) fn refuse(&mut self, route: Option<Route>, now: Instant) {
        self.late += 1;
        self.refused_until = Some(now + stack_duration(CALLS_REFUSED_NS));
        if let Some(route) = route
            && self.refused.len() < self.refused.capacity()
        {
            self.refused.push(route);
        }
    }

    /// Nothing is being made any more. Gives how many were given up, and what programs are calling for.
    pub(super) fn end(&mut self) -> (usize, Vec<Key>) {
        self.phase = Phase::Idle;
        (self.late + self.half_made.give_up(), core::mem::take(&mut self.calls_of_programs))
    }

    /// The node leaves its job: the next one has other connections between the same names.
    pub(crate) fn leave_job(&mut self) {
        self.half_made.give_up();
        *self = Self::default();
    }

    /// Whether somebody who calls is not to get a connection.
    pub(crate) fn refuses(&self, route: Route, now: Instant) -> bool {
        self.phase == Phase::Calling
            || self.refused_until.is_some_and(|until| now < until) && self.refused.contains(&route)
    }
}
