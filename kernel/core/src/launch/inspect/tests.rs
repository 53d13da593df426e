//! What is told of a process that is held, and that it goes on.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::inspect::debug::{BreakAt, BreakOn, Go, PLANTED_MAX, SetThread};
use coppice_protocol::inspect::held::{
    ABANDONED_NS, HeldThread, LEASE_NS, MEMORY_BYTES_MAX, MemoryPart, NotTold, REGISTERS, Shows,
};
use coppice_protocol::inspect::{Answer, Query, Question};
use coppice_protocol::syscalls as nr;

use super::held;
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::SignalSet;
use crate::abi::time::timespec;
use crate::executor::{self, TaskHandle};
use crate::limits::INSPECT_NS_MAX;
use crate::process::lease::BREAKPOINT;
use crate::process::signals::Target;
use crate::process::testing::{Bench, MEMORY, MEMORY_BYTES, idle};

const HOUR_NS: u64 = 3_600_000_000_000;

/// A process whose thread sleeps for an hour.
fn sleeps() -> (Bench, TaskHandle) {
    let bench = Bench::new(&[]);
    let time = bench.put(0x100, timespec(HOUR_NS).bytes());
    let (process, state, handled) = (Arc::clone(&bench.process), Arc::clone(&bench.state), Arc::clone(&bench.handled));
    let sleeping = executor::spawn(async move {
        let _ = idle(&process, &state).make(nr::NANOSLEEP.into(), [time, 0, 0, 0, 0, 0], &handled).await;
    });
    bench.rest();
    (bench, sleeping.expect("room for a task"))
}

fn ask(bench: &Bench, question: Question) -> Result<Answer, NotTold> {
    ask_as(1, bench, question)
}

/// The same as somebody else.
fn ask_as(by: u64, bench: &Bench, question: Question) -> Result<Answer, NotTold> {
    let query = Query { by, question };
    let process = Arc::clone(&bench.process);
    let deadline_ns = executor::now_ns() + INSPECT_NS_MAX;
    executor::run_to_end(async move { held::answer(&process, &query, deadline_ns).await }).expect("a deadline")
}

fn pass(duration_ns: u64) {
    assert!(executor::run_to_end(executor::sleep(duration_ns)).is_ok());
}

#[test]
fn a_thread_that_waits_is_told_with_its_call() {
    let (bench, _sleeping) = sleeps();
    let Ok(Answer::Held(process)) = ask(&bench, Question::Hold) else { panic!("it can be held") };
    assert_eq!((process.pid, process.parent, process.threads), (bench.process.identity.pid, 1, 1));
    let Ok(Answer::Threads(threads, None)) = ask(&bench, Question::Threads { from: 0 }) else { panic!("threads") };
    let [HeldThread { tid, in_call: true, registers, .. }] = &threads[..] else { panic!("{threads:?}") };
    assert_eq!((*tid, registers[0], registers[5]), (process.pid, nr::NANOSLEEP.into(), MEMORY + 0x100));
    assert_eq!(ask(&bench, Question::Threads { from: process.pid + 1 }), Ok(Answer::Threads(alloc::vec![], None)));
    let Ok(Answer::Areas(areas, None)) = ask(&bench, Question::Areas { from: 0 }) else { panic!("areas") };
    let first = areas.first().expect("an area");
    assert_eq!(
        (first.start, first.end, first.write, &first.shows),
        (MEMORY, MEMORY + MEMORY_BYTES, true, &Shows::Zeros)
    );
    let Ok(Answer::Areas(rest, None)) = ask(&bench, Question::Areas { from: MEMORY + 1 }) else { panic!("areas") };
    assert_eq!(rest, areas[1..]);
}

