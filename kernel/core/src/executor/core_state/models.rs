//! Models of what wakes tasks from other cores. A wake that is lost leaves a core halted for ever, which the checker
//! says.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::{Context, Waker};

use shuttle::thread;

use super::super::oneshot::{self, Lost};
use super::super::timer::sleep_until;
use super::super::wait::{Notify, WaitQueue};
use super::super::{platform, task};
use super::CoreState;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Ways that are tried, half of them at random, and half with a few changes of who comes first at the worst moments.
const WAYS: usize = 1000;

/// Such changes in one way.
const CHANGES: usize = 3;

/// Tries a model in many ways.
pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let again = Arc::clone(&model);
    shuttle::check_random(move || model(), WAYS / 2);
    shuttle::check_pct(move || again(), WAYS / 2, CHANGES);
}

/// The model's thread is a core from now on.
fn core(index: usize) -> &'static CoreState {
    let core = Box::leak(Box::new(CoreState::new(index)));
    platform::become_core(core, index);
    core
}

/// Runs a core's tasks until `future` is done. Halts as [`super::run`] does.
fn run(core: &'static CoreState, future: impl Future<Output = ()> + Send + 'static) {
    let done = Arc::new(AtomicBool::new(false));
    let at_end = Arc::clone(&done);
    let spawned = task::spawn_program(async move {
        future.await;
        at_end.store(true, Ordering::Relaxed);
    });
    assert!(spawned.is_ok());
    while !done.load(Ordering::Relaxed) {
        if !core.turn() {
            platform::wait_for_interrupt();
        }
    }
}

#[test]
fn a_task_is_woken_from_another_core() {
    check(|| {
        let shared = Arc::new((AtomicU32::new(0), WaitQueue::new()));
        let other = Arc::clone(&shared);
        let waker = thread::spawn(move || {
            core(1);
            for _ in 0..3 {
                other.0.fetch_add(1, Ordering::Relaxed);
                other.1.wake_all();
            }
        });
        run(core(0), async move {
            let (count, changed) = &*shared;
            for expected in 1..=3 {
                changed.wait_until(|| (count.load(Ordering::Relaxed) >= expected).then_some(())).await;
            }
        });
        waker.join().expect("no panic");
    });
}

#[test]
fn two_cores_wake_tasks_that_share_a_flag() {
    check(|| {
        let (there, back) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (heard, answers) = (Arc::clone(&there), Arc::clone(&back));
        let other = thread::spawn(move || {
            run(core(1), async move {
                for _ in 0..2 {
                    heard.notified().await;
                    answers.notify();
                }
            });
        });
        run(core(0), async move {
            for _ in 0..2 {
                there.notify();
                back.notified().await;
            }
        });
        other.join().expect("no panic");
    });
}

#[test]
fn a_value_arrives_or_is_known_to_be_lost() {
    for sends in [true, false] {
        check(move || {
            let (sender, receiver) = oneshot::channel();
            let other = thread::spawn(move || {
                core(1);
                if sends {
                    assert_eq!(sender.send(5), Ok(()));
                } else {
                    drop(sender);
                }
            });
            run(core(0), async move {
                assert_eq!(receiver.await, if sends { Ok(5) } else { Err(Lost) });
            });
            other.join().expect("no panic");
        });
    }
}

#[test]
fn a_value_for_nobody_comes_back() {
    check(|| {
        let (sender, receiver) = oneshot::channel();
        let other = thread::spawn(move || drop(receiver));
        let abandoned = sender.is_abandoned();
        if abandoned {
            assert_eq!(sender.send(5), Err(5));
        } else {
            // Either way nobody waits for ever.
            let _ = sender.send(5);
        }
        other.join().expect("no panic");
    });
}

/// Says that it was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_timer_that_another_core_removes_takes_no_other_with_it() {
    check(|| {
        let core = core(0);
        let woken = Arc::<Flag>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let (mut first, mut second) = (Box::pin(sleep_until(10)), Box::pin(sleep_until(20)));
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        let other = thread::spawn(move || drop(first));
        platform::advance_to(10);
        core.timers.fire(10);
        other.join().expect("no panic");
        // It may be woken for nothing, and goes on waiting then.
        if woken.0.load(Ordering::Relaxed) {
            assert!(second.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(core.timers.next_ns(), 20);
        drop(second);
        assert_eq!(core.timers.next_ns(), super::Timers::NEVER);
    });
}

#[test]
fn a_task_that_is_aborted_is_gone_once() {
    check(|| {
        let core = core(0);
        let gate = Arc::new(Notify::new());
        let inside = Arc::clone(&gate);
        let aborted = task::spawn_program(async move { inside.notified().await }).expect("room");
        let other = thread::spawn(move || {
            gate.notify();
            aborted.abort();
        });
        while core.turn() {}
        other.join().expect("no panic");
        while core.turn() {}
        assert_eq!(core.tasks_alive.load(Ordering::Relaxed), 0);
    });
}
