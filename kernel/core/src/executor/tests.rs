//! Tasks, timers and the things that tasks wait for, in simulated time.

use alloc::sync::Arc;
use alloc::vec::Vec;

use spin::Mutex;

use super::core_state::last_with_fewest;
use super::{
    Either, Elapsed, Notify, Stalled, TooManyTasks, WaitQueue, compute, give_way, now_ns, oneshot, others_are_ready,
    programs_first, race, run_to_end, sleep, sleep_until, spawn, spawn_program, timeout, yield_now,
};
use crate::limits::{TASKS_MAX, TURN_NS};

/// A log that tasks write to.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    fn put(&self, entry: u64) {
        self.0.lock().push(entry);
    }

    fn take(&self) -> Vec<u64> {
        core::mem::take(&mut *self.0.lock())
    }
}

#[test]
fn tasks_take_turns() {
    let log = Log::default();
    for task in 0..3 {
        let log = log.clone();
        let spawned = spawn(async move {
            for round in 0..2 {
                log.put(round * 10 + task);
                yield_now().await;
            }
        });
        assert!(spawned.is_ok());
    }
    assert_eq!(run_to_end(sleep(1)), Ok(()));
    assert_eq!(log.take(), [0, 1, 2, 10, 11, 12]);
}

#[test]
fn what_is_to_be_aside_is_where_least_is_and_not_with_the_kernels_tasks() {
    let on = |tasks: &[usize]| last_with_fewest(tasks.len(), |core| tasks[core]);
    assert_eq!([on(&[9]), on(&[9, 0]), on(&[9, 1, 1]), on(&[3, 2, 4]), on(&[])], [0, 1, 2, 1, 0]);
}

#[test]
fn programs_that_compute_share_the_core_and_hold_up_no_task_of_the_kernel() {
    let log = Log::default();
    for program in 1..=3 {
        let log = log.clone();
        let spawned = spawn_program(async move {
            loop {
                // Interrupted several times in a turn.
                compute(TURN_NS / 4);
                log.put(program);
                yield_now().await;
            }
        });
        assert!(spawned.is_ok());
    }
    let ticks = log.clone();
    let ended = run_to_end(async move {
        for _ in 0..3 {
            sleep(TURN_NS * 2).await;
            ticks.put(0);
        }
    });
    assert_eq!(ended, Ok(()));
    let log = log.take();
    // Each has begun before the first goes on; then they go on in whole turns. The kernel's task comes as soon as its
    // time has.
    let turns: Vec<u64> = log.iter().copied().filter(|entry| *entry != 0).collect();
    assert_eq!(turns[..12], [1, 2, 3, 3, 3, 3, 2, 2, 2, 1, 1, 1]);
    assert_eq!(turns[12..], [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1]);
    assert_eq!(log.iter().position(|entry| *entry == 0), Some(8));
}

#[test]
fn a_program_that_waits_runs_before_those_that_compute_but_for_its_turn_only() {
    let log = Log::default();
    let (asked, answered) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    // Two that wake each other all the time, and one that computes.
    for (program, hears, tells) in [(1, &asked, &answered), (2, &answered, &asked)] {
        let (log, hears, tells) = (log.clone(), Arc::clone(hears), Arc::clone(tells));
        let spawned = spawn_program(async move {
            loop {
                hears.notified().await;
                assert!(!others_are_ready());
                compute(TURN_NS / 2);
                log.put(program);
                tells.notify();
            }
        });
        assert!(spawned.is_ok());
    }
    let computes = log.clone();
    let spawned = spawn_program(async move {
        loop {
            compute(TURN_NS / 2);
            computes.put(3);
            yield_now().await;
        }
    });
    assert!(spawned.is_ok());
    asked.notify();
    assert_eq!(run_to_end(sleep(TURN_NS * 6)), Ok(()));
    let log = log.take();
    let of = |program| log.iter().filter(|entry| **entry == program).count();
    assert!([1, 2, 3].into_iter().all(|program| (3..=5).contains(&of(program))), "{log:?}");
    // All have begun, the one that computes has half its turn left, and the others come first with theirs.
    assert_eq!(log[..6], [1, 2, 3, 1, 2, 3]);
}

