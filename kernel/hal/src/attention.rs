//! Calling a core's attention: one word per core says where the core is and what the others want of it.
//!
//! A core says in its word that it goes into a program, or halts, and looks at the same time (it is one atomic step)
//! whether somebody wants something; then it does not go. Whoever wants something says so in the word, and sees at the
//! same time whether the core is away, so that it has to be interrupted. So nothing is missed, and nobody is
//! interrupted in vain. All of it is a few bits and their order; the models in `models.rs` look at every order there
//! is.

use super::atomic::{AtomicU32, Ordering};

/// The core is in a program, or on its way there or back.
const IN_PROGRAM: u32 = 1 << 0;
/// The core is halted, or about to be.
const HALTED: u32 = 1 << 1;
/// The core is to come back to the kernel once.
const KICKED: u32 = 1 << 2;

/// The word of a core.
#[derive(Debug)]
pub(crate) struct Attention(AtomicU32);

/// What came of the wish to go into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Go.
    Granted,
    /// Don't: the core was kicked.
    Kicked,
}

impl Attention {
    /// Of a core that is in the kernel, over a word of 0.
    pub(crate) const fn of(word: AtomicU32) -> Self {
        Self(word)
    }

    /// The core wants to go into a program. To be followed by [`Attention::leave`] if it is granted.
    #[inline]
    pub(crate) fn enter(&self) -> Entry {
        let found = self.0.fetch_add(IN_PROGRAM, Ordering::AcqRel);
        if found & KICKED == 0 { Entry::Granted } else { self.refused() }
    }

    /// Why it cannot go.
    #[cold]
    fn refused(&self) -> Entry {
        self.0.fetch_and(!(IN_PROGRAM | KICKED), Ordering::AcqRel);
        Entry::Kicked
    }

    /// The core is back from a program.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(IN_PROGRAM, Ordering::AcqRel);
    }

    /// The core wants to halt. To be followed by [`Attention::wake`] if this returns true; if not, the core was kicked.
    pub(crate) fn halt(&self) -> bool {
        let may = self.0.fetch_add(HALTED, Ordering::AcqRel) & KICKED == 0;
        if !may {
            self.wake();
        }
        may
    }

    /// The core was halted. It was kicked, perhaps, and has come back.
    pub(crate) fn wake(&self) {
        self.0.fetch_and(!(HALTED | KICKED), Ordering::AcqRel);
    }

    /// The core is about to look at everything that it could have been kicked for: a kick that came before counts no
    /// more.
    #[inline]
    pub(crate) fn look(&self) {
        if self.0.load(Ordering::Relaxed) & KICKED != 0 {
            self.0.fetch_and(!KICKED, Ordering::AcqRel);
        }
    }

    /// Another core, or this one, wants the core to come back to the kernel, once. Returns whether it has to be
    /// interrupted for that.
    pub(crate) fn kick(&self) -> bool {
        let found = self.0.fetch_or(KICKED, Ordering::AcqRel);
        found & KICKED == 0 && found & (IN_PROGRAM | HALTED) != 0
    }
}
