//! How far the node is with keeping what a job was.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::checkpoint::{Keeping, Part, Saving};
use coppice_protocol::region::SlotKey;

use super::last::Last;
use super::save::RankPart;
use crate::executor::WaitQueue;
use crate::memory::Snapshot;
use crate::sync::{LockLevel, Mutex};

/// What was kept.
pub(super) enum Kept {
    /// The I/O node has it.
    Parts(Vec<Part>),
    /// The node's region has it.
    Local(SlotKey),
}

/// See this module.
pub(crate) struct OfJob {
    state: Mutex<State>,
    changed: WaitQueue,
}

#[derive(Default)]
struct State {
    /// Whose it is.
    by: u64,
    /// How it is to be done.
    keeping: Keeping,
    progress: Saving,
    /// Ranks that have said what they are.
    parts: Vec<RankPart>,
    /// Their pages and those that they share, to be given up with the rest.
    snapshots: Vec<Arc<Snapshot>>,
    /// What was kept last.
    last: Option<Last>,
    /// A task is at it.
    runs: bool,
    /// It is to stop, for this.
    given_up: Option<String>,
}

impl Default for OfJob {
    fn default() -> Self {
        Self { state: Mutex::new(LockLevel::Job, State::default()), changed: WaitQueue::new() }
    }
}

impl OfJob {
    /// Begins one. False: an earlier one is still being kept.
    pub(crate) fn begin(&self, by: u64, keeping: Keeping) -> bool {
        let mut state = self.state.lock();
        if state.runs {
            return false;
        }
        let last = state.last.take();
        *state = State { by, keeping, last, ..State::default() };
        true
    }

    /// A rank has said what it is.
    pub(crate) fn add(&self, part: RankPart) {
        let mut state = self.state.lock();
        state.progress.pages.1 += part.pages();
        state.snapshots.push(part.snapshot());
        state.parts.push(part);
    }

    /// What ranks have said.
    pub(super) fn take(&self) -> Vec<RankPart> {
        core::mem::take(&mut self.state.lock().parts)
    }

    /// Whose it is, and how it is to be done.
    pub(super) fn order(&self) -> (u64, Keeping) {
        let state = self.state.lock();
        (state.by, state.keeping)
    }

    /// A task keeps that from now on, with what ranks share, after so many barriers.
    pub(super) fn runs(&self, barriers: u64, shared: Vec<Arc<Snapshot>>) {
        let mut state = self.state.lock();
        state.progress.barriers = barriers;
        state.progress.pages.1 += shared.iter().map(|snapshot| snapshot.pages()).sum::<u64>();
        state.snapshots.extend(shared);
        state.runs = true;
    }

    /// So much more is kept.
    pub(super) fn kept(&self, pages: u64, bytes: u64) {
        let mut state = self.state.lock();
        state.progress.pages.0 += pages;
        state.progress.bytes += bytes;
    }

    /// What was kept last, if that is what need not be kept again. It is forgotten.
    pub(super) fn take_last(&self) -> Option<Last> {
        let (last, since) = {
            let mut state = self.state.lock();
            (state.last.take(), state.keeping.since)
        };
        last.filter(|last| since == Some(last.by))
    }

    /// That was kept.
    pub(super) fn remember(&self, last: Last) {
        self.state.lock().last = Some(last);
    }

    /// Nobody needs what was kept last.
    pub(crate) fn forget(&self) {
        let last = self.state.lock().last.take();
        drop(last);
    }

    /// The task is done.
    pub(super) fn done(&self, result: Result<Kept, String>) {
        let snapshots = {
            let mut state = self.state.lock();
            match result {
                Ok(Kept::Parts(parts)) => state.progress.parts = Some(parts),
                Ok(Kept::Local(slot)) => state.progress.local = Some(slot),
                Err(why) => state.progress.failed = Some(state.given_up.take().unwrap_or(why)),
            }
            state.runs = false;
            core::mem::take(&mut state.snapshots)
        };
        drop(snapshots);
        self.changed.wake_all();
    }

    /// How far it is, if it is this one's.
    pub(crate) fn told(&self, by: u64) -> Option<Saving> {
        let state = self.state.lock();
        (state.by == by && by != 0).then(|| state.progress.clone())
    }

    /// It is not to be kept after all, for this.
    pub(crate) fn give_up(&self, why: &str) {
        let (parts, snapshots) = {
            let mut state = self.state.lock();
            let is_over = state.progress.is_over();
            if !is_over && state.by != 0 {
                state.given_up = Some(why.into());
                if !state.runs {
                    state.progress.failed = Some(why.into());
                }
            }
            (core::mem::take(&mut state.parts), core::mem::take(&mut state.snapshots))
        };
        drop(parts);
        snapshots.iter().for_each(|snapshot| {
            snapshot.give_up();
        });
        self.changed.wake_all();
    }

    /// Waits until it is given up.
    pub(super) async fn given_up(&self) {
        self.changed.wait_until(|| self.state.lock().given_up.is_some().then_some(())).await;
    }

    /// Waits until no task is at it.
    pub(crate) async fn idle(&self) {
        self.changed.wait_until(|| (!self.state.lock().runs).then_some(())).await;
    }
}
