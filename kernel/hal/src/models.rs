//! Models of what cores do with each other, looked at in every order that the processor and the compiler allow (loom).
//! The modules are those of the kernel, compiled once more with atomics that can be watched.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::thread;

use self::attention::{Attention, Entry, Users};
use self::epochs::Epochs;

#[expect(clippy::duplicate_mod, reason = "the same with atomics that can be watched")]
#[path = "attention.rs"]
mod attention;
#[path = "epochs.rs"]
mod epochs;
mod steps;

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now as spin_loop;
}

/// Has a model's core interrupted: what the machine does with an interrupt.
struct Line(AtomicBool);

impl Line {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn raise(&self) {
        self.0.swap(true, Ordering::AcqRel);
    }

    /// Is away until interrupted. A core that is never interrupted is a model that never ends, which loom says.
    fn wait(&self) {
        while !self.0.load(Ordering::Acquire) {
            thread::yield_now();
        }
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// A core that looks at its queue again and again until there is something, and `rests` in between, while another
/// puts something there and kicks it.
fn kicked(rests: fn(&Attention, &Line)) {
    loom::model(move || {
        let shared = Arc::new((Attention::of(AtomicU32::new(0)), Line::new(), AtomicBool::new(false)));
        let other = Arc::clone(&shared);
        let kicker = thread::spawn(move || {
            let (core, line, queue) = &*other;
            queue.store(true, Ordering::Relaxed);
            if core.kick() {
                line.raise();
            }
        });
        let (core, line, queue) = &*shared;
        core.look();
        while !queue.load(Ordering::Relaxed) {
            rests(core, line);
        }
        kicker.join().expect("no panic");
    });
}

#[test]
fn no_kick_is_lost_before_a_halt() {
    kicked(|core, line| {
        if core.halt() {
            line.wait();
            core.wake();
        }
        core.look();
    });
}

#[test]
fn no_kick_is_lost_before_a_program() {
    kicked(|core, line| {
        // The program computes for ever.
        if core.enter() == Entry::Granted {
            line.wait();
            core.leave();
        }
    });
}

/// A page table of one entry, the frame it leads to, and a core.
struct Mapping {
    core: Attention,
    users: Users,
    /// The entry leads to the frame.
    present: AtomicBool,
    /// The frame: loom sees who uses it when.
    frame: UnsafeCell<u32>,
}

// SAFETY: loom finds out who uses the frame while another does.
unsafe impl Sync for Mapping {}
// SAFETY: as above.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            core: Attention::of(AtomicU32::new(0)),
            users: Users::of(AtomicU64::new(0), AtomicBool::new(false)),
            present: AtomicBool::new(true),
            frame: UnsafeCell::new(0),
        })
    }

    /// What core 0 does: it uses the table for some stays in the program, in each of which that touches the page. The
    /// processor may look the page up at any time, and remembers what it found.
    fn run_program(&self, stays: usize) {
        self.users.join(0);
        let mut remembered = None;
        for _ in 0..stays {
            remembered.get_or_insert_with(|| self.present.load(Ordering::Relaxed));
            loop {
                match self.core.enter() {
                    Entry::Granted => break,
                    // It would look at what there is to do, and come again.
                    Entry::Kicked => {}
                    Entry::Stale => {
                        self.users.wait();
                        remembered = None;
                    }
                }
            }
            if *remembered.get_or_insert_with(|| self.present.load(Ordering::Relaxed)) {
                // SAFETY: loom panics if the frame is changed at the same time.
                self.frame.with(|frame| unsafe { assert_eq!(*frame, 0, "the frame is somebody else's") });
            }
            self.core.leave();
        }
        self.users.part(0);
        assert!(!self.users.any());
    }

    /// What core 1 does: it takes the page out of the table, and the frame goes to somebody else.
    fn unmap(&self) {
        self.users.pause(1, |_| &self.core, |_| {});
        self.present.store(false, Ordering::Relaxed);
        // SAFETY: as above.
        self.frame.with_mut(|frame| unsafe { *frame += 1 });
        self.users.resume();
    }
}

