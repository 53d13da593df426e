//! What programs set that changes nothing on a node, and that is told again when they ask: schedulers and priorities,
//! which a node does not have, and what is for the end of parents, for dumps and for programs that are started.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Of a thread. A new one has what its creator has, but for the last.
pub(crate) struct OfThread {
    /// `SCHED_*`.
    pub(crate) policy: AtomicU32,
    /// −20 to 19.
    pub(crate) nice: AtomicI32,
    /// How late its timers may be, ns.
    pub(crate) slack_ns: AtomicU64,
    /// `ioprio_set(2)`.
    pub(crate) io_priority: AtomicU32,
    /// The signal at its parent's end.
    pub(crate) death_signal: AtomicU32,
}

/// How late timers may be by default, ns.
pub(crate) const SLACK_NS_DEFAULT: u64 = 50_000;

impl Default for OfThread {
    fn default() -> Self {
        Self {
            policy: AtomicU32::new(0),
            nice: AtomicI32::new(0),
            slack_ns: AtomicU64::new(SLACK_NS_DEFAULT),
            io_priority: AtomicU32::new(0),
            death_signal: AtomicU32::new(0),
        }
    }
}

impl OfThread {
    /// The thread was made by one that has this.
    pub(crate) fn inherit(&self, creator: &Self) {
        self.policy.store(creator.policy.load(Ordering::Relaxed), Ordering::Relaxed);
        self.nice.store(creator.nice.load(Ordering::Relaxed), Ordering::Relaxed);
        self.slack_ns.store(creator.slack_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        self.io_priority.store(creator.io_priority.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Of a process.
pub(crate) struct OfProcess {
    /// `PR_SET_DUMPABLE`.
    pub(crate) dumpable: AtomicU32,
    /// `PR_SET_KEEPCAPS`.
    pub(crate) keeps_capabilities: AtomicU32,
    /// `PR_SET_CHILD_SUBREAPER`.
    pub(crate) reaps: AtomicU32,
    /// `PR_SET_NO_NEW_PRIVS`.
    pub(crate) no_new_privileges: AtomicU32,
    /// `PR_SET_THP_DISABLE`.
    pub(crate) no_huge_pages: AtomicU32,
    /// personality(2).
    pub(crate) personality: AtomicU32,
}

impl Default for OfProcess {
    fn default() -> Self {
        Self {
            dumpable: AtomicU32::new(1),
            keeps_capabilities: AtomicU32::default(),
            reaps: AtomicU32::default(),
            no_new_privileges: AtomicU32::default(),
            no_huge_pages: AtomicU32::default(),
            personality: AtomicU32::default(),
        }
    }
}
