//! Models of what happens between cores in the executor, looked at in every order that the processor and the compiler
//! allow (loom). The module is the kernel's, compiled once more with atomics that can be watched.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use self::queued::Queued;

#[expect(clippy::duplicate_mod, reason = "the same with atomics that can be watched")]
#[path = "queued.rs"]
mod queued;

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
}

/// A task whose future is done when two things have happened, and the queue that only it is ever in.
struct Model {
    queued: Queued,
    /// How often it is in the queue.
    queue: AtomicUsize,
    done: [AtomicBool; 2],
}

impl Model {
    /// What a waker does, on any core: something happens, and the task is woken.
    fn happen(&self, what: usize) {
        self.done[what].store(true, Ordering::Relaxed);
        if self.queued.wake() {
            assert_eq!(self.queue.fetch_add(1, Ordering::AcqRel), 0, "queued twice");
        }
    }

    /// What the task's own core does, until the future is done. Loom says if that never happens.
    fn run(&self) {
        loop {
            while self.queue.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            self.queue.fetch_sub(1, Ordering::AcqRel);
            self.queued.taken();
            if self.done.iter().all(|done| done.load(Ordering::Relaxed)) {
                return;
            }
        }
    }
}

#[test]
fn no_wake_is_lost_while_a_task_is_queued_or_polled() {
    loom::model(|| {
        let queued = Queued::of(AtomicBool::new(false));
        let done = [AtomicBool::new(false), AtomicBool::new(false)];
        let model = Arc::new(Model { queued, queue: AtomicUsize::new(0), done });
        let wakers = [0, 1].map(|what| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.happen(what))
        });
        model.run();
        for waker in wakers {
            waker.join().expect("no panic");
        }
    });
}
