//! Rust's std with threads: spawned and scoped ones, channels, locks, conditions, barriers, parking, thread-local
//! values, panics. What is printed does not depend on who runs when.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 16;

fn spawned() {
    let handles: Vec<_> = (0..THREADS).map(|number| thread::spawn(move || number * number)).collect();
    let sum: usize = handles.into_iter().map(|handle| handle.join().expect("a square")).sum();
    let mut numbers = vec![0_u64; 1000];
    thread::scope(|scope| {
        for part in numbers.chunks_mut(100) {
            scope.spawn(move || part.iter_mut().enumerate().for_each(|(index, number)| *number = index as u64));
        }
    });
    println!("squares {sum}, scoped {}", numbers.iter().sum::<u64>());
    let named = thread::Builder::new().name("worker".into()).stack_size(256 << 10);
    let name = named.spawn(|| thread::current().name().map(str::to_owned)).expect("a thread").join().expect("a name");
    println!("named {name:?}");
    println!("at least one core {}", thread::available_parallelism().is_ok_and(|cores| cores.get() >= 1));
}

fn channels() {
    let (sender, receiver) = mpsc::channel();
    for number in 0..THREADS {
        let sender = sender.clone();
        thread::spawn(move || (0..100).for_each(|part| sender.send(number * 100 + part).expect("a receiver")));
    }
    drop(sender);
    println!("received {}", receiver.iter().sum::<usize>());
    let (sender, receiver) = mpsc::sync_channel(1);
    let producer = thread::spawn(move || (0..500).all(|number| sender.send(number).is_ok()));
    let in_order = receiver.iter().take(500).eq(0..500);
    println!("in order {in_order}, all sent {}", producer.join().expect("a producer"));
    let (sender, receiver) = mpsc::channel::<()>();
    let started = Instant::now();
    let nothing = receiver.recv_timeout(Duration::from_millis(20));
    println!("{:?} {}", nothing, started.elapsed() >= Duration::from_millis(20));
    drop(sender);
    println!("{:?}", receiver.recv_timeout(Duration::from_secs(100)) == Err(RecvTimeoutError::Disconnected));
}

fn locks() {
    let count = Mutex::new(0);
    let pair = RwLock::new((0, 0));
    let barrier = Barrier::new(THREADS);
    let leaders = AtomicUsize::new(0);
    let there = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (count, pair, barrier, leaders, there) = (&count, &pair, &barrier, &leaders, &there);
            scope.spawn(move || {
                for round in 0..200 {
                    *count.lock().expect("not poisoned") += 1;
                    if (round + number) % 8 == 0 {
                        let mut pair = pair.write().expect("not poisoned");
                        pair.0 += 1;
                        thread::yield_now();
                        pair.1 += 1;
                    } else {
                        let pair = pair.read().expect("not poisoned");
                        assert_eq!(pair.0, pair.1);
                    }
                }
                for round in 1..=20 {
                    there.fetch_add(1, Ordering::SeqCst);
                    if barrier.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::SeqCst);
                    }
                    assert!(there.load(Ordering::SeqCst) >= round * THREADS);
                    barrier.wait();
                }
            });
        }
    });
    println!("locked {}, pair {:?}, leaders {}", count.lock().unwrap(), pair.read().unwrap(), leaders.into_inner());
}

fn conditions() {
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let handles: Vec<_> = (0..THREADS)
        .map(|number| {
            let turn = Arc::clone(&turn);
            thread::spawn(move || {
                let (mutex, changed) = &*turn;
                for _ in 0..20 {
                    let mut now = changed.wait_while(mutex.lock().unwrap(), |now| *now % THREADS != number).unwrap();
                    *now += 1;
                    changed.notify_all();
                }
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().expect("its turns"));
    let (mutex, changed) = &*turn;
    let (now, result) = changed.wait_timeout(mutex.lock().unwrap(), Duration::from_millis(10)).unwrap();
    println!("turns {}, timed out {}", *now, result.timed_out());
}

fn parking() {
    let go = Arc::new(AtomicBool::new(false));
    let parked: Vec<_> = (0..THREADS)
        .map(|_| {
            let go = Arc::clone(&go);
            thread::spawn(move || {
                while !go.load(Ordering::Acquire) {
                    thread::park();
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(5));
    go.store(true, Ordering::Release);
    parked.iter().for_each(|handle| handle.thread().unpark());
    parked.into_iter().for_each(|handle| handle.join().expect("it was unparked"));
    // In a thread that nobody else knows: std itself unparks the one that waits for channels and scopes, at times only
    // when it has gone on already, and its next wait for anything ends at once then.
    let parks = thread::spawn(|| {
        let started = Instant::now();
        thread::park_timeout(Duration::from_millis(10));
        started.elapsed() >= Duration::from_millis(10)
    });
    println!("parked {THREADS}, for long enough {}", parks.join().expect("how long it was"));
}

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(1) };
    static LEFT: Left = const { Left };
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);
static LAZY: LazyLock<usize> = LazyLock::new(|| MADE.fetch_add(1, Ordering::SeqCst) + 1);
static MADE: AtomicUsize = AtomicUsize::new(0);
static CELL: OnceLock<usize> = OnceLock::new();
static ONCE: Once = Once::new();

struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

fn own_values() {
    let sum: usize = thread::scope(|scope| {
        let handles: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn(move || {
                    LEFT.with(|_| {});
                    MINE.set(MINE.get() + number);
                    ONCE.call_once(|| {
                        MADE.fetch_add(10, Ordering::SeqCst);
                    });
                    CELL.get_or_init(|| MADE.fetch_add(100, Ordering::SeqCst));
                    let _ = *LAZY;
                    MINE.get()
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a value")).sum()
    });
    println!("own values {sum}, mine {}, made {}", MINE.get(), MADE.load(Ordering::SeqCst));
    println!("dropped {}", DROPPED.load(Ordering::SeqCst));
}

fn panics() {
    let lock = Arc::new(Mutex::new(1));
    let inner = Arc::clone(&lock);
    std::panic::set_hook(Box::new(|_| {}));
    let gave = thread::spawn(move || {
        let _guard = inner.lock().unwrap();
        std::panic::panic_any("as asked");
    });
    let message = gave.join().expect_err("it panics");
    println!("panicked {:?}, poisoned {}", message.downcast_ref::<&str>(), lock.is_poisoned());
    let beyond = thread::spawn(|| std::hint::black_box([1, 2, 3])[std::hint::black_box(3)]);
    println!("beyond the end {}", beyond.join().is_err());
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("exit") => {
            for _ in 0..THREADS {
                thread::spawn(|| loop {
                    std::hint::spin_loop();
                });
                thread::spawn(thread::park);
            }
            thread::spawn(|| std::process::exit(45)).join().expect("nobody comes back");
        }
        Some("panic") => {
            thread::spawn(|| thread::sleep(Duration::from_secs(1000)));
            panic!("as asked");
        }
        _ => {
            spawned();
            channels();
            locks();
            conditions();
            parking();
            own_values();
            panics();
            println!("all well");
        }
    }
}
