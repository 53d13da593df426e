//! Threads in functions of known names for a debugger to look at, until there is no more input: one computes in a
//! generic method, one waits for a change.

use std::hint::black_box;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

mod shapes {
    use super::*;

    pub static STOP: AtomicBool = AtomicBool::new(false);
    pub static COMPUTES: AtomicBool = AtomicBool::new(false);

    #[derive(Default)]
    pub struct State {
        pub waits: bool,
        pub over: bool,
    }

    pub struct Square<Number>(pub Number);

    impl<Number: std::ops::AddAssign + Copy> Square<Number> {
        #[inline(never)]
        pub fn grow(&mut self, by: Number) {
            self.0 += black_box(by);
        }

        #[inline(never)]
        pub fn grow_for_long(&mut self, by: Number) -> u64 {
            let mut rounds = 0;
            while !STOP.load(Ordering::Relaxed) {
                self.grow(by);
                COMPUTES.store(true, Ordering::Relaxed);
                rounds += 1;
            }
            black_box(rounds)
        }
    }

    #[inline(never)]
    pub fn wait_for_change(change: &(Mutex<State>, Condvar), numbers: &[i32]) -> i32 {
        let mut state = change.0.lock().unwrap();
        state.waits = true;
        drop(change.1.wait_while(state, |state| !state.over).unwrap());
        black_box(numbers[0])
    }

    #[inline(never)]
    pub fn read_all() {
        // Here, as whoever hears it may look before the call that says it has returned.
        println!("ready");
        let read = std::io::stdin().read_to_end(&mut Vec::new());
        black_box(read.unwrap());
    }
}

fn main() {
    let change = Arc::new((Mutex::new(shapes::State::default()), Condvar::new()));
    let first = thread::spawn(|| shapes::Square(1.0).grow_for_long(1.0));
    let theirs = Arc::clone(&change);
    let second = thread::spawn(move || shapes::wait_for_change(&theirs, &[7]));
    // Who waits has given the lock back.
    while !(change.0.lock().unwrap().waits && shapes::COMPUTES.load(Ordering::Relaxed)) {
        thread::yield_now();
    }
    shapes::read_all();
    shapes::STOP.store(true, Ordering::Relaxed);
    first.join().unwrap();
    change.0.lock().unwrap().over = true;
    change.1.notify_all();
    std::process::exit(second.join().unwrap());
}
