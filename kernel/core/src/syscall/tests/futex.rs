//! futex(2) as a call, and what a thread leaves behind.

use core::sync::atomic::Ordering;

use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::process::ThreadState;
use crate::process::testing::{Bench, MEMORY, READ_ONLY};

const PRIVATE: u64 = 128;
const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const WAKE_OP: u64 = 5;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn value(bench: &Bench, offset: u64) -> u32 {
    u32::from_le_bytes(bench.get(offset, 4).try_into().expect("four bytes"))
}

#[test]
fn waking_looks_at_memory_only_if_others_may_show_it() {
    let bench = Bench::new(&[]);
    let call = |address, operation| bench.call(nr::FUTEX, &[address, operation, 1]);
    assert_eq!(call(0x8000, WAKE | PRIVATE), 0);
    assert_eq!(call(0x8000, WAKE), error(Errno::EFAULT));
    assert_eq!(call(0x8002, WAKE | PRIVATE), error(Errno::EINVAL));
    assert_eq!(call(u64::MAX - 3, WAKE | PRIVATE), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::FUTEX, &[0x8000, PRIVATE, 1]), error(Errno::EFAULT), "sleeping does");
    assert_eq!(bench.call(nr::FUTEX, &[MEMORY, 10 | PRIVATE, 1, 0, 0, 0]), error(Errno::EINVAL));
    // Requeueing to locks with priorities, and what there never was.
    for operation in [2, 11, 12, 99, WAKE | 256] {
        assert_eq!(call(MEMORY, operation | PRIVATE), error(Errno::ENOSYS), "{operation}");
    }
}

#[test]
fn a_lock_has_one_holder() {
    const LOCK: u64 = 6;
    const UNLOCK: u64 = 7;
    const TRY_LOCK: u64 = 8;
    let bench = Bench::new(&[]);
    let call = |operation| bench.call(nr::FUTEX, &[MEMORY, operation | PRIVATE, 0]);
    assert_eq!(call(UNLOCK), error(Errno::EPERM));
    assert_eq!(call(LOCK), 0);
    assert_eq!([call(LOCK), call(TRY_LOCK)], [error(Errno::EDEADLK); 2]);
    assert_eq!(call(UNLOCK), 0);
    assert_eq!([call(TRY_LOCK), call(UNLOCK)], [0, 0]);
    bench.put(0, &4_000_000_u32.to_le_bytes());
    assert_eq!(call(LOCK), error(Errno::ESRCH));
}

#[test]
fn requeues_count_who_was_woken_and_who_was_moved() {
    let bench = Bench::new(&[]);
    let (from, to) = (MEMORY, MEMORY + 0x100);
    let meanwhile: [(u32, &[u64], i64); 4] = [
        (nr::FUTEX, &[from, REQUEUE | PRIVATE, 0, u64::MAX, to], error(Errno::EINVAL)),
        (nr::FUTEX, &[from, REQUEUE | PRIVATE, 0, 5, to], 1),
        (nr::FUTEX, &[from, WAKE | PRIVATE, 1], 0),
        (nr::FUTEX, &[to, WAKE | PRIVATE, 1], 1),
    ];
    assert_eq!(bench.call_during(nr::FUTEX, &[from, WAIT | PRIVATE, 0, 0], &meanwhile), 0);
}

#[test]
fn a_word_is_changed_and_two_are_woken() {
    let bench = Bench::new(&[]);
    let (one, other) = (MEMORY, bench.put(0x100, &5_u32.to_le_bytes()));
    let add_if_equal = |argument: u64, compared: u64| 1 << 28 | argument << 12 | compared;
    let meanwhile: [(u32, &[u64], i64); 4] = [
        (nr::FUTEX, &[one, WAKE_OP | PRIVATE, 1, 1, READ_ONLY, 0], error(Errno::EFAULT)),
        (nr::FUTEX, &[one, WAKE_OP | PRIVATE, 1, 1, other, 7 << 28], error(Errno::ENOSYS)),
        (nr::FUTEX, &[one, WAKE_OP | PRIVATE, 1, 1, other, add_if_equal(2, 4)], 0),
        (nr::FUTEX, &[one, WAKE_OP | PRIVATE, 1, 1, other, add_if_equal(2, 7)], 1),
    ];
    // It sleeps at the second word, which was changed by then.
    let sleeps = &[other, 9 | PRIVATE, 5, 0, 0, 1];
    assert_eq!(bench.call_during(nr::FUTEX, sleeps, &meanwhile), 0);
    assert_eq!(value(&bench, 0x100), 9);
    assert_eq!(bench.call(nr::FUTEX, &[one, WAKE_OP | PRIVATE, 1, 1, other, 1 << 12 | 7 << 24]), error(Errno::ENOSYS));
    assert_eq!(value(&bench, 0x100), 1, "as on Linux, the change was made");
}

#[test]
fn a_robust_list_is_remembered() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::SET_ROBUST_LIST, &[MEMORY, 23]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::SET_ROBUST_LIST, &[MEMORY + 0x40, 24]), 0);
    assert_eq!(bench.call(nr::GET_ROBUST_LIST, &[0, MEMORY, MEMORY + 8]), 0);
    assert_eq!(bench.get(0, 16), [(MEMORY + 0x40).to_le_bytes(), 24_u64.to_le_bytes()].concat());
    assert_eq!(bench.call(nr::GET_ROBUST_LIST, &[1, MEMORY, MEMORY + 8]), error(Errno::ESRCH));
}