#[test]
fn who_gives_way_lets_all_others_go_first() {
    let log = Log::default();
    let yields = log.clone();
    let spawned = spawn_program(async move {
        for _ in 0..3 {
            yields.put(1);
            give_way().await;
        }
    });
    assert!(spawned.is_ok());
    for program in 2..4 {
        let log = log.clone();
        assert!(spawn_program(async move { log.put(program) }).is_ok());
    }
    assert_eq!(run_to_end(sleep(1)), Ok(()));
    assert_eq!(log.take(), [1, 2, 3, 1, 1]);
}

#[test]
fn sleepers_wake_in_order_and_time_jumps() {
    let log = Log::default();
    let start_ns = now_ns();
    for seconds in [30, 10, 20, 10] {
        let log = log.clone();
        let spawned = spawn(async move {
            sleep_until(start_ns + seconds * 1_000_000_000).await;
            log.put((now_ns() - start_ns) / 1_000_000_000);
        });
        assert!(spawned.is_ok());
    }
    assert_eq!(run_to_end(sleep(60_000_000_000)), Ok(()));
    assert_eq!(log.take(), [10, 10, 20, 30]);
}

#[test]
fn a_future_that_nothing_can_wake_is_found() {
    assert_eq!(run_to_end(core::future::pending::<()>()), Err(Stalled));
}

#[test]
fn timeouts_drop_what_they_wait_for() {
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let waits = async move {
        core::future::pending::<()>().await;
        drop(held);
    };
    assert_eq!(run_to_end(timeout(5, waits)), Ok(Err(Elapsed)));
    assert_eq!(Arc::strong_count(&dropped), 1);
    assert_eq!(run_to_end(timeout(5, async { 7 })), Ok(Ok(7)));
    // The timer of the second went with it: nothing is left to wait for.
    assert_eq!(run_to_end(core::future::pending::<()>()), Err(Stalled));
}

#[test]
fn the_first_of_two_wins() {
    assert_eq!(run_to_end(race(sleep(2), async { 1 })), Ok(Either::Second(1)));
    assert_eq!(run_to_end(race(async { 1 }, async { 2 })), Ok(Either::First(1)));
}

#[test]
fn abort_drops_a_waiting_task_and_one_that_aborts_itself() {
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let Ok(task) = spawn(async move {
        core::future::pending::<()>().await;
        drop(held);
    }) else {
        panic!("a first task is spawned")
    };
    assert_eq!(run_to_end(yield_now()), Ok(()));
    assert!(!task.is_finished());
    task.abort();
    assert!(task.is_finished());
    assert_eq!(Arc::strong_count(&dropped), 1);

    let handle = Arc::new(Mutex::new(None));
    let own = Arc::clone(&handle);
    let Ok(task) = spawn(async move {
        if let Some(task) = own.lock().take() {
            super::TaskHandle::abort(&task);
        }
        core::future::pending::<()>().await;
    }) else {
        panic!("a second task is spawned")
    };
    *handle.lock() = Some(task);
    assert_eq!(run_to_end(sleep(1)), Ok(()));
    assert_eq!(Arc::strong_count(&handle), 1);
}

#[test]
fn the_number_of_tasks_is_limited_and_they_count_while_they_live() {
    let mut tasks = Vec::new();
    while let Ok(task) = spawn(core::future::pending()) {
        tasks.push(task);
    }
    assert_eq!(tasks.len(), TASKS_MAX);
    tasks.iter().for_each(super::TaskHandle::abort);
    assert!(spawn(async {}).is_ok());
    assert_eq!(run_to_end(sleep(1)), Ok(()));
    let Err(TooManyTasks) = (0..TASKS_MAX).try_for_each(|_| spawn(core::future::pending()).map(drop)) else {
        return;
    };
    panic!("finished tasks still count");
}

#[test]
fn a_waiter_that_goes_away_leaves_nothing() {
    let queue = Arc::new(WaitQueue::new());
    let waits = Arc::clone(&queue);
    let waiting = async move { waits.wait_until(|| None::<()>).await };
    assert_eq!(run_to_end(timeout(5, waiting)), Ok(Err(Elapsed)));
    assert_eq!(Arc::strong_count(&queue), 1);
    queue.wake_all();
}