#[test]
fn no_core_uses_a_page_that_is_gone() {
    loom::model(|| {
        let mapping = Mapping::new();
        let other = Arc::clone(&mapping);
        let unmapper = thread::spawn(move || other.unmap());
        mapping.run_program(2);
        unmapper.join().expect("no panic");
    });
}

#[test]
fn a_core_is_kept_out_by_one_change_after_the_other() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let mapping = Mapping::new();
        let other = Arc::clone(&mapping);
        let unmapper = thread::spawn(move || {
            other.unmap();
            other.unmap();
        });
        mapping.run_program(2);
        unmapper.join().expect("no panic");
    });
}

#[test]
fn a_kick_does_not_hide_a_change() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let mapping = Mapping::new();
        let (other, third) = (Arc::clone(&mapping), Arc::clone(&mapping));
        let unmapper = thread::spawn(move || other.unmap());
        let kicker = thread::spawn(move || third.core.kick());
        mapping.run_program(2);
        unmapper.join().expect("no panic");
        kicker.join().expect("no panic");
    });
}

/// A table that is taken out of reach, and a core whose processor may look into it as long as it remembers where it is.
struct Retirement {
    mapping: Arc<Mapping>,
    line: Line,
    epochs: Epochs<1>,
}

impl Retirement {
    fn new() -> Arc<Self> {
        let epochs = Epochs::of(AtomicU64::new(0), [AtomicU64::new(0)]);
        Arc::new(Self { mapping: Mapping::new(), line: Line::new(), epochs })
    }

    /// What core 0's processor may do at any time, in the kernel too: it looks into the table if it remembers it.
    fn look(&self, remembered: &mut Option<bool>) {
        let Mapping { present, frame, .. } = &*self.mapping;
        if *remembered.get_or_insert_with(|| present.load(Ordering::Relaxed)) {
            // SAFETY: loom panics if it becomes something else at the same time.
            frame.with(|frame| unsafe { assert_eq!(*frame, 0, "the table is something else") });
        }
    }

    /// What core 1 does: it takes the table out of reach. Gives the time of that and who may know it.
    fn retire(&self) -> (u64, u64) {
        let Mapping { core, users, present, .. } = &*self.mapping;
        users.pause(1, |_| core, |_| {});
        present.store(false, Ordering::Relaxed);
        let cores = users.cores() & !2;
        let time = self.epochs.retire();
        if cores != 0 && core.is_halted() {
            self.line.raise();
        }
        users.resume();
        (time, cores)
    }

    /// Core 0 forgets all it remembers.
    fn forget(&self, remembered: &mut Option<bool>) {
        let time = self.epochs.forgetting();
        *remembered = None;
        self.epochs.forgot(0, time);
    }
}

#[test]
fn no_table_is_used_again_while_a_core_may_look_into_it() {
    loom::model(|| {
        let shared = Retirement::new();
        let other = Arc::clone(&shared);
        let retirer = thread::spawn(move || {
            let (time, cores) = other.retire();
            for _ in 0..2 {
                if other.epochs.is_over(time, cores) {
                    // SAFETY: as above.
                    other.mapping.frame.with_mut(|frame| unsafe { *frame += 1 });
                    return;
                }
                thread::yield_now();
            }
        });
        let mut remembered = None;
        shared.mapping.users.join(0);
        shared.forget(&mut remembered);
        shared.look(&mut remembered);
        if shared.epochs.is_behind(0) {
            shared.forget(&mut remembered);
        }
        shared.look(&mut remembered);
        retirer.join().expect("no panic");
    });
}

#[test]
fn a_core_that_halts_does_not_keep_a_table_for_ever() {
    loom::model(|| {
        let shared = Retirement::new();
        shared.mapping.users.join(0);
        let other = Arc::clone(&shared);
        let retirer = thread::spawn(move || other.retire());
        let (core, mut remembered) = (&shared.mapping.core, None);
        // It has nothing to do but this.
        while !shared.epochs.is_behind(0) {
            if core.halt() {
                if !shared.epochs.is_behind_at_last(0) {
                    shared.line.wait();
                }
                core.wake();
            }
        }
        shared.forget(&mut remembered);
        let (time, cores) = retirer.join().expect("no panic");
        assert!(shared.epochs.is_over(time, cores));
    });
}
