//! Calls of a process, and signals that come while they wait.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::task::Poll;

use coppice_hal::user::Registers;
use coppice_protocol::syscalls as nr;

use super::{HANDLER, REAL_TIME, SIGPIPE, SIGUSR1, SIGUSR2, info};
use crate::abi::signal::{SI_KERNEL, SI_TIMER, SignalAction};
use crate::abi::signal_set::SIGALRM;
use crate::abi::time::timespec;
use crate::abi::{u32_at, u64_at};
use crate::errno::Errno;
use crate::executor;
use crate::process::Caller;
use crate::process::signals::Target;
use crate::process::testing::{Bench, MEMORY};
use crate::syscall::{self, Arguments};

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn set(bench: &Bench, signal: u32, flags: u64) {
    let flags = flags | SignalAction::RESTORER | SignalAction::SIGINFO;
    let action = SignalAction { handler: HANDLER, flags, restorer: HANDLER + 16, mask: 0 };
    let action = bench.put(0x8000, action.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[signal.into(), action, 0, 8]), 0);
}

/// The signals whose handlers ran.
fn handled(bench: &Bench) -> alloc::vec::Vec<u64> {
    core::mem::take(&mut *bench.handled.lock()).iter().map(|regs| regs.rdi).collect()
}

fn send(bench: &Bench, signal: u32) {
    assert_eq!(bench.process.send(Target::Process, info(signal)), Ok(None));
}

fn pipe(bench: &Bench) -> [u64; 2] {
    assert_eq!(bench.call(nr::PIPE, &[MEMORY + 0x100]), 0);
    let ends = bench.get(0x100, 8);
    [0, 4].map(|offset| u32_at(&ends, offset).into())
}

#[test]
fn a_handler_runs_before_the_call_that_sent_its_signal_returns() {
    let bench = Bench::new(&[]);
    set(&bench, SIGUSR1, 0);
    assert_eq!(bench.call(nr::KILL, &[1002, SIGUSR1.into()]), 0);
    assert_eq!(handled(&bench), [u64::from(SIGUSR1)]);
    assert_eq!(bench.call(nr::GETPID, &[]), 1002);
    assert_eq!(bench.call(nr::TGKILL, &[1002, 1002, SIGUSR1.into()]), 0);
    let regs = bench.handled.lock()[0];
    assert_eq!((regs.rip, regs.rsp % 16), (HANDLER, 8));
    let offset = regs.rsi - MEMORY;
    let told = bench.get(offset, 24);
    assert_eq!([0, 8, 16, 20].map(|at| u32_at(&told, at)), [SIGUSR1, (-6_i32).cast_unsigned(), 1002, 1]);
}

#[test]
fn waiting_calls_are_interrupted_or_made_again() {
    for (flags, restarts) in [(0, false), (SignalAction::RESTART, true)] {
        let bench = Bench::new(&[]);
        set(&bench, SIGUSR1, flags);
        let [read, write] = pipe(&bench);
        let interrupted = bench.wait_while(nr::READ, &[read, MEMORY, 10], |bench| send(bench, SIGUSR1));
        assert_eq!(handled(&bench), [u64::from(SIGUSR1)]);
        assert_eq!(interrupted, if restarts { None } else { Some(error(Errno::EINTR)) });
        // What was made again goes on waiting; it is the same call.
        let at = bench.put(0x200, b"hi");
        if restarts {
            assert_eq!(bench.process.signals.lock().pending(1002).0, 0);
        } else {
            assert_eq!(bench.call(nr::WRITE, &[write, at, 2]), 2);
            assert_eq!(bench.call(nr::READ, &[read, MEMORY, 10]), 2);
        }
    }
}

/// Nobody reads what is printed, nobody types.
#[test]
fn waits_for_people_are_interrupted() {
    for (call, descriptor) in [(nr::WRITE, 1), (nr::READ, 0)] {
        let bench = Bench::new(&[]);
        set(&bench, SIGUSR1, 0);
        bench.world.lock().output_room = Some(0);
        bench.world.lock().input_goes_on = true;
        let at = bench.put(0x200, b"hi");
        let interrupted = bench.wait_while(call, &[descriptor, at, 2], |bench| send(bench, SIGUSR1));
        assert_eq!((interrupted, handled(&bench)), (Some(error(Errno::EINTR)), [u64::from(SIGUSR1)].into()));
        // It has printed nothing, and what is typed now is the next one's.
        assert_eq!(bench.world.lock().output, b"");
        bench.world.lock().output_room = None;
        bench.world.lock().input.push_back(b"in".to_vec());
        assert_eq!(bench.call(call, &[descriptor, at, 2]), 2);
        assert_eq!(bench.get(0x200, 2), if descriptor == 0 { b"in" } else { b"hi" });
        assert!(bench.world.lock().wants_output.is_none());
    }
}