#[test]
fn memory_is_told_without_pages_for_zeros() {
    let (bench, _sleeping) = sleeps();
    bench.put(0x5ffe, b"abcd");
    assert!(ask(&bench, Question::Hold).is_ok());
    let pages = || bench.process.space.lock().stats().pages;
    let before = pages();
    let told = |address, length| match ask(&bench, Question::Memory { address, length }) {
        Ok(Answer::Memory(MemoryPart { zeros, bytes })) => (zeros, bytes.to_vec()),
        other => panic!("{other:?}"),
    };
    // Up to the first page that was touched, and from there on up to the first that was not.
    let (zeros, bytes) = told(MEMORY + 0x1000, MEMORY_BYTES - 0x1000);
    assert_eq!((zeros, bytes.len(), &bytes[0xffe..0x1002]), (0x4000, 0x2000, &b"abcd"[..]));
    let (zeros, bytes) = told(MEMORY + 0x5fff, 2);
    assert_eq!((zeros, &bytes[..]), (0, &b"bc"[..]));
    assert_eq!(told(MEMORY + 0x7000, MEMORY_BYTES - 0x7000), (MEMORY_BYTES - 0x7000, alloc::vec![]));
    // Where nothing is mapped, and at the end of everything.
    assert_eq!(told(0x1000, 10), (10, alloc::vec![]));
    assert_eq!(told(u64::MAX - 5, u64::MAX).0, 5);
    assert_eq!(told(MEMORY, 0), (0, alloc::vec![]));
    assert_eq!(pages(), before);
}

#[test]
fn it_goes_on_when_nobody_asks_or_it_is_told_to() {
    let (bench, _sleeping) = sleeps();
    let areas = Question::Areas { from: 0 };
    let is_held = || bench.process.threads.hold.is_asked();
    assert_eq!(ask(&bench, areas.clone()), Err(NotTold::NotHeld));
    assert!(ask(&bench, Question::Hold).is_ok() && is_held());
    // Each question has it held for as long anew.
    for _ in 0..3 {
        pass(LEASE_NS - 1_000_000);
        assert!(ask(&bench, areas.clone()).is_ok() && is_held());
    }
    pass(LEASE_NS + 1);
    assert!(!is_held());
    assert_eq!(ask(&bench, areas.clone()), Err(NotTold::NotHeld));
    assert!(ask(&bench, Question::Hold).is_ok());
    bench.process.end_lease(1);
    assert_eq!(ask(&bench, areas.clone()), Err(NotTold::NotHeld));
    pass(1);
    assert!(!is_held());
    // Let go and held at once: one hold, of which nothing is left when it is over.
    assert!(ask(&bench, Question::Hold).is_ok());
    bench.process.end_lease(1);
    assert!(ask(&bench, Question::Hold).is_ok() && ask(&bench, areas.clone()).is_ok());
    pass(LEASE_NS + 1);
    assert!(!is_held());
}

#[test]
fn only_who_has_it_held_is_told_of_it() {
    let (bench, _sleeping) = sleeps();
    let areas = || Question::Areas { from: 0 };
    assert!(ask_as(1, &bench, Question::Hold).is_ok());
    assert_eq!(ask_as(2, &bench, Question::Hold), Err(NotTold::Taken));
    assert_eq!(ask_as(2, &bench, areas()), Err(NotTold::NotHeld));
    bench.process.end_lease(2);
    assert!(ask_as(1, &bench, areas()).is_ok(), "nobody else ends it");
    // Who asks nothing for a while may be gone.
    pass(ABANDONED_NS - 1_000_000);
    assert_eq!(ask_as(2, &bench, Question::Hold), Err(NotTold::Taken));
    assert!(ask_as(1, &bench, areas()).is_ok());
    pass(ABANDONED_NS);
    assert!(ask_as(2, &bench, Question::Hold).is_ok());
    assert_eq!(ask_as(1, &bench, areas()), Err(NotTold::NotHeld));
    assert!(ask_as(2, &bench, areas()).is_ok());
    bench.process.end_lease(2);
    pass(1);
    assert!(ask_as(1, &bench, Question::Hold).is_ok());
    // When it is over for the first, and another has it, the first is not told of that moment.
    pass(LEASE_NS + 1);
    assert!(ask_as(2, &bench, Question::Hold).is_ok());
    assert_eq!(ask_as(1, &bench, areas()), Err(NotTold::NotHeld));
    assert!(ask_as(2, &bench, areas()).is_ok());
    bench.process.end_lease(2);
    pass(1);
    assert!(!bench.process.threads.hold.is_asked());
}

