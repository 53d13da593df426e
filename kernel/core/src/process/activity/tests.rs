//! Ranks whose programs are played: what each does, and how long, is known, and so is what is to be said of it.

use alloc::vec::Vec;

use coppice_protocol::overlay::{Metric, Unit};
use coppice_protocol::{program, syscalls as nr};

use crate::abi::io::PollEntry;
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{SIGCONT, SIGSTOP};
use crate::abi::time::timespec;
use crate::executor;
use crate::files::flags;
use crate::process::signals::Target;
use crate::process::testing::scripted::Step::{self, Call, Compute, Interrupted, Touch};
use crate::process::testing::scripted::{MS, Rank, pass};
use crate::process::testing::{Bench, MEMORY};

/// A page of the program, which is fetched.
const PROGRAM: u64 = 0x40_0000;

/// How long the I/O node that tests play takes for each call, ns.
const SHIPPED_NS: u64 = 10 * MS;

impl Rank {
    fn value(&self, metric: Metric) -> u64 {
        self.bench.process.deeds().0[metric as usize]
    }

    /// Where its time went, ns.
    fn times(&self) -> Vec<(Metric, u64)> {
        let values = self.bench.process.deeds().0;
        let times = Metric::ALL.into_iter().filter(|metric| metric.unit() == Unit::Nanoseconds);
        times.map(|metric| (metric, values[metric as usize])).filter(|(_, ns)| *ns > 0).collect()
    }
}

/// A rank makes one call, which waits for `metric` alone, for as long as it takes.
fn only(metric: Metric, rank: &Rank, call: Step) {
    rank.start(&[Compute(3 * MS), call, Compute(2 * MS)]);
    pass(10_000 * MS);
    let [_, waited_ns, ..] = rank.away_ns()[..] else { panic!("it made no call") };
    assert!(waited_ns > 0, "{metric:?}");
    assert_eq!(rank.times(), [(Metric::User, 5 * MS), (metric, waited_ns)]);
}

#[test]
fn each_wait_counts_as_what_it_is_for() {
    let rank = Rank::measured(&[]);
    only(Metric::Sleep, &rank, rank.sleep(7 * MS));
    let rank = Rank::measured(&[]);
    only(Metric::Sleep, &rank, Call(nr::CLOCK_NANOSLEEP, [1, 0, rank.time(7 * MS), 0, 0, 0]));
    let rank = Rank::measured(&[]);
    only(Metric::Sleep, &rank, Call(nr::RT_SIGTIMEDWAIT, [MEMORY, 0, rank.time(7 * MS), 8, 0, 0]));
    let rank = Rank::measured(&[]);
    only(Metric::Sleep, &rank, Call(nr::POLL, [MEMORY, 0, 7, 0, 0, 0]));
    let rank = Rank::measured(&[]);
    only(Metric::Sleep, &rank, Call(nr::SELECT, [0, 0, 0, 0, rank.time(7_000), 0]));
    let rank = Rank::measured(&[]);
    only(Metric::Futex, &rank, Call(nr::FUTEX, [MEMORY, 128, 0, rank.time(7 * MS), 0, 0]));
}

#[test]
fn waiting_for_files_counts_as_that() {
    let rank = Rank::measured(&[("/a", b"hello")]);
    let path = rank.bench.text(0, "/a");
    only(Metric::File, &rank, Call(nr::STAT, [path, MEMORY + 0x100, 0, 0, 0, 0]));
    assert_eq!(rank.value(Metric::File), SHIPPED_NS);
    let rank = Rank::measured(&[("/a", b"hello")]);
    let file = rank.bench.open("/a", flags::O_RDWR) as u64;
    only(Metric::File, &rank, Call(nr::READ, [file, MEMORY, 5, 0, 0, 0]));
    assert_eq!(rank.value(Metric::BytesShipped), 5);
    let rank = Rank::measured(&[]);
    only(Metric::File, &rank, Call(nr::WRITE, [1, MEMORY, 5, 0, 0, 0]));
    assert_eq!((rank.value(Metric::BytesShipped), rank.value(Metric::BytesSent)), (5, 0));
}

