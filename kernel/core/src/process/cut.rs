//! A cut through a job: all of its ranks stand, on all nodes, nothing is on its way between them, and what they are is
//! data.
//!
//! The service node leads through it in steps ([`coppice_protocol::inspect::cut`]), each of which all nodes have done
//! before any does the next. This is how far it is on one node. Each rank here goes through its phases as a member
//! ([`Member`]); a step is done when all of them have arrived.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_endpoint::record::OrphanRecord;

use super::Process;
use super::hold::Held;
use crate::executor::WaitQueue;
use crate::net::Network;
use crate::sync::{LockLevel, Mutex};

/// Why a step is not done when a rank was ended.
const ENDED: &str = "a rank has come to its end";

/// Why one is not that somebody else has done, or given up.
const OVERTAKEN: &str = "the cut has gone on without it";

/// How far a cut is on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// There is none.
    #[default]
    None,
    /// All threads are held.
    Stopped,
    /// Ranks become data.
    Record,
    /// What they are is taken down, to be kept.
    Save,
    /// Ranks let go of what carries their sockets' bytes.
    Forget,
    /// Ranks are made again from what was written down.
    Make,
    /// Ranks go on.
    Go,
}

/// What ranks are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The next phase has begun.
    On,
    /// There is no cut after all: they go on with what they had.
    Back,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Who leads.
    by: u64,
    /// Until when the next step must have come, ns of the monotonic clock.
    until_ns: u64,
    /// It was given up before anything was let go of.
    is_given_up: bool,
    /// Ranks that do not take part yet, and those that do.
    held: Vec<Held>,
    members: usize,
    /// How many of them have arrived in this phase, and how many go on.
    arrived: usize,
    done: usize,
    /// Why one could not.
    failed: Option<String>,
    /// The node's.
    network: Option<Arc<dyn Network>>,
    /// Connections that nobody here has any more.
    orphans: Vec<OrphanRecord>,
}

/// See this module.
pub(crate) struct Cut {
    state: Mutex<State>,
    changed: WaitQueue,
}

impl Cut {
    /// None.
    pub(super) fn none() -> Self {
        Self { state: Mutex::new(LockLevel::Fact, State::default()), changed: WaitQueue::new() }
    }

    /// Begins one, of ranks whose threads are held from now on. Gives them back if there is one of somebody else's.
    pub(crate) fn begin(
        &self,
        by: u64,
        held: Vec<Held>,
        network: Arc<dyn Network>,
        until_ns: u64,
    ) -> Result<(), Vec<Held>> {
        let mut state = self.state.lock();
        if state.phase != Phase::None {
            return Err(held);
        }
        let members = held.len();
        let network = Some(network);
        *state = State { phase: Phase::Stopped, by, until_ns, held, members, network, ..State::default() };
        Ok(())
    }

    /// A rank that is made from a checkpoint takes part from where it is made, as one of so many here.
    ///
    /// # Errors
    /// [`OVERTAKEN`]: it is too late, or there is another cut.
    pub(crate) fn join(
        self: &Arc<Self>,
        by: u64,
        members: usize,
        network: Arc<dyn Network>,
        until_ns: u64,
    ) -> Result<(Member, bool), String> {
        let mut state = self.state.lock();
        let is_first = state.phase == Phase::None;
        if is_first {
            *state = State { phase: Phase::Make, by, members, network: Some(network), ..State::default() };
        }
        if (state.phase, state.by) != (Phase::Make, by) {
            return Err(OVERTAKEN.into());
        }
        state.until_ns = until_ns;
        drop(state);
        Ok((Member { cut: Arc::clone(self), is_done: false }, is_first))
    }

