//! Models of threads that sleep and wake each other on several cores.

use alloc::sync::Arc;
use core::convert::Infallible;

use shuttle::future::block_on;
use shuttle::thread;

use super::tests::{beside, word};
use super::{Futexes, Sleeper, Word};
use crate::executor::check;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A word at which threads sleep while it is 0, and the queues.
#[derive(Default)]
struct Shared {
    futexes: Futexes,
    value: AtomicU32,
    lying: AtomicU32,
    counted: AtomicUsize,
    got_up: AtomicUsize,
}

const HERE: Word = word(0x1000);

impl Shared {
    /// Sleeps while the value is 0, as a lock or condition variable does.
    fn wait_for_value(&self) {
        let sleeper = Arc::<Sleeper>::default();
        let may = || if self.value.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(()) };
        while self.futexes.lie_down(&sleeper, HERE, 1, may).is_ok() {
            let asleep = self.futexes.asleep(&sleeper);
            block_on(asleep.woken());
        }
    }

    /// Sleeps once; gets up by itself if `impatient`.
    fn sleep(&self, at: Word, impatient: bool) {
        let sleeper = Arc::<Sleeper>::default();
        self.futexes.lie_down(&sleeper, at, 1, || Ok::<_, Infallible>(())).expect("it may");
        let asleep = self.futexes.asleep(&sleeper);
        self.lying.fetch_add(1, Ordering::Relaxed);
        let was_woken = if impatient {
            asleep.get_up()
        } else {
            block_on(asleep.woken());
            true
        };
        self.got_up.fetch_add(usize::from(was_woken), Ordering::Relaxed);
    }

    fn wake(&self, at: Word, count: usize) {
        self.counted.fetch_add(self.futexes.wake(at, count, 1), Ordering::Relaxed);
    }
}

#[test]
fn no_wake_falls_between_the_look_and_the_sleep() {
    check(|| {
        let shared = Arc::<Shared>::default();
        let sleeping = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.wait_for_value())
        });
        shared.value.store(1, Ordering::Relaxed);
        shared.futexes.wake(HERE, usize::MAX, 1);
        sleeping.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

#[test]
fn a_wake_that_was_counted_is_somebodys() {
    check(|| {
        let there = beside(HERE).1;
        let shared = Arc::<Shared>::default();
        // One that waits and one that gets up by itself at some moment.
        let sleeping = [false, true].map(|impatient| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.sleep(HERE, impatient))
        });
        while shared.lying.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        shared.wake(HERE, 1);
        let moved = shared.futexes.requeue((HERE, 0), (there, 1), || Ok::<_, Infallible>(()));
        assert!(moved.is_ok());
        shared.wake(there, 1);
        shared.wake(HERE, usize::MAX);
        sleeping.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(shared.counted.load(Ordering::Relaxed), shared.got_up.load(Ordering::Relaxed));
        assert_eq!(shared.futexes.wake(HERE, 9, 1) + shared.futexes.wake(there, 9, 1), 0);
    });
}

#[test]
fn requeues_across_each_other_both_end() {
    check(|| {
        let there = beside(HERE).1;
        let shared = Arc::<Shared>::default();
        let moving = [(HERE, there), (there, HERE)].map(|(from, to)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.futexes.requeue((from, 1), (to, 1), || Ok::<_, Infallible>(())))
        });
        moving.into_iter().for_each(|thread| assert_eq!(thread.join().expect("no panic"), Ok(0)));
    });
}