#[test]
fn waiting_for_the_network_counts_as_that() {
    let sockets = |rank: &Rank| {
        assert_eq!(rank.bench.call(nr::SOCKETPAIR, &[1, 1, 0, MEMORY]), 0);
        let numbers = rank.bench.get(0, 8);
        [&numbers[..4], &numbers[4..]].map(|number| u64::from(number[0]))
    };
    let rank = Rank::measured(&[]);
    let [socket, other] = sockets(&rank);
    let entry = PollEntry { descriptor: socket as i32, events: 1, happened: 0 };
    let at = rank.bench.put(0x100, entry.record().bytes());
    only(Metric::Network, &rank, Call(nr::POLL, [at, 1, 7, 0, 0, 0]));
    // The other thread of the rank sleeps meanwhile, and both count.
    let rank = Rank::measured(&[]);
    sockets(&rank);
    rank.start_another(1, &[rank.sleep(7 * MS), Call(nr::WRITE, [other, MEMORY, 1, 0, 0, 0])]);
    rank.start(&[Call(nr::RECVFROM, [socket, MEMORY + 0x100, 1, 0, 0, 0])]);
    pass(1000 * MS);
    assert_eq!(rank.times(), [(Metric::Network, 7 * MS), (Metric::Sleep, 7 * MS)]);
    let rank = Rank::measured(&[]);
    let poller = rank.bench.call(nr::EPOLL_CREATE, &[1]) as u64;
    only(Metric::Network, &rank, Call(nr::EPOLL_WAIT, [poller, MEMORY, 1, 7, 0, 0]));
}

#[test]
fn waiting_for_input_counts_as_that_whichever_call_waits() {
    let entry = PollEntry { descriptor: 0, events: 1, happened: 0 };
    for call in [Call(nr::READ, [0, MEMORY, 5, 0, 0, 0]), Call(nr::POLL, [MEMORY + 0x100, 1, u64::MAX, 0, 0, 0])] {
        let rank = Rank::measured(&[]);
        rank.bench.put(0x100, entry.record().bytes());
        rank.bench.world.lock().input_goes_on = true;
        rank.start(&[Compute(3 * MS), call, Compute(2 * MS)]);
        pass(500 * MS);
        assert_eq!(rank.times(), [(Metric::User, 3 * MS), (Metric::Input, 497 * MS)]);
        rank.bench.world.lock().input.push_back(b"hello".to_vec());
        pass(500 * MS);
        let waited_ns = rank.away_ns()[1];
        assert_eq!(rank.times(), [(Metric::User, 5 * MS), (Metric::Input, waited_ns)]);
    }
}

#[test]
fn waiting_for_a_page_counts_as_that_also_in_a_call() {
    let with_program = || {
        let rank = Rank::measured(&[]);
        let file = rank.bench.world.lock().program.clone();
        let image = program::parse(&file, 4096).expect("a program");
        let program = rank.bench.process.identity.program;
        rank.bench.process.space.lock().load_image(&image, program).expect("room");
        rank
    };
    let rank = with_program();
    only(Metric::Page, &rank, Touch(PROGRAM));
    assert_eq!(rank.value(Metric::Page), SHIPPED_NS);
    assert_eq!([Metric::Faults, Metric::PagesFetched].map(|metric| rank.value(metric)), [1, 1]);
    // It is not made before the page is there.
    let rank = with_program();
    only(Metric::Page, &rank, Call(nr::RT_SIGPROCMASK, [0, PROGRAM, 0, 8, 0, 0]));
    let rank = with_program();
    rank.start(&[Call(nr::WRITE, [1, PROGRAM, 5, 0, 0, 0])]);
    pass(1000 * MS);
    assert_eq!(rank.times(), [(Metric::File, SHIPPED_NS), (Metric::Page, SHIPPED_NS)]);
}

#[test]
fn who_could_run_is_ready() {
    let rank = Rank::measured(&[]);
    // The other one has the core when an interrupt has come, and is measured from when it first had it.
    rank.start(&[Compute(MS), Interrupted, Compute(2 * MS), Call(nr::SCHED_YIELD, [0; 6])]);
    rank.start_another(1, &[Compute(5 * MS)]);
    pass(1000 * MS);
    assert_eq!(rank.times(), [(Metric::User, 8 * MS), (Metric::Ready, 5 * MS)]);
}