/// Another rank has what it waits for.
#[test]
fn waits_for_locks_are_interrupted_or_made_again() {
    const SETLKW: u64 = 7;
    for (flags, restarts) in [(0, false), (SignalAction::RESTART, true)] {
        let other = Bench::with_size(2, &[("/a", b"x")]);
        let bench = other.sibling(None);
        set(&bench, SIGUSR1, flags);
        let [has, wants] = [&other, &bench].map(|bench| bench.open("/a", 2).cast_unsigned());
        let [at, wanted] = [&other, &bench].map(|bench| bench.put(0x200, &[1, 0].repeat(16)[..2]));
        assert_eq!((other.call(nr::FCNTL, &[has, SETLKW, at]), other.call(nr::FLOCK, &[has, 2])), (0, 0));
        for (call, arguments) in [(nr::FCNTL, [wants, SETLKW, wanted]), (nr::FLOCK, [wants, 2, 0])] {
            let interrupted = bench.wait_while(call, &arguments, |bench| send(bench, SIGUSR1));
            assert_eq!(interrupted, if restarts { None } else { Some(error(Errno::EINTR)) });
            assert_eq!(handled(&bench), [u64::from(SIGUSR1)]);
        }
        assert_eq!(bench.world.lock().lockers(), if restarts { 2 } else { 1 });
    }
}

#[test]
fn some_calls_are_never_made_again() {
    let bench = Bench::new(&[]);
    set(&bench, SIGUSR1, SignalAction::RESTART);
    let long = bench.put(0, timespec(5_000_000_000_000).bytes());
    let word = bench.put(0x40, &[0; 4]);
    let mask = bench.put(0x50, &[0; 8]);
    let other = bench.put(0x58, &(1_u64 << (SIGUSR2 - 1)).to_le_bytes());
    let calls: [(u32, &[u64]); 8] = [
        (nr::NANOSLEEP, &[long, MEMORY + 0x60]),
        (nr::CLOCK_NANOSLEEP, &[1, 0, long, 0]),
        (nr::POLL, &[MEMORY, 0, u64::MAX]),
        (nr::PPOLL, &[MEMORY, 0, 0, mask, 8]),
        (nr::PAUSE, &[]),
        (nr::RT_SIGSUSPEND, &[mask, 8]),
        (nr::RT_SIGTIMEDWAIT, &[other, 0, 0, 8]),
        (nr::FUTEX, &[word, 128, 0, long]),
    ];
    for (number, arguments) in calls {
        let result = bench.wait_while(number, arguments, |bench| send(bench, SIGUSR1));
        assert_eq!((result, handled(&bench)), (Some(error(Errno::EINTR)), [10].into()), "call {number}");
    }
    let rest = u64_at(&bench.get(0x60, 16), 0);
    assert!((4000..5000).contains(&rest), "{rest} s left");
}

#[test]
fn what_has_no_handler_interrupts_nothing() {
    let bench = Bench::new(&[]);
    let [read, _] = pipe(&bench);
    let still_waits = bench.wait_while(nr::READ, &[read, MEMORY, 10], |bench| {
        // Ignored, and being stopped and continued.
        send(bench, 17);
        send(bench, 19);
        bench.rest();
        assert!(bench.process.signals.lock().is_stopped());
        send(bench, 18);
    });
    assert_eq!(still_waits, None);
    assert!(!bench.process.signals.lock().is_stopped());
}

#[test]
fn waited_for_signals_run_no_handler() {
    let bench = Bench::new(&[]);
    set(&bench, REAL_TIME, 0);
    let wanted = bench.put(0, &(1_u64 << (REAL_TIME - 1)).to_le_bytes());
    let got = bench.wait_while(nr::RT_SIGTIMEDWAIT, &[wanted, MEMORY + 0x80, 0, 8], |bench| send(bench, REAL_TIME));
    assert_eq!(got, Some(REAL_TIME.into()));
    assert!(handled(&bench).is_empty());
    assert_eq!([0, 16].map(|offset| u32_at(&bench.get(0x80, 128), offset)), [REAL_TIME, 1]);
    let short = bench.put(8, timespec(1_000_000).bytes());
    assert_eq!(bench.call(nr::RT_SIGTIMEDWAIT, &[wanted, 0, short, 8]), error(Errno::EAGAIN));
}