fn memory(bench: &Bench, address: u64, length: u64) -> Vec<u8> {
    match ask(bench, Question::Memory { address, length }) {
        Ok(Answer::Memory(MemoryPart { zeros, bytes })) => [vec![0; zeros as usize], bytes.to_vec()].concat(),
        other => panic!("{other:?}"),
    }
}

fn only_thread(bench: &Bench) -> HeldThread {
    match ask(bench, Question::Threads { from: 0 }) {
        Ok(Answer::Threads(threads, None)) => threads.into_iter().next().expect("one thread"),
        other => panic!("{other:?}"),
    }
}

/// Those that were sent to its process are nobody's yet.
#[test]
fn a_thread_is_told_with_its_own_signals() {
    const USR1: u32 = 10;
    const USR2: u32 = 12;
    let (bench, _sleeping) = sleeps();
    let (process, tid) = (&bench.process, bench.state.tid);
    let blocked = SignalSet(1 << (USR1 - 1) | 1 << (USR2 - 1));
    process.call_threads(process.signals.lock().set_blocked(tid, blocked));
    for (target, signal) in [(Target::Thread(tid), USR1), (Target::Process, USR2)] {
        assert!(process.send(target, SignalInfo::user(signal, 1, 0)).is_ok_and(|end| end.is_none()));
    }
    assert!(ask(&bench, Question::Hold).is_ok());
    let thread = only_thread(&bench);
    assert_eq!((thread.blocked, thread.pending), (blocked.0, 1 << (USR1 - 1)));
}

#[test]
fn a_held_process_is_changed_as_a_debugger_wants() {
    let (bench, _sleeping) = sleeps();
    let write = |address, bytes: &[u8]| Question::Write { address, bytes: bytes.into() };
    assert_eq!(ask(&bench, write(MEMORY, b"x")), Err(NotTold::NotHeld));
    assert!(ask(&bench, Question::Hold).is_ok());
    // Over the end of a page, and of what is mapped.
    assert_eq!(ask(&bench, write(MEMORY + 0x1ffe, b"abcd")), Ok(Answer::Changed));
    assert_eq!(memory(&bench, MEMORY + 0x1ffd, 6), b"\0abcd\0");
    assert_eq!(ask(&bench, write(MEMORY + MEMORY_BYTES - 1, b"xy")), Err(NotTold::Refused));
    assert_eq!(ask(&bench, write(u64::MAX, b"xy")), Err(NotTold::Refused));
    assert_eq!(ask(&bench, write(MEMORY, &vec![1; MEMORY_BYTES_MAX + 1])), Err(NotTold::Refused));
    // Elsewhere than in its call, and back in that.
    let HeldThread { tid, registers, vector, .. } = only_thread(&bench);
    let elsewhere = SetThread { tid, registers: [7; REGISTERS], in_call: false, vector: vector.clone() };
    assert_eq!(ask(&bench, Question::Set(elsewhere.clone())), Ok(Answer::Changed));
    let now = only_thread(&bench);
    assert_eq!((now.registers, now.in_call), ([7; REGISTERS], false));
    let back = SetThread { tid, registers, in_call: true, vector: vector.clone() };
    assert_eq!(ask(&bench, Question::Set(back.clone())), Ok(Answer::Changed));
    assert_eq!(only_thread(&bench), HeldThread { tid, registers, vector, in_call: true, ..now });
    // Its call is not kept for a debugger that has left: the thread is where that had it go.
    let _ = ask(&bench, Question::Set(elsewhere.clone()));
    bench.process.threads.hold.debugger.leave();
    assert_eq!(ask(&bench, Question::Set(back.clone())), Ok(Answer::Changed));
    let again = only_thread(&bench);
    assert_eq!((again.registers[16], again.in_call), (registers[16] - 2, false), "it makes it again");
    // What no thread can be, and one that there is not.
    for bad in [SetThread { vector: "x".into(), ..back.clone() }, SetThread { tid: tid + 1, ..back }] {
        assert_eq!(ask(&bench, Question::Set(bad)), Err(NotTold::Refused));
    }
}

