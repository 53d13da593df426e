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
    /// How many facts that are.
    pub(crate) const FIELDS: usize = 5;

    /// What they say.
    pub(crate) fn values(&self) -> [u64; Self::FIELDS] {
        [
            self.policy.load(Ordering::Relaxed).into(),
            self.nice.load(Ordering::Relaxed).cast_unsigned().into(),
            self.slack_ns.load(Ordering::Relaxed),
            self.io_priority.load(Ordering::Relaxed).into(),
            self.death_signal.load(Ordering::Relaxed).into(),
        ]
    }

    /// Has them say that.
    pub(crate) fn set(&self, [policy, nice, slack_ns, io_priority, death_signal]: [u64; Self::FIELDS]) {
        self.policy.store(policy as u32, Ordering::Relaxed);
        self.nice.store((nice as u32).cast_signed(), Ordering::Relaxed);
        self.slack_ns.store(slack_ns, Ordering::Relaxed);
        self.io_priority.store(io_priority as u32, Ordering::Relaxed);
        self.death_signal.store(death_signal as u32, Ordering::Relaxed);
    }

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

impl OfProcess {
    /// How many facts that are.
    pub(crate) const FIELDS: usize = 6;

    fn all(&self) -> [&AtomicU32; Self::FIELDS] {
        let Self { dumpable, keeps_capabilities, reaps, no_new_privileges, no_huge_pages, personality } = self;
        [dumpable, keeps_capabilities, reaps, no_new_privileges, no_huge_pages, personality]
    }

    /// What they say.
    pub(crate) fn values(&self) -> [u32; Self::FIELDS] {
        self.all().map(|fact| fact.load(Ordering::Relaxed))
    }

    /// One that says that.
    pub(crate) fn of(values: [u32; Self::FIELDS]) -> Self {
        let facts = Self::default();
        facts.all().into_iter().zip(values).for_each(|(fact, value)| fact.store(value, Ordering::Relaxed));
        facts
    }
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