#[test]
fn masks_of_calls_hold_as_long_as_these() {
    let bench = Bench::new(&[]);
    set(&bench, SIGUSR1, 0);
    let blocked = bench.put(0, &(1_u64 << (SIGUSR1 - 1)).to_le_bytes());
    let none = bench.put(8, &[0; 8]);
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[2, blocked, 0, 8]), 0);
    send(&bench, SIGUSR1);
    assert_eq!(bench.call(nr::GETPPID, &[]), 1);
    assert!(handled(&bench).is_empty());
    let now = bench.put(16, timespec(0).bytes());
    assert_eq!(bench.call(nr::PPOLL, &[MEMORY, 0, now, none, 8]), error(Errno::EINTR));
    assert_eq!(handled(&bench), [u64::from(SIGUSR1)]);
    assert_eq!(bench.process.signals.lock().blocked(1002).0, 1 << (SIGUSR1 - 1));
}

#[test]
fn masks_of_calls_end_with_calls_that_nobody_goes_on_with() {
    let bench = Bench::new(&[]);
    let blocked = bench.put(0, &(1_u64 << (SIGUSR1 - 1)).to_le_bytes());
    let other = bench.put(8, &(1_u64 << (SIGUSR2 - 1)).to_le_bytes());
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[2, blocked, 0, 8]), 0);
    let mask_of_select = bench.put(16, &[other.to_le_bytes(), 8_u64.to_le_bytes()].concat());
    let epoll = u64::try_from(bench.call(nr::EPOLL_CREATE1, &[0])).expect("a descriptor");
    let calls: [(u32, [u64; 6]); 4] = [
        (nr::RT_SIGSUSPEND, [other, 8, 0, 0, 0, 0]),
        (nr::PPOLL, [0, 0, 0, other, 8, 0]),
        (nr::PSELECT6, [0, 0, 0, 0, 0, mask_of_select]),
        (nr::EPOLL_PWAIT, [epoll, MEMORY + 0x200, 1, u64::MAX, other, 8]),
    ];
    for (number, [rdi, rsi, rdx, r10, r8, r9]) in calls {
        let (process, state) = (Arc::clone(&bench.process), Arc::clone(&bench.state));
        let masks = executor::run_to_end(async move {
            let blocked = || process.signals.lock().blocked(1002).0;
            let a = Arguments::of(&Registers { rdi, rsi, rdx, r10, r8, r9, ..Registers::default() });
            let mut call = Box::pin(syscall::awaited(Caller { process: &process, thread: &state }, number.into(), &a));
            let begun = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
            assert!(begun, "call {number} was to wait");
            let during = blocked();
            drop(call);
            (during, blocked())
        });
        assert_eq!(masks.ok(), Some((1 << (SIGUSR2 - 1), 1 << (SIGUSR1 - 1))), "call {number}");
    }
}

#[test]
fn a_stack_without_room_means_a_fault() {
    let bench = Bench::new(&[]);
    set(&bench, SIGUSR1, SignalAction::ONSTACK);
    let stack = crate::abi::signal::AlternateStack { address: 0x7000, flags: 0, bytes: 0x10000 };
    let stack = bench.put(0, stack.record().bytes());
    assert_eq!(bench.call(nr::SIGALTSTACK, &[stack, 0]), 0);
    let end = bench.try_call(nr::KILL, &[1002, SIGUSR1.into()]).expect_err("nothing is mapped there");
    assert_eq!(end.exit, coppice_protocol::control::Exit::Signal(11));
    assert!(end.reason.is_some_and(|reason| reason.contains("frame")));
}

#[test]
fn broken_pipes_send_a_signal_to_their_writer() {
    let bench = Bench::new(&[]);
    set(&bench, SIGPIPE, 0);
    let [read, write] = pipe(&bench);
    assert_eq!(bench.call(nr::CLOSE, &[read]), 0);
    assert_eq!(bench.call(nr::WRITE, &[write, MEMORY, 1]), error(Errno::EPIPE));
    assert_eq!(handled(&bench), [u64::from(SIGPIPE)]);
}

