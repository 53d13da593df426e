//! Where a process is in its program, as whoever looks at a job from outside wants to know: it is looked now and then,
//! and counted how often each stack was seen ([`Stacks`]).
//!
//! Each of its threads is looked at after it has been in its program for about a period, by its own time there
//! ([`crate::thread`]): so a thread that waits, or is in the kernel, is not, and what it does is seen in proportion to
//! the time that it takes. A thread notes itself where it is. All of that only while its time is measured, too
//! ([`Process::measure`]).
//!
//! What was seen is kept until somebody takes it, in a table whose size has a limit and which is charged while it is
//! there. What nobody has taken when the process ends, or becomes data, is lost.

use coppice_protocol::limits::{
    OVERLAY_LEAVES_MAX, OVERLAY_SAMPLE_PERIOD_NS_MIN, OVERLAY_STACK_ADDRESSES_MAX, OVERLAY_STACKS_MAX,
};
use coppice_protocol::overlay::Stacks;

use crate::process::Process;
use crate::quota::Charge;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{LockLevel, Mutex};

/// What the table takes of the heap at most, bytes: a block takes twice what is in it at most.
const TABLE_BYTES: usize = OVERLAY_STACKS_MAX * Stacks::DEEP_BYTES
    + OVERLAY_LEAVES_MAX * Stacks::LEAF_BYTES
    + 2 * OVERLAY_STACK_ADDRESSES_MAX * size_of::<u64>();

/// See this module.
pub(crate) struct Profile {
    /// How long a thread is in its program between two looks, on average, ns; 0: it is not looked at.
    period_ns: AtomicU64,
    table: Mutex<Option<Table>>,
    /// It was said that there is no memory for a table.
    is_refused: AtomicBool,
}

struct Table {
    stacks: Stacks,
    _charge: Charge,
}

impl Profile {
    /// Nobody looks.
    pub(crate) const fn none() -> Self {
        Self {
            period_ns: AtomicU64::new(0),
            table: Mutex::new(LockLevel::Fact, None),
            is_refused: AtomicBool::new(false),
        }
    }

    /// How long a thread is in its program between two looks, on average, ns; 0: it is not looked at.
    #[inline]
    pub(crate) fn period_ns(&self) -> u64 {
        self.period_ns.load(Ordering::Relaxed)
    }

    /// A thread was seen somewhere, so often.
    pub(crate) fn add(&self, stack: &[u64], looks: u64) {
        if let Some(table) = &mut *self.table.lock() {
            table.stacks.add(stack, looks);
        }
    }
}

impl Process {
    /// Has its threads be looked at so often from now on, ns of their time in the program, on average; 0: not at all.
    /// If there is no memory to keep what is seen, they are not. To be called on any core.
    pub(crate) fn sample(&self, period_ns: u64) {
        let profile = &self.profile;
        if period_ns == 0 {
            profile.is_refused.store(false, Ordering::Relaxed);
            profile.period_ns.store(0, Ordering::Relaxed);
            let gone = profile.table.lock().take();
            return drop(gone);
        }
        let has_table = profile.table.lock().is_some();
        if !has_table {
            match self.node.quota.charge(TABLE_BYTES) {
                Ok(charge) => *profile.table.lock() = Some(Table { stacks: Stacks::default(), _charge: charge }),
                Err(errno) => {
                    if !profile.is_refused.swap(true, Ordering::Relaxed) {
                        log::warn!("rank {}: where it is in its program is not looked at: {errno}", self.identity.rank);
                    }
                    return;
                }
            }
        }
        let period_ns = period_ns.max(OVERLAY_SAMPLE_PERIOD_NS_MIN);
        if profile.period_ns.swap(period_ns, Ordering::Relaxed) != period_ns {
            // They begin as soon as they have come back.
            self.call_all();
        }
    }

    /// What was seen since this was called last.
    pub(crate) fn take_stacks(&self) -> Stacks {
        self.profile.table.lock().as_mut().map(|table| core::mem::take(&mut table.stacks)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
