//! When no core remembers any more where a page table was.
//!
//! A processor remembers where tables are, not only what they say, and may look into one at any time while a program's
//! table is loaded: also in the kernel, whose code never uses a program's addresses. So a table that is taken out of
//! reach is not used for anything else before every core that used the tree it was in has forgotten all it remembered,
//! or is on the kernel's own table, which is the same. Nobody waits for that: the frame does, put by
//! ([`crate::frames`]).
//!
//! Time is counted in such retirements. A core notes what time it was when it last began to forget. What was retired
//! before that, it does not know any more.

use super::atomic::{AtomicU64, Ordering, fence};

/// What time it is, and when each core has last forgotten.
pub(crate) struct Epochs<const CORES: usize> {
    now: AtomicU64,
    forgot: [AtomicU64; CORES],
}

impl<const CORES: usize> Epochs<CORES> {
    /// Nothing was retired yet, over words of 0.
    pub(crate) const fn of(now: AtomicU64, forgot: [AtomicU64; CORES]) -> Self {
        Self { now, forgot }
    }

    /// A core is about to forget all it remembers. What this returns is to be given to [`Epochs::forgot`] after that.
    #[inline]
    pub(crate) fn forgetting(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    /// A core has forgotten all it remembered when it called [`Epochs::forgetting`].
    #[inline]
    pub(crate) fn forgot(&self, core: usize, time: u64) {
        if let Some(forgot) = self.forgot.get(core) {
            forgot.store(time, Ordering::Release);
        }
    }

    /// Whether anything was retired since a core last forgot, by whomever.
    #[inline]
    pub(crate) fn is_behind(&self, core: usize) -> bool {
        self.forgot.get(core).is_some_and(|forgot| forgot.load(Ordering::Relaxed) != self.now.load(Ordering::Relaxed))
    }

    /// A core has said in its word that it halts, and looks once more before it does. Either it sees here what was
    /// retired, or who retired it sees in the word that the core has to be interrupted.
    pub(crate) fn is_behind_at_last(&self, core: usize) -> bool {
        fence(Ordering::SeqCst);
        self.is_behind(core)
    }

    /// Something was just taken out of all cores' reach. Returns the time of that. Whoever looks at cores' words after
    /// this sees those that halted without knowing it.
    pub(crate) fn retire(&self) -> u64 {
        let time = self.now.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        time
    }

    /// Whether none of these cores, a bit each, remembers what was retired at that time.
    pub(crate) fn is_over(&self, time: u64, cores: u64) -> bool {
        let knows_not = |core: usize| cores >> core & 1 == 0 || self.forgot[core].load(Ordering::Acquire) > time;
        (0..CORES.min(u64::BITS as usize)).all(knows_not)
    }
}