#[test]
fn a_notification_before_the_wait_counts_once() {
    let flag = Arc::new(Notify::new());
    flag.notify();
    flag.notify();
    let waits = Arc::clone(&flag);
    assert_eq!(run_to_end(async move { waits.notified().await }), Ok(()));
    let waits = Arc::clone(&flag);
    assert_eq!(run_to_end(async move { waits.notified().await }), Err(Stalled));
}

#[test]
fn a_oneshot_delivers_or_says_that_it_will_not() {
    let (sender, receiver) = oneshot::channel();
    assert_eq!(sender.send(5), Ok(()));
    assert_eq!(run_to_end(receiver), Ok(Ok(5)));
    let (sender, receiver) = oneshot::channel::<u8>();
    drop(sender);
    assert_eq!(run_to_end(receiver), Ok(Err(oneshot::Lost)));
    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    assert!(sender.is_abandoned());
    assert_eq!(sender.send(6), Err(6));
}

/// A task of the kernel that always has more to do lets programs have what it says it owes them, other tasks of the
/// kernel come first all the same, and nobody waits for programs that do not want the core.
#[test]
fn a_busy_task_of_the_kernel_owes_programs_their_part() {
    const WORK_NS: u64 = 300_000;
    const OWED_NS: u64 = 1_000_000;
    const PIECE_NS: u64 = 100_000;
    let (busy, programs) = (Log::default(), Log::default());
    let worked = busy.clone();
    let spawned = spawn(async move {
        loop {
            compute(WORK_NS);
            worked.put(now_ns());
            programs_first(OWED_NS).await;
        }
    });
    assert!(spawned.is_ok());
    let timely = run_to_end(async {
        let start_ns = now_ns();
        sleep(10 * OWED_NS).await;
        now_ns() - start_ns
    });
    // Alone it works all the time.
    assert!(timely.is_ok_and(|took_ns| took_ns <= 10 * OWED_NS + WORK_NS));
    assert!(busy.take().windows(2).all(|pair| pair[1] - pair[0] == WORK_NS));
    for program in 0..2 {
        let computed = programs.clone();
        let spawned = spawn_program(async move {
            for _ in 0..1000 {
                compute(PIECE_NS);
                computed.put(program);
                yield_now().await;
            }
        });
        assert!(spawned.is_ok());
    }
    let start_ns = now_ns();
    let latest = run_to_end(async {
        let mut latest_ns = 0;
        for _ in 0..100 {
            let due_ns = now_ns() + OWED_NS;
            sleep_until(due_ns).await;
            latest_ns = latest_ns.max(now_ns() - due_ns);
        }
        latest_ns
    });
    let took_ns = now_ns() - start_ns;
    assert!(latest.is_ok_and(|latest_ns| latest_ns <= WORK_NS.max(PIECE_NS) + PIECE_NS));
    let (work, pieces) = (busy.take().len() as u64, programs.take());
    let rounds = took_ns / (WORK_NS + OWED_NS);
    assert!((rounds..=rounds + 1).contains(&work), "{work} of {rounds}");
    let both = [0, 1].map(|program| pieces.iter().filter(|of| **of == program).count() as u64);
    let paid = both.iter().sum::<u64>() * PIECE_NS / OWED_NS;
    assert!((rounds..=rounds + 1).contains(&paid), "{both:?} in {rounds}");
    assert!(both.iter().all(|count| *count > rounds * 4), "{both:?}");
}

#[test]
fn what_wakes_a_task_does_not_pay_what_it_owes() {
    const OWED_NS: u64 = 1_000_000;
    let log = Log::default();
    let program = spawn_program(async {
        loop {
            compute(OWED_NS / 10);
            yield_now().await;
        }
    });
    assert!(program.is_ok());
    let (paid, notify) = (log.clone(), Arc::new(Notify::new()));
    let notified = Arc::clone(&notify);
    let debtor = spawn(async move {
        let woken = async {
            loop {
                notified.notified().await;
            }
        };
        let start_ns = now_ns();
        let _: Either<(), ()> = race(programs_first(OWED_NS), woken).await;
        paid.put(now_ns() - start_ns);
    });
    assert!(debtor.is_ok());
    let ended = run_to_end(async move {
        for _ in 0..20 {
            notify.notify();
            sleep(OWED_NS / 10).await;
        }
    });
    assert_eq!((ended, log.take()), (Ok(()), Vec::from([OWED_NS])));
}
