//! Models of a process that ends while its threads start and end.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::task::Poll;

use shuttle::future::block_on;
use shuttle::thread;

use super::Threads;
use crate::executor::check;
use crate::process::{End, ThreadState};
use crate::quota::tests::quota;

const NAME: [u8; 16] = [0; 16];

/// Lives as [`crate::thread`] has it: until the process ends, or, if it is `brief`, to its own end.
fn live(threads: &Threads, state: &ThreadState, brief: bool) {
    block_on(poll_fn(|context| {
        state.runs_as(context.waker(), 0);
        if brief || threads.is_ending() { Poll::Ready(()) } else { Poll::Pending }
    }));
    state.stops();
    threads.remove(state, Some(7));
}

#[test]
fn no_thread_outlives_its_process() {
    check(|| {
        let threads = Arc::new(Threads::new(1, 100, 1000));
        let first = threads.add(NAME, 1, &quota()).expect("room");
        let own = Arc::clone(&threads);
        let running = thread::spawn(move || {
            // It makes another one, if the process still lives.
            let other = own.add(NAME, 1, &quota()).ok().map(|state| {
                let own = Arc::clone(&own);
                thread::spawn(move || live(&own, &state, false))
            });
            live(&own, &first, false);
            other.map(|thread| thread.join().expect("no panic"))
        });
        threads.end(End::status(3));
        assert_eq!(block_on(threads.gone()), End::status(3));
        assert!(threads.all().is_empty());
        running.join().expect("no panic");
    });
}

#[test]
fn the_last_thread_ends_the_process() {
    check(|| {
        let threads = Arc::new(Threads::new(1, 100, 1000));
        let states = [(); 2].map(|()| threads.add(NAME, 1, &quota()).expect("room"));
        let running = states.map(|state| {
            let threads = Arc::clone(&threads);
            thread::spawn(move || live(&threads, &state, true))
        });
        assert_eq!(block_on(threads.gone()), End::status(7));
        running.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}