#[test]
fn ranks_send_each_other_signals() {
    let first = Bench::with_size(2, &[]);
    let second = first.sibling(None);
    set(&second, SIGUSR1, 0);
    let pid = second.process.identity.pid;
    assert_eq!(first.call(nr::KILL, &[pid.into(), SIGUSR1.into()]), 0);
    assert_eq!(second.call(nr::SCHED_YIELD, &[]), 0);
    assert_eq!(handled(&second), [u64::from(SIGUSR1)]);
    assert_eq!(first.call(nr::KILL, &[u64::MAX, SIGUSR1.into()]), 0);
    assert_eq!(first.call(nr::KILL, &[9999, 0]), error(Errno::ESRCH));
    let info = first.put(0, &[0; 128]);
    assert_eq!(first.call(nr::RT_SIGQUEUEINFO, &[pid.into(), 34, info]), error(Errno::EPERM));
    // The default of this one ends the other, not the sender.
    assert_eq!(first.call(nr::KILL, &[pid.into(), 15]), 0);
    assert!(second.process.threads.is_ending() && !first.process.threads.is_ending());
}

#[test]
fn timers_send_signals_and_count_what_they_missed() {
    let bench = Bench::new(&[]);
    set(&bench, SIGALRM, 0);
    set(&bench, REAL_TIME, 0);
    let setting = bench.put(0, &[timeval(0, 0), timeval(2, 500_000)].concat());
    assert_eq!(bench.call(nr::SETITIMER, &[0, setting, 0]), 0);
    assert_eq!(bench.call(nr::PAUSE, &[]), error(Errno::EINTR));
    let regs = bench.handled.lock()[0];
    assert_eq!(u32_at(&bench.get(regs.rsi - MEMORY, 12), 8).cast_signed(), SI_KERNEL);
    assert_eq!(handled(&bench), [u64::from(SIGALRM)]);
    assert_eq!(bench.call(nr::ALARM, &[7]), 0);
    assert_eq!(bench.call(nr::ALARM, &[0]), 7);
    // One of 10 ms whose signal is blocked for a second.
    let mut event = [0; 64];
    event[..4].copy_from_slice(&55_u32.to_le_bytes());
    event[8] = REAL_TIME as u8;
    let event = bench.put(0x100, &event);
    assert_eq!(bench.call(nr::TIMER_CREATE, &[1, event, MEMORY + 0x80]), 0);
    let id = u64::from(u32_at(&bench.get(0x80, 4), 0));
    let blocked = bench.put(0x40, &(1_u64 << (REAL_TIME - 1)).to_le_bytes());
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[0, blocked, 0, 8]), 0);
    let period = [timespec(10_000_000).bytes(), timespec(10_000_000).bytes()].concat();
    let period = bench.put(0, &period);
    assert_eq!(bench.call(nr::TIMER_SETTIME, &[id, 0, period, 0]), 0);
    assert!(executor::run_to_end(executor::sleep(1_000_000_000)).is_ok());
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[1, blocked, 0, 8]), 0);
    let regs = bench.handled.lock()[0];
    let told = bench.get(regs.rsi - MEMORY, 32);
    assert_eq!([8, 16, 24].map(|at| u32_at(&told, at)), [SI_TIMER.cast_unsigned(), id as u32, 55]);
    assert_eq!(u32_at(&told, 20), 99, "a hundred times, and one of them sent the signal");
    assert_eq!(bench.call(nr::TIMER_GETOVERRUN, &[id]), 99);
    assert_eq!(bench.call(nr::TIMER_DELETE, &[id]), 0);
    assert_eq!(bench.call(nr::TIMER_DELETE, &[id]), error(Errno::EINVAL));
    for _ in 0..crate::limits::TIMERS_MAX {
        assert_eq!(bench.call(nr::TIMER_CREATE, &[1, 0, MEMORY + 0x80]), 0);
    }
    assert_eq!(bench.call(nr::TIMER_CREATE, &[1, 0, MEMORY + 0x80]), error(Errno::EAGAIN));
    bench.process.timers.stop();
}

fn timeval(seconds: u64, microseconds: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seconds.to_le_bytes());
    bytes[8..].copy_from_slice(&microseconds.to_le_bytes());
    bytes
}