#[test]
fn breakpoints_are_in_the_program_only_while_it_goes_on() {
    let (bench, _sleeping) = sleeps();
    let (at, debugger) = (MEMORY + 0x3000, &bench.process.threads.hold.debugger);
    bench.put(0x3000, &[0x90, BREAKPOINT]);
    let go = || Question::Go(Go { planted: vec![at, at + 1], ..Go::default() });
    assert_eq!(ask(&bench, go()), Err(NotTold::NotHeld));
    for end in [Some(true), Some(false), None] {
        assert!(ask(&bench, Question::Hold).is_ok());
        assert_eq!(ask(&bench, go()), Ok(Answer::Goes));
        assert_eq!(bench.get(0x3000, 2), [BREAKPOINT; 2]);
        assert!(debugger.is_there());
        // It does not stop. Who is at it keeps it so; who is not cannot look.
        assert_eq!(ask(&bench, Question::Stop), Ok(Answer::Stopped(None)));
        assert_eq!(ask(&bench, Question::Areas { from: 0 }), Err(NotTold::NotHeld));
        assert_eq!(ask_as(2, &bench, Question::Stop), Err(NotTold::NotHeld));
        match end {
            // Held again, let go of, or nobody asks any more.
            Some(true) => assert!(ask(&bench, Question::Hold).is_ok()),
            Some(false) => bench.process.end_lease(1),
            None => pass(LEASE_NS + 1),
        }
        pass(1);
        // The program's own one has stayed.
        assert_eq!(bench.get(0x3000, 2), [0x90, BREAKPOINT]);
        bench.process.end_lease(1);
        pass(1);
        assert!(!debugger.is_there() && !bench.process.threads.hold.is_asked());
    }
    // Another comes when the debugger is silent: it finds the program as it was.
    assert!(ask(&bench, Question::Hold).is_ok());
    assert_eq!(ask(&bench, go()), Ok(Answer::Goes));
    pass(ABANDONED_NS);
    assert!(ask_as(2, &bench, Question::Hold).is_ok());
    assert_eq!(bench.get(0x3000, 2), [0x90, BREAKPOINT]);
    bench.process.end_lease(2);
    pass(1);
    // More than there may be, and where nothing is: none stays.
    assert!(ask(&bench, Question::Hold).is_ok());
    for planted in [vec![at; PLANTED_MAX + 1], vec![at, 0x10]] {
        assert_eq!(ask(&bench, Question::Go(Go { planted, ..Go::default() })), Err(NotTold::Refused));
        assert_eq!(bench.get(0x3000, 2), [0x90, BREAKPOINT]);
    }
    let odd = Some(BreakAt { address: at + 1, on: BreakOn::Write, length: 4 });
    let refused = Go { planted: vec![at], breakpoints: [odd, None, None, None], ..Go::default() };
    assert_eq!(ask(&bench, Question::Go(refused)), Err(NotTold::Refused));
    assert_eq!(bench.get(0x3000, 2), [0x90, BREAKPOINT]);
}

#[test]
fn nothing_keeps_a_process_that_ends() {
    let (bench, sleeping) = sleeps();
    assert!(ask(&bench, Question::Hold).is_ok());
    bench.process.end(crate::process::End::status(3));
    sleeping.abort();
    pass(1);
    assert_eq!(ask(&bench, Question::Areas { from: 0 }), Err(NotTold::NotHeld));
    assert_eq!(ask(&bench, Question::Hold), Err(NotTold::Ending));
    pass(1);
    assert!(!bench.process.threads.hold.is_asked());
    assert_eq!(Arc::strong_count(&bench.process), 1);
}
