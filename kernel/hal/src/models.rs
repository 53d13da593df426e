//! Models of what cores do with each other, looked at in every order that the processor and the compiler allow (loom).
//! The modules are those of the kernel, compiled once more with atomics that can be watched.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;

use self::attention::{Attention, Entry};

#[expect(clippy::duplicate_mod, reason = "the same with atomics that can be watched")]
#[path = "attention.rs"]
mod attention;
mod steps;

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
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

#[test]
fn no_kick_is_lost_before_a_halt() {
    loom::model(|| {
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
        loop {
            core.look();
            if queue.load(Ordering::Relaxed) {
                break;
            }
            if core.halt() {
                line.wait();
                core.wake();
            }
        }
        kicker.join().expect("no panic");
    });
}

#[test]
fn no_kick_is_lost_before_a_program() {
    loom::model(|| {
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
            // The program computes for ever.
            if core.enter() == Entry::Granted {
                line.wait();
                core.leave();
            }
        }
        kicker.join().expect("no panic");
    });
}
