//! Areas, signals and timers are charged with no less than the heap takes for them. What descriptors stand for is tried
//! in [`super::kept`].

use coppice_hal::heap::held_bytes;
use coppice_protocol::syscalls as nr;

use crate::process::testing::{Bench, MEMORY};

/// Objects made before it is looked what one takes: what grows now and then has grown.
const FIRST: u64 = 16;
/// Objects made then.
const MORE: u64 = 112;

/// Makes objects one after the other, and holds what they take against what they are charged with.
fn hold(what: &str, bench: &Bench, make: impl Fn(&Bench, u64)) {
    (0..FIRST).for_each(|number| make(bench, number));
    let quota = &bench.process.node.quota;
    let before = (held_bytes(), quota.taken());
    (FIRST..FIRST + MORE).for_each(|number| make(bench, number));
    let held = (held_bytes() - before.0).max(0) as u64 / MORE;
    let charged = (quota.taken() - before.1) as u64 / MORE;
    assert!(held > 0 && held <= charged, "{what}: {held} bytes held each, {charged} charged");
}

/// Makes a call that is to succeed.
fn made(bench: &Bench, number: u32, arguments: &[u64]) -> u64 {
    let result = bench.call(number, arguments);
    assert!(result >= 0, "{number}: {result}");
    result as u64
}

#[test]
fn areas() {
    let bench = Bench::new(&[]);
    // Neighbours have different rights, so that each is an area of its own.
    let quota = &bench.process.node.quota;
    bench.process.space.lock().share_room(1, quota);
    let fill = |bench: &Bench, number: u64| {
        let _ = made(bench, nr::MMAP, &[0, 4096, 1 + number % 2 * 2, 0x22, 0, 0]);
    };
    (0..crate::limits::AREAS_FREE as u64).for_each(|number| fill(&bench, number));
    hold("area", &bench, fill);
}

#[test]
fn signals_and_timers() {
    let bench = Bench::new(&[]);
    let all = bench.put(0, &u64::MAX.to_le_bytes());
    let _ = made(&bench, nr::RT_SIGPROCMASK, &[0, all, 0, 8]);
    let pid = made(&bench, nr::GETPID, &[]);
    let send = |bench: &Bench, _: u64| {
        let mut information = [0; 128];
        information[8..12].copy_from_slice(&(-1_i32).to_le_bytes());
        let information = bench.put(0, &information);
        let _ = made(bench, nr::RT_SIGQUEUEINFO, &[pid, 40, information]);
    };
    (0..crate::limits::SIGNALS_FREE as u64).for_each(|number| send(&bench, number));
    hold("signal", &bench, send);
    // There may be no more of them than 64. With the first one the I/O node's connection is made.
    let bench = Bench::new(&[]);
    let make = |number: u64| {
        let _ = made(&bench, nr::TIMER_CREATE, &[1, 0, MEMORY]);
        let when = bench.put(0x100, &[0, 0, 1000 + number, 0].map(u64::to_le_bytes).concat());
        let _ = made(&bench, nr::TIMER_SETTIME, &[number, 0, when, 0]);
    };
    make(0);
    bench.rest();
    let before = (held_bytes(), bench.process.node.quota.taken());
    (1..60).for_each(make);
    let (held, charged) = (held_bytes() - before.0, bench.process.node.quota.taken() - before.1);
    assert!(held > 0 && held.unsigned_abs() <= charged, "60 timers: {held} bytes held, {charged} charged");
}
