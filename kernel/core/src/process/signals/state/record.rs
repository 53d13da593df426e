//! The signals of a process as data.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{FaultContext, Signals, Thread};
use crate::abi::signal::{AlternateStack, SignalAction, SignalInfo};
use crate::abi::signal_set::{SIGNAL_MAX, SignalSet};
use crate::errno::Errno;
use crate::limits::{SIGNAL_BYTES, SIGNALS_FREE};
use crate::process::signals::Delivery;
use crate::process::signals::pending::Pending;
use crate::quota::{Counted, Kind, Quota};

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SignalsRecord {
    actions: Vec<SignalAction>,
    shared: PendingRecord,
    threads: BTreeMap<u32, ThreadRecord>,
    queue_limit: u32,
    stopped: bool,
    core_file: bool,
    turn: u32,
}

/// Pending signals, and what they say.
#[derive(Debug, Serialize, Deserialize)]
struct PendingRecord {
    set: SignalSet,
    infos: Vec<SignalInfo>,
}

/// What a thread has of its own.
#[derive(Debug, Serialize, Deserialize)]
struct ThreadRecord {
    blocked: SignalSet,
    saved: Option<SignalSet>,
    awaited: SignalSet,
    pending: PendingRecord,
    taken: Option<Delivery>,
    stack: AlternateStack,
    fault: FaultContext,
}

impl PendingRecord {
    fn of(pending: &Pending) -> Self {
        Self { set: pending.set(), infos: pending.infos().copied().collect() }
    }

    fn make(self) -> Pending {
        let mut pending = Pending::default();
        self.infos.into_iter().for_each(|info| pending.push(info));
        let mut left = self.set;
        while let Some(signal) = left.first() {
            left = left.and(SignalSet::of(signal).others());
            pending.mark(signal);
        }
        pending
    }
}

impl Signals {
    /// Writes them down.
    pub(crate) fn record(&self) -> SignalsRecord {
        let thread = |thread: &Thread| ThreadRecord {
            blocked: thread.blocked,
            saved: thread.saved,
            awaited: thread.awaited,
            pending: PendingRecord::of(&thread.pending),
            taken: thread.taken,
            stack: thread.stack,
            fault: thread.fault,
        };
        SignalsRecord {
            actions: self.actions.to_vec(),
            shared: PendingRecord::of(&self.shared),
            threads: self.threads.iter().map(|(id, of)| (*id, thread(of))).collect(),
            queue_limit: self.queue_limit as u32,
            stopped: self.stopped,
            core_file: self.core_file,
            turn: self.turn,
        }
    }
}

impl SignalsRecord {
    /// Makes them again; those that are pending are charged to `quota`.
    ///
    /// # Errors
    /// `EINVAL`: no process has such. `ENOMEM`.
    pub(crate) fn make(self, quota: &Arc<Quota>) -> Result<Signals, Errno> {
        let mut charged = Counted::new(SIGNAL_BYTES, SIGNALS_FREE);
        charged.charge_to(quota, Kind::Object);
        let mut actions = [SignalAction::default(); SIGNAL_MAX as usize];
        if self.actions.len() != actions.len() {
            return Err(Errno::EINVAL);
        }
        actions.copy_from_slice(&self.actions);
        let thread = |of: ThreadRecord| Thread {
            blocked: of.blocked,
            saved: of.saved,
            awaited: of.awaited,
            pending: of.pending.make(),
            taken: of.taken,
            stack: of.stack,
            fault: of.fault,
        };
        let shared = self.shared.make();
        let threads: BTreeMap<_, _> = self.threads.into_iter().map(|(id, of)| (id, thread(of))).collect();
        let queued = shared.queued() + threads.values().map(|thread| thread.pending.queued()).sum::<usize>();
        charged.cover(queued)?;
        Ok(Signals {
            actions,
            shared,
            threads,
            queued,
            charged,
            queue_limit: self.queue_limit as usize,
            stopped: self.stopped,
            core_file: self.core_file,
            debugged: false,
            turn: self.turn,
            board: None,
        })
    }
}

impl Pending {
    /// What is said by those that say something, in the order they are taken in.
    fn infos(&self) -> impl Iterator<Item = &SignalInfo> {
        self.queues().flat_map(VecDeque::iter)
    }
}
