//! What is told of a process that is held, and that it goes on.

use alloc::sync::Arc;

use coppice_protocol::inspect::held::{HeldThread, LEASE_NS, MemoryPart, NotTold, Shows};
use coppice_protocol::inspect::{Answer, Question};
use coppice_protocol::syscalls as nr;

use super::held;
use crate::abi::time::timespec;
use crate::executor::{self, TaskHandle};
use crate::limits::INSPECT_NS_MAX;
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
    let process = Arc::clone(&bench.process);
    let deadline_ns = executor::now_ns() + INSPECT_NS_MAX;
    executor::run_to_end(async move { held::answer(&process, question, deadline_ns).await }).expect("a deadline")
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
    assert_eq!(ask(&bench, areas), Err(NotTold::NotHeld));
    assert!(ask(&bench, Question::Hold).is_ok() && is_held());
    // Each question has it held for as long anew.
    for _ in 0..3 {
        pass(LEASE_NS - 1_000_000);
        assert!(ask(&bench, areas).is_ok() && is_held());
    }
    pass(LEASE_NS + 1);
    assert!(!is_held());
    assert_eq!(ask(&bench, areas), Err(NotTold::NotHeld));
    assert!(ask(&bench, Question::Hold).is_ok());
    bench.process.end_lease();
    assert_eq!(ask(&bench, areas), Err(NotTold::NotHeld));
    pass(1);
    assert!(!is_held());
    // Let go and held at once: one hold, of which nothing is left when it is over.
    assert!(ask(&bench, Question::Hold).is_ok());
    bench.process.end_lease();
    assert!(ask(&bench, Question::Hold).is_ok() && ask(&bench, areas).is_ok());
    pass(LEASE_NS + 1);
    assert!(!is_held());
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