    /// Whether there is one.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state.lock().phase != Phase::None
    }

    /// How far it is, if it is this one's.
    pub(crate) fn phase_of(&self, by: u64) -> Phase {
        let state = self.state.lock();
        if state.by == by { state.phase } else { Phase::None }
    }

    /// How far it is.
    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// The network that its ranks are in, while there is one.
    pub(crate) fn network(&self) -> Option<Arc<dyn Network>> {
        self.state.lock().network.clone()
    }

    /// A step has come: the next is to come until then, ns of the monotonic clock.
    pub(crate) fn renew(&self, until_ns: u64) {
        self.state.lock().until_ns = until_ns;
    }

    /// Waits until it is over, or the next step has not come in time; then gives whose cut it is.
    pub(crate) async fn overdue(&self, by: u64) -> bool {
        loop {
            let until_ns = {
                let state = self.state.lock();
                if state.by != by || state.phase == Phase::None {
                    return false;
                }
                state.until_ns
            };
            if crate::executor::now_ns() >= until_ns {
                return true;
            }
            let is_over = || (self.phase_of(by) == Phase::None).then_some(());
            // It may have been renewed meanwhile.
            let _ = crate::executor::timeout_at(until_ns, self.changed.wait_until(is_over)).await;
        }
    }

    /// Has its ranks begin the next phase; not if it is over by now, or somebody else has gone on with it.
    ///
    /// # Errors
    /// [`OVERTAKEN`].
    pub(crate) fn enter(&self, from: Phase, phase: Phase) -> Result<(), String> {
        {
            let mut state = self.state.lock();
            if state.phase != from {
                return Err(OVERTAKEN.into());
            }
            (state.phase, state.arrived) = (phase, 0);
        }
        self.changed.wake_all();
        Ok(())
    }

    /// Waits until all ranks have arrived in this phase.
    ///
    /// # Errors
    /// Why one could not.
    pub(crate) async fn arrived(&self) -> Result<(), String> {
        self.all(|state| state.arrived).await
    }

    /// Waits until all ranks go on.
    ///
    /// # Errors
    /// Why one could not.
    pub(crate) async fn done(&self) -> Result<(), String> {
        self.all(|state| state.done).await
    }

    async fn all(&self, so_far: fn(&State) -> usize) -> Result<(), String> {
        let look = || {
            let mut state = self.state.lock();
            match state.failed.take() {
                Some(why) => Some(Err(why)),
                None => (so_far(&state) >= state.members).then_some(Ok(())),
            }
        };
        self.changed.wait_until(look).await
    }

    /// A rank has come to its end that may be a member and does not know.
    pub(crate) fn ended(&self, process: &Arc<Process>) {
        let left = {
            let mut state = self.state.lock();
            let index = state.held.iter().position(|held| held.is_of(process));
            let left = index.map(|index| state.held.swap_remove(index));
            if left.is_some() {
                state.leave();
            }
            left
        };
        if left.is_some() {
            self.changed.wake_all();
        }
    }

    /// Whether there is one that has no members any more, and whether what was let go of is to be made again in it.
    pub(crate) fn is_deserted(&self) -> Option<bool> {
        let state = self.state.lock();
        (state.phase != Phase::None && state.members == 0).then_some(state.phase >= Phase::Forget)
    }

    /// It is over: nobody is a member any more.
    pub(crate) fn end(&self) {
        let ended = core::mem::take(&mut *self.state.lock());
        drop(ended);
        self.changed.wake_all();
    }

    /// Ranks that are data go on with what they had.
    pub(crate) fn give_up(&self) {
        let never_taken_down = {
            let mut state = self.state.lock();
            state.is_given_up = true;
            state.failed = None;
            state.members -= state.held.len();
            core::mem::take(&mut state.held)
        };
        drop(never_taken_down);
        self.changed.wake_all();
    }

    /// Keeps what was written down of connections that nobody has.
    pub(crate) fn keep_orphans(&self, orphans: Vec<OrphanRecord>) {
        self.state.lock().orphans = orphans;
    }

    /// What was kept.
    pub(crate) fn take_orphans(&self) -> Vec<OrphanRecord> {
        core::mem::take(&mut self.state.lock().orphans)
    }

    /// Waits until a process is to become data, as a member from then on.
    pub(crate) async fn wanted(self: &Arc<Self>, process: &Arc<Process>) -> (Held, Member) {
        let look = || {
            let mut state = self.state.lock();
            if state.phase != Phase::Record {
                return None;
            }
            let index = state.held.iter().position(|held| held.is_of(process))?;
            Some(state.held.swap_remove(index))
        };
        let held = self.changed.wait_until(look).await;
        (held, Member { cut: Arc::clone(self), is_done: false })
    }
}

impl State {
    /// One that takes part does not any more. Why it could not, if it has said so, says more than that.
    fn leave(&mut self) {
        self.members = self.members.saturating_sub(1);
        self.failed.get_or_insert_with(|| ENDED.into());
    }
}

/// A rank that takes part in a cut, until this is dropped: who leads need not wait for it then.
pub(crate) struct Member {
    cut: Arc<Cut>,
    is_done: bool,
}

impl Member {
    /// It is as far as this phase wants it, or it could not be.
    pub(crate) fn arrive(&self, result: Result<(), String>) {
        {
            let mut state = self.cut.state.lock();
            match result {
                Ok(()) => state.arrived += 1,
                Err(why) => state.failed = Some(why),
            }
        }
        self.cut.changed.wake_all();
    }

    /// Waits for a phase.
    pub(crate) async fn next(&self, phase: Phase) -> Way {
        let look = || {
            let state = self.cut.state.lock();
            // Who was late, and finds that it is over, has what it had, or makes what it can.
            if phase <= Phase::Forget && (state.is_given_up || state.phase == Phase::None) {
                return Some(Way::Back);
            }
            (state.phase >= phase || state.phase == Phase::None).then_some(Way::On)
        };
        self.cut.changed.wait_until(look).await
    }

    /// Whether this is the phase now.
    pub(crate) fn is_at(&self, phase: Phase) -> bool {
        self.cut.state.lock().phase == phase
    }

    /// It goes on.
    pub(crate) fn done(mut self) {
        self.is_done = true;
        self.cut.state.lock().done += 1;
        self.cut.changed.wake_all();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        self.cut.state.lock().leave();
        self.cut.changed.wake_all();
    }
}
