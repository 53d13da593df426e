//! Calling a core's attention: one word per core says where the core is and what the others want of it.
//!
//! A core says in its word that it goes into a program, or halts, and looks at the same time (it is one atomic step)
//! whether somebody wants something; then it does not go. Whoever wants something says so in the word, and sees at the
//! same time whether the core is away, so that it has to be interrupted. So nothing is missed, and nobody is
//! interrupted in vain. All of it is a few bits and their order; the models in `models.rs` look at every order there
//! is.
//!
//! **Page tables** that several cores use are changed while those are out of the program ([`Users::pause`]): the kernel
//! never uses a program's addresses, so a core that is in the kernel needs only to forget what its processor remembers
//! of the table, before it goes into the program again. Nobody waits for a core that is in the kernel, or halted.

use super::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence, spin_loop};

/// The core is in a program, or on its way there or back.
const IN_PROGRAM: u32 = 1 << 0;
/// The core is halted, or about to be.
const HALTED: u32 = 1 << 1;
/// The core is to come back to the kernel once.
const KICKED: u32 = 1 << 2;
/// A table that the core uses is or was changed: before it goes into the program, it has to forget the table.
const FLUSH: u32 = 1 << 3;

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
    /// Not yet: the core has to do [`Users::wait`] for its table, to forget what it remembers of that, and to ask
    /// again.
    Stale,
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
        if found & (KICKED | FLUSH) == 0 { Entry::Granted } else { self.refused(found) }
    }

    /// Why it cannot go. What is answered is taken back together with the wish to go: whoever wants the same again
    /// after that, says so again.
    #[cold]
    fn refused(&self, found: u32) -> Entry {
        let (answered, entry) = if found & KICKED != 0 { (KICKED, Entry::Kicked) } else { (FLUSH, Entry::Stale) };
        self.0.fetch_and(!(IN_PROGRAM | answered), Ordering::AcqRel);
        entry
    }

    /// The core is to forget its table before it goes into a program. Returns whether it is in one, and has to be
    /// interrupted.
    fn hold(&self) -> bool {
        self.0.fetch_or(FLUSH, Ordering::AcqRel) & IN_PROGRAM != 0
    }

    /// Whether the core is in a program, or about to leave or be refused one, and has not answered [`Attention::hold`].
    fn is_inside(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word & IN_PROGRAM != 0 && word & FLUSH != 0
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

    /// Whether the core is halted, or about to be, and looks at nothing.
    pub(crate) fn is_halted(&self) -> bool {
        self.0.load(Ordering::SeqCst) & HALTED != 0
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

/// Which cores use a page table, and whether it is being changed.
#[derive(Debug)]
pub(crate) struct Users {
    /// A bit each: the core may remember something of the table.
    cores: AtomicU64,
    /// Nobody goes into a program with this table now.
    paused: AtomicBool,
}

impl Users {
    /// Nobody yet, over a word of 0 and false.
    pub(crate) const fn of(cores: AtomicU64, paused: AtomicBool) -> Self {
        Self { cores, paused }
    }

    /// A core, which is in the kernel, is about to use the table. Waits while that is being changed.
    pub(crate) fn join(&self, core: usize) {
        self.cores.fetch_or(1 << core, Ordering::AcqRel);
        // Either the core is seen by who changes the table, or sees here that it is being changed.
        fence(Ordering::SeqCst);
        self.wait();
    }

    /// A core, which is in the kernel, uses the table no more, and has forgotten it.
    pub(crate) fn part(&self, core: usize) {
        self.cores.fetch_and(!(1 << core), Ordering::AcqRel);
    }

    /// Waits, in the kernel, until the table is not being changed.
    pub(crate) fn wait(&self) {
        while self.paused.load(Ordering::Acquire) {
            spin_loop();
        }
    }

    /// Keeps all cores but `own` out of programs with this table until [`Users::resume`], and waits for them to be out.
    /// One at a time may do this, and all they may use meanwhile of the table is what does not change. `words` has
    /// the cores' words; `interrupt` interrupts a core.
    pub(crate) fn pause<'a>(&self, own: usize, words: impl Fn(usize) -> &'a Attention, interrupt: impl Fn(usize)) {
        self.paused.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let others = self.cores.load(Ordering::Acquire) & !(1 << own);
        let each = || (0..u64::BITS as usize).filter(|core| others >> core & 1 != 0);
        for core in each().take(others.count_ones() as usize) {
            if words(core).hold() {
                interrupt(core);
            }
        }
        for core in each().take(others.count_ones() as usize) {
            // One that went over to another table in the meantime may be in a program with that.
            while words(core).is_inside() && self.cores.load(Ordering::Acquire) >> core & 1 != 0 {
                spin_loop();
            }
        }
    }

    /// The table is as it is to be.
    pub(crate) fn resume(&self) {
        self.paused.store(false, Ordering::Release);
    }

    /// The cores that may remember something of the table, a bit each.
    pub(crate) fn cores(&self) -> u64 {
        self.cores.load(Ordering::Acquire)
    }

    /// Whether any core may remember something of the table.
    pub(crate) fn any(&self) -> bool {
        self.cores.load(Ordering::Acquire) != 0
    }
}
