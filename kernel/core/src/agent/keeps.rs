//! Orders to keep files: those that are under way, and what was answered to the last ones, for orders that come twice.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use coppice_protocol::keep::KeepOutcome;
use coppice_protocol::limits::KEEPS_PER_NODE_MAX;

use crate::executor::WaitQueue;
use crate::limits::KEEP_ANSWERS_KEPT_MAX;
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(super) struct Keeps(Mutex<State>);

#[derive(Default)]
struct State {
    under_way: BTreeMap<u64, Arc<Switch>>,
    /// Answers, oldest first.
    given: VecDeque<(u64, KeepOutcome)>,
}

/// Ends one of them.
#[derive(Default)]
pub(super) struct Switch {
    used: AtomicBool,
    waiters: WaitQueue,
}

impl Switch {
    /// Waits until it is used.
    pub(super) async fn is_used(&self) {
        self.waiters.wait_until(|| self.used.load(Ordering::Acquire).then_some(())).await;
    }

    fn make_use(&self) {
        self.used.store(true, Ordering::Release);
        self.waiters.wake_all();
    }
}

/// What becomes of an order.
pub(super) enum Entry {
    /// It is to be carried out, until this is used.
    New(Arc<Switch>),
    /// It is under way, and not answered yet.
    Known,
    /// It was answered so.
    Answered(KeepOutcome),
    /// There is no place for it.
    Refused(String),
}

impl Default for Keeps {
    fn default() -> Self {
        Self(Mutex::new(LockLevel::Agent, State::default()))
    }
}

impl Keeps {
    /// An order came.
    pub(super) fn enter(&self, request: u64) -> Entry {
        let mut state = self.0.lock();
        if let Some((_, outcome)) = state.given.iter().rev().find(|(of, _)| *of == request) {
            return Entry::Answered(outcome.clone());
        }
        if state.under_way.contains_key(&request) {
            return Entry::Known;
        }
        if state.under_way.len() >= KEEPS_PER_NODE_MAX {
            return Entry::Refused(format!(
                "the node has {KEEPS_PER_NODE_MAX} other files on their way; try again later"
            ));
        }
        let switch: Arc<Switch> = Arc::default();
        state.under_way.insert(request, Arc::clone(&switch));
        Entry::New(switch)
    }

    /// One was answered so; at the limit the oldest answer is forgotten.
    pub(super) fn answered(&self, request: u64, outcome: &KeepOutcome) {
        let mut state = self.0.lock();
        if state.given.len() >= KEEP_ANSWERS_KEPT_MAX {
            state.given.pop_front();
        }
        state.given.push_back((request, outcome.clone()));
    }

    /// One is to be under way no longer.
    pub(super) fn end(&self, request: u64) {
        let switch = self.0.lock().under_way.get(&request).cloned();
        if let Some(switch) = switch {
            switch.make_use();
        }
    }

    /// One is under way no longer.
    pub(super) fn left(&self, request: u64) {
        self.0.lock().under_way.remove(&request);
    }
}