#[test]
fn who_was_woken_is_ready_and_waits_no_more() {
    // Both threads are woken at the same time, and one has the core first.
    for slept_ns in [0, 3 * MS] {
        let rank = Rank::new(&[]);
        let sleep = rank.sleep(7 * MS);
        rank.bench.process.measure(slept_ns == 0);
        rank.start(&[sleep, Compute(4 * MS)]);
        rank.start_another(1, &[sleep, Compute(MS)]);
        if slept_ns > 0 {
            pass(slept_ns);
            rank.bench.process.measure(true);
        }
        pass(1000 * MS);
        let sleep_ns = 2 * (7 * MS - slept_ns);
        assert_eq!(rank.times(), [(Metric::User, 5 * MS), (Metric::Sleep, sleep_ns), (Metric::Ready, 4 * MS)]);
    }
}

#[test]
fn all_time_of_a_thread_goes_somewhere_and_none_twice() {
    let rank = Rank::new(&[("/a", b"hello")]);
    let file = rank.bench.open("/a", flags::O_RDWR) as u64;
    let sleep = rank.sleep(7 * MS);
    let round = [
        Compute(3 * MS),
        sleep,
        Call(nr::READ, [file, MEMORY, 5, 0, 0, 0]),
        Interrupted,
        Call(nr::FUTEX, [MEMORY + 0x2000, 128, 0, MEMORY + 0x8000, 0, 0]),
        Call(nr::GETPID, [0; 6]),
        Compute(MS),
        Call(nr::POLL, [MEMORY, 0, 2, 0, 0, 0]),
        Call(nr::SCHED_YIELD, [0; 6]),
        Call(nr::LSEEK, [file, 0, 0, 0, 0, 0]),
    ];
    let steps: Vec<Step> = core::iter::repeat_n(round, 1000).flatten().collect();
    let began_ns = executor::now_ns();
    rank.bench.process.measure(true);
    rank.start(&steps);
    let mut before = rank.bench.process.deeds().0;
    for _ in 0..500 {
        pass(17 * MS + 345_678);
        let values = rank.bench.process.deeds().0;
        let is_growing = |metric: &Metric| values[*metric as usize] >= before[*metric as usize];
        assert!(Metric::ALL.iter().all(is_growing));
        before = values;
        let sum_ns: u64 = rank.times().iter().map(|(_, ns)| ns).sum();
        assert_eq!(sum_ns, executor::now_ns() - began_ns);
    }
    assert!(rank.times().len() >= 4);
    assert!(rank.value(Metric::Turns) > 500 && rank.value(Metric::Calls) > 500);
}

#[test]
fn a_wait_shows_while_it_lasts() {
    let rank = Rank::measured(&[]);
    rank.start(&[Compute(MS), rank.sleep(10_000 * MS)]);
    pass(2_001 * MS);
    assert_eq!(rank.times(), [(Metric::User, MS), (Metric::Sleep, 2_000 * MS)]);
    pass(3_000 * MS);
    assert_eq!(rank.times(), [(Metric::User, MS), (Metric::Sleep, 5_000 * MS)]);
    pass(30_000 * MS);
    assert_eq!(rank.times(), [(Metric::User, MS), (Metric::Sleep, 10_000 * MS)]);
}

#[test]
fn nobody_measures_what_nobody_wants_to_know() {
    let rank = Rank::new(&[]);
    rank.start(&[Compute(MS), Interrupted, Compute(MS), rank.sleep(7 * MS)]);
    pass(1000 * MS);
    assert_eq!(rank.times(), []);
    // What is counted anyway: a turn before the interrupt, one behind it, and one behind the wait.
    assert_eq!([Metric::Turns, Metric::Calls].map(|metric| rank.value(metric)), [3, 2]);
}

#[test]
fn measuring_begins_and_ends_in_the_middle_of_a_wait() {
    let rank = Rank::new(&[]);
    rank.start(&[rank.sleep(10_000 * MS), Compute(MS)]);
    pass(4_000 * MS);
    rank.bench.process.measure(true);
    pass(2_000 * MS);
    assert_eq!(rank.times(), [(Metric::Sleep, 2_000 * MS)]);
    pass(1_000 * MS);
    rank.bench.process.measure(false);
    pass(2_500 * MS);
    assert_eq!(rank.times(), [(Metric::Sleep, 3_000 * MS)]);
    rank.bench.process.measure(true);
    pass(1_000 * MS);
    assert_eq!(rank.times(), [(Metric::User, MS), (Metric::Sleep, 3_500 * MS)]);
}

