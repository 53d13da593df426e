//! Signals that were sent and not taken yet.

use alloc::collections::{BTreeMap, VecDeque};

use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{REAL_TIME_MIN, SignalSet};

/// Pending signals of a thread, or of a process. A standard signal is pending once, however often it was sent;
/// real-time ones wait in the order they were sent in.
#[derive(Debug, Default)]
pub(super) struct Pending {
    set: SignalSet,
    infos: BTreeMap<u32, VecDeque<SignalInfo>>,
}

impl Pending {
    /// Which signals are pending.
    pub(super) const fn set(&self) -> SignalSet {
        self.set
    }

    /// Whether this signal would have no effect: a standard one is pending, or one of the same timer.
    pub(super) fn has(&self, info: &SignalInfo) -> bool {
        let Some(timer) = info.timer_id() else { return info.signal < REAL_TIME_MIN && self.set.contains(info.signal) };
        self.infos.get(&info.signal).is_some_and(|queue| queue.iter().any(|other| other.timer_id() == Some(timer)))
    }

    /// Adds a signal, of which there is room for what it says.
    pub(super) fn push(&mut self, info: SignalInfo) {
        self.set = self.set.or(SignalSet::of(info.signal));
        // Most are alone.
        self.infos.entry(info.signal).or_insert_with(|| VecDeque::with_capacity(1)).push_back(info);
    }

    /// Adds a signal without what it says, for which there is no room.
    pub(super) fn mark(&mut self, signal: u32) {
        self.set = self.set.or(SignalSet::of(signal));
    }

    /// Takes the first one of `wanted`. Says also whether it took room.
    pub(super) fn take(&mut self, wanted: SignalSet) -> Option<(SignalInfo, bool)> {
        let signal = self.set.and(wanted).first()?;
        let mut queue = self.infos.remove(&signal).unwrap_or_default();
        let info = queue.pop_front();
        if queue.len() < queue.capacity() / 4 {
            queue.shrink_to(2 * queue.len());
        }
        if queue.is_empty() {
            self.set = self.set.and(SignalSet::of(signal).others());
        } else {
            self.infos.insert(signal, queue);
        }
        // Linux, too, says that nobody in particular sent it.
        Some((info.unwrap_or(SignalInfo::user(signal, 0, 0)), info.is_some()))
    }

    /// What the first one of this signal says.
    pub(super) fn first_of(&self, signal: u32) -> Option<SignalInfo> {
        let said = self.infos.get(&signal).and_then(|queue| queue.front()).copied();
        self.set.contains(signal).then(|| said.unwrap_or(SignalInfo::user(signal, 0, 0)))
    }

    /// Forgets all of `unwanted`. Gives for how many there is room again.
    pub(super) fn forget(&mut self, unwanted: SignalSet) -> usize {
        if self.set.and(unwanted).is_empty() {
            return 0;
        }
        self.set = self.set.and(unwanted.others());
        let forgotten = self.infos.extract_if(.., |signal, _| unwanted.contains(*signal));
        forgotten.map(|(_, queue)| queue.len()).sum()
    }

    /// Forgets those of a timer. Gives for how many there is room again.
    pub(super) fn forget_timer(&mut self, id: u32) -> usize {
        let before = self.queued();
        for queue in self.infos.values_mut() {
            queue.retain(|info| info.timer_id() != Some(id));
        }
        let after = self.queued();
        for (signal, _) in self.infos.extract_if(.., |_, queue| queue.is_empty()) {
            self.set = self.set.and(SignalSet::of(signal).others());
        }
        before - after
    }

    /// The queues of those that say something.
    pub(super) fn queues(&self) -> impl Iterator<Item = &VecDeque<SignalInfo>> {
        self.infos.values()
    }

    /// For how many there is room taken.
    pub(super) fn queued(&self) -> usize {
        self.infos.values().map(VecDeque::len).sum()
    }
}