/// Where the tests have the head of a list; locks lie 8 bytes before their entries.
const HEAD: u64 = 0x100;

/// Puts a list of entries at these offsets into memory, and the address of one that is pending.
fn put_list(bench: &Bench, entries: &[u64], pending: u64) {
    let mut at = HEAD;
    for entry in entries {
        bench.put(at, &(MEMORY + entry).to_le_bytes());
        at = *entry & !1;
    }
    bench.put(at, &(MEMORY + HEAD).to_le_bytes());
    bench.put(HEAD + 8, &(-8_i64).to_le_bytes());
    bench.put(HEAD + 16, &pending.to_le_bytes());
}

fn put_lock(bench: &Bench, entry: u64, word: u32) {
    bench.put(entry - 8, &word.to_le_bytes());
}

/// A thread that is about to end.
fn ending(bench: &Bench) -> ThreadState {
    let tid = bench.process.identity.pid;
    ThreadState::new(tid, bench.process.identity.name(), 0, 1, bench.process.node.quota.charge(0).expect("nothing"))
}

fn dying(bench: &Bench) -> ThreadState {
    let thread = ending(bench);
    thread.robust_list.store(MEMORY + HEAD, Ordering::Relaxed);
    thread
}

#[test]
fn the_locks_of_a_thread_that_ends_are_given_up() {
    const OTHER: u32 = 77;
    let bench = Bench::new(&[]);
    let thread = dying(&bench);
    put_list(&bench, &[0x200, 0x301, 0x400, 0x500], MEMORY + 0x600);
    put_lock(&bench, 0x200, thread.tid);
    put_lock(&bench, 0x300, thread.tid | 0x8000_0000);
    put_lock(&bench, 0x400, OTHER);
    put_lock(&bench, 0x500, thread.tid | 0x8000_0000);
    put_lock(&bench, 0x600, thread.tid);
    bench.process.let_go(&thread);
    let words = [0x200, 0x300, 0x400, 0x500, 0x600].map(|entry| value(&bench, entry - 8));
    assert_eq!(words, [0x4000_0000, 0xc000_0000, OTHER, 0xc000_0000, 0x4000_0000]);
}

#[test]
fn one_who_waits_for_a_dead_threads_lock_is_woken() {
    // A lock with waiters; one that was just released, and whose waiters were not woken yet.
    for (word, entries, pending) in
        [(1002 | 0x8000_0000, &[0x200][..], 0), (0, &[][..], MEMORY + 0x200), (0x8000_0000, &[0x200], MEMORY + 0x200)]
    {
        let bench = Bench::new(&[]);
        let thread = dying(&bench);
        assert_eq!(thread.tid, 1002);
        put_list(&bench, entries, pending);
        put_lock(&bench, 0x200, word);
        let ends = |bench: &Bench| bench.process.let_go(&thread);
        assert_eq!(bench.wait_while(nr::FUTEX, &[MEMORY + 0x1f8, WAIT, word.into(), 0], ends), Some(0), "{word:#x}");
    }
}

#[test]
fn the_end_of_a_thread_is_announced() {
    let bench = Bench::new(&[]);
    let thread = ending(&bench);
    let word = bench.put(0, &1_u32.to_le_bytes());
    thread.clear_tid.store(word, Ordering::Relaxed);
    let ends = |bench: &Bench| bench.process.let_go(&thread);
    assert_eq!(bench.wait_while(nr::FUTEX, &[word, WAIT, 1, 0], ends), Some(0));
    assert_eq!(value(&bench, 0), 0);
    // Memory that is gone is nobody's concern.
    thread.clear_tid.store(0x8000, Ordering::Relaxed);
    bench.process.let_go(&thread);
}

#[test]
fn wild_lists_do_no_harm() {
    let bench = Bench::new(&[]);
    let thread = dying(&bench);
    for head in [1, 0x8000, u64::MAX - 7, READ_ONLY, MEMORY + crate::process::testing::MEMORY_BYTES - 4] {
        thread.robust_list.store(head, Ordering::Relaxed);
        bench.process.let_go(&thread);
    }
    thread.robust_list.store(MEMORY + HEAD, Ordering::Relaxed);
    // A list that never comes back to its head, one that leads nowhere, and a lock that cannot be.
    put_list(&bench, &[0x200], 0);
    bench.put(0x200, &(MEMORY + 0x200).to_le_bytes());
    put_lock(&bench, 0x200, thread.tid);
    bench.process.let_go(&thread);
    assert_eq!(value(&bench, 0x1f8), 0x4000_0000);
    bench.put(0x200, &0x8000_u64.to_le_bytes());
    bench.process.let_go(&thread);
    bench.put(HEAD + 8, &3_u64.to_le_bytes());
    bench.process.let_go(&thread);
    bench.put(HEAD + 8, &(READ_ONLY - MEMORY - 0x200).to_le_bytes());
    bench.process.let_go(&thread);
}