#[test]
fn measuring_begins_and_ends_in_the_middle_of_a_program() {
    let rank = Rank::new(&[]);
    rank.start(&core::array::from_fn::<_, 2000, _>(|step| if step % 2 == 0 { Compute(MS) } else { Interrupted }));
    pass(100 * MS);
    rank.bench.process.measure(true);
    let began_ns = executor::now_ns();
    pass(100 * MS);
    let measured_ns = executor::now_ns() - began_ns;
    assert_eq!(rank.times(), [(Metric::User, measured_ns)]);
    rank.bench.process.measure(false);
    pass(100 * MS);
    assert_eq!(rank.times(), [(Metric::User, measured_ns)]);
}

#[test]
fn threads_are_added_up_also_when_they_are_gone() {
    let rank = Rank::measured(&[]);
    let sleep = rank.sleep(7 * MS);
    rank.start(&[Call(nr::NANOSLEEP, [rank.bench.put(0x9000, timespec(100 * MS).bytes()), 0, 0, 0, 0, 0])]);
    for number in 1..4 {
        rank.start_another(number, &[Compute(MS), sleep]);
    }
    pass(50 * MS);
    assert_eq!(rank.bench.process.threads.count(), 1);
    let values = rank.times();
    assert_eq!((values[0], rank.value(Metric::Sleep)), ((Metric::User, 3 * MS), 50 * MS + 21 * MS));
    assert_eq!(rank.value(Metric::Calls), 7);
}

#[test]
fn who_is_stopped_or_held_takes_no_time() {
    let rank = Rank::measured(&[]);
    rank.start(&[rank.sleep(20_000 * MS), Compute(MS)]);
    pass(2_000 * MS);
    let send = |signal| {
        let sent = rank.bench.process.send(Target::Process, SignalInfo::user(signal, 1, 0));
        assert_eq!(sent, Ok(None));
    };
    send(SIGSTOP);
    pass(3_000 * MS);
    assert_eq!(rank.times(), [(Metric::Sleep, 2_000 * MS)]);
    send(SIGCONT);
    pass(1_000 * MS);
    assert_eq!(rank.times(), [(Metric::Sleep, 3_000 * MS)]);
    let held = rank.bench.process.hold();
    pass(4_000 * MS);
    assert_eq!(rank.times(), [(Metric::Sleep, 3_000 * MS)]);
    drop(held);
    pass(20_000 * MS);
    assert_eq!(rank.times(), [(Metric::User, MS), (Metric::Sleep, 13_000 * MS)]);
}

#[test]
fn a_traced_program_is_measured_too() {
    let rank = Rank::measured(&[]);
    assert_eq!(rank.bench.process.trace.begin(&rank.bench.process.node.quota), Ok(()));
    rank.start(&[Compute(MS), rank.sleep(7 * MS), Compute(MS)]);
    pass(1_000 * MS);
    assert_eq!(rank.times(), [(Metric::User, 2 * MS), (Metric::Sleep, 7 * MS)]);
}

#[test]
fn a_process_that_was_data_goes_on_counting() {
    let bench = Bench::new(&[]);
    bench.process.measure(true);
    bench.state.deeds.signal();
    bench.state.deeds.sent(5);
    let time = bench.put(0, timespec(5_000 * MS).bytes());
    let before = bench.process.deeds().0;
    let (bench, _) = bench.frozen_while(nr::NANOSLEEP, &[time, 0], |_| {});
    assert!(bench.state.clock.is_measured());
    let after = bench.process.deeds().0;
    for metric in [Metric::Signals, Metric::BytesSent, Metric::Calls] {
        assert!(after[metric as usize] >= before[metric as usize], "{metric:?}");
    }
    bench.state.deeds.signal();
    assert_eq!(bench.process.deeds().0[Metric::Signals as usize], 2);
}

#[test]
fn signals_that_handlers_and_calls_take_are_counted() {
    let bench = Bench::new(&[]);
    let signals = || bench.process.deeds().0[Metric::Signals as usize];
    let usr1 = bench.put(0, &(1_u64 << 9).to_le_bytes());
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[0, usr1, 0, 8]), 0);
    assert_eq!(bench.call(nr::KILL, &[bench.process.identity.pid.into(), 10]), 0);
    assert_eq!(signals(), 0, "it waits");
    assert_eq!(bench.call(nr::RT_SIGTIMEDWAIT, &[usr1, 0, 0, 8]), 10);
    assert_eq!(signals(), 1);
}
