//! Files that are mapped shared, and written through that: who sees it, and when it is in the file.

mod private;

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::ids::JobId;
use coppice_protocol::lease::{FileId, Lease};
use coppice_protocol::ship::{Call, Notice};
use coppice_protocol::syscalls as nr;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::errno::Errno;
use crate::executor;
use crate::files::flags;
use crate::memory::CopyError;
use crate::process::testing::{Bench, MEMORY, order, pattern};

const PATH: &str = "/work/a";
const PAGE: u64 = 4096;
/// `PROT_READ | PROT_WRITE`, `MAP_SHARED` and `MAP_PRIVATE`.
const READ_WRITE: u64 = 3;
const SHARED: u64 = 1;
const PRIVATE: u64 = 2;
const MS_SYNC: u64 = 4;
/// Where what is read goes in the program's memory.
const READ: u64 = 0x10_0000;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

/// A node that has a lease, or none.
fn bench(lease: Option<Lease>, bytes: &[u8]) -> Bench {
    let bench = Bench::new(&[(PATH, bytes)]);
    {
        let mut world = bench.world.lock();
        (world.lease, world.version) = (lease, 1);
    }
    bench
}

fn open(bench: &Bench) -> u64 {
    u64::try_from(bench.open(PATH, flags::O_RDWR)).expect("it opens")
}

fn map(bench: &Bench, file: u64, pages: u64, kind: u64) -> u64 {
    u64::try_from(bench.call(nr::MMAP, &[0, pages * PAGE, READ_WRITE, kind, file, 0])).expect("it is mapped")
}

/// Does something to the program's memory as the program would: pages come as they are touched. False: it would get a
/// signal.
fn touch(bench: &Bench, mut attempt: impl FnMut() -> Result<(), CopyError>) -> bool {
    loop {
        match attempt() {
            Ok(()) => return true,
            Err(CopyError::Fetch { fetch, .. }) => {
                let process = Arc::clone(&bench.process);
                let fetched = executor::run_to_end(async move { process.fetch_for_copy(&fetch).await.is_ok() });
                if fetched != Ok(true) {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
}

fn poke(bench: &Bench, address: u64, bytes: &[u8]) -> bool {
    touch(bench, || bench.process.space.lock().write_bytes(address, bytes))
}

fn peek(bench: &Bench, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    touch(bench, || bench.process.space.lock().read_bytes(address, &mut bytes)).then_some(bytes)
}

fn read(bench: &Bench, file: u64, offset: u64, length: u64) -> Vec<u8> {
    let count = bench.call(nr::PREAD64, &[file, MEMORY + READ, length, offset]);
    bench.get(READ, usize::try_from(count).expect("it is read"))
}

fn write(bench: &Bench, file: u64, offset: u64, bytes: &[u8]) {
    let at = bench.put(0, bytes);
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, bytes.len() as u64, offset]), bytes.len() as i64);
}

const LEASES: [Option<Lease>; 2] = [None, Some(Lease::Sole)];

#[test]
fn what_is_written_to_a_mapping_is_seen_by_all_and_is_in_the_file_when_asked_for() {
    for lease in LEASES {
        let bytes = pattern(10_000);
        let bench = bench(lease, &bytes);
        let other = bench.sibling(None);
        let file = open(&bench);
        let (one, two) = (map(&bench, file, 3, SHARED), map(&bench, file, 3, SHARED));
        let others = map(&other, open(&other), 3, SHARED);
        assert_eq!(peek(&bench, two, 10_000), Some(bytes.clone()));
        assert_eq!(peek(&other, others, 10_000), Some(bytes.clone()));
        assert!(poke(&bench, one + 5000, b"here"));
        assert_eq!(peek(&bench, two + 5000, 4), Some(b"here".to_vec()));
        assert_eq!(peek(&other, others + 5000, 4), Some(b"here".to_vec()));
        assert!(poke(&other, others + 5001, b"E"));
        assert_eq!(peek(&bench, one + 5000, 4), Some(b"hEre".to_vec()));
        assert!(bench.file(PATH) == bytes, "{lease:?}: not yet");
        assert_eq!(bench.call(nr::MSYNC, &[one, PAGE, MS_SYNC]), 0);
        let expected = [&bytes[..5000], b"hEre", &bytes[5004..]].concat();
        assert!(bench.file(PATH) == expected, "{lease:?}: and no byte more");
        // Once it is written back, the next write is noticed, too.
        assert!(poke(&bench, two + 5000, b"once"));
        assert_eq!(read(&bench, file, 5000, 4), b"once", "who reads sees it");
        assert_eq!(bench.call(nr::FSYNC, &[file]), 0);
        assert_eq!(&bench.file(PATH)[5000..5004], b"once");
    }
}

/// Each mapping keeps the file open that it was made with, so that many have it open to write.
#[test]
fn a_file_is_mapped_as_often_as_it_is_opened() {
    const TIMES: u64 = 40;
    let bench = bench(Some(Lease::Sole), &[1; PAGE as usize]);
    let mapped: Vec<u64> = (0..TIMES)
        .map(|_| {
            let file = open(&bench);
            let mapped = map(&bench, file, 1, SHARED);
            assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
            mapped
        })
        .collect();
    for (index, at) in mapped.iter().enumerate() {
        assert!(poke(&bench, at + index as u64, &[index as u8 + 2]));
    }
    let last = mapped[mapped.len() - 1];
    assert_eq!(bench.call(nr::MSYNC, &[last, PAGE, MS_SYNC]), 0);
    let expected: Vec<u8> = (2..).take(TIMES as usize).collect();
    assert_eq!(bench.world.lock().files[PATH.as_bytes()].get(..TIMES as usize), Some(&*expected));
    // Whoever writes by calls goes on when most of them are gone.
    let file = open(&bench);
    for at in &mapped {
        assert_eq!(bench.call(nr::MUNMAP, &[*at, PAGE]), 0);
    }
    bench.put(READ, &[99]);
    assert_eq!(bench.call(nr::PWRITE64, &[file, MEMORY + READ, 1, 0]), 1);
    assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
    assert_eq!(bench.world.lock().files[PATH.as_bytes()][0], 99);
}

#[test]
fn what_is_written_by_calls_is_seen_in_mappings() {
    for lease in LEASES {
        let bench = bench(lease, &pattern(10_000));
        let file = open(&bench);
        let (mapped, own) = (map(&bench, file, 3, SHARED), map(&bench, file, 3, PRIVATE));
        for (turn, at) in [100, 4090, 8000, 100].into_iter().enumerate() {
            assert!(poke(&bench, mapped + at + 10, &[turn as u8; 3]));
            write(&bench, file, at, &[turn as u8 + 100; 10]);
            let expected = [[turn as u8 + 100; 10].as_slice(), &[turn as u8; 3]].concat();
            assert_eq!(peek(&bench, mapped + at, 13), Some(expected.clone()), "{lease:?} {at}");
            assert_eq!(peek(&bench, own + at, 13), Some(expected.clone()), "{lease:?} {at}");
            assert_eq!(read(&bench, file, at, 13), expected, "{lease:?} {at}");
        }
        // A copy of one's own is nobody else's.
        assert!(poke(&bench, own + 100, b"mine"));
        assert_ne!(peek(&bench, mapped + 100, 4), Some(b"mine".to_vec()));
    }
}

#[test]
fn a_file_has_its_end_whatever_is_written_behind_it() {
    for lease in LEASES {
        let bench = bench(lease, &pattern(5000));
        let file = open(&bench);
        let mapped = map(&bench, file, 4, SHARED);
        assert!(poke(&bench, mapped + 4990, &[7; 100]), "up to the end of its page");
        assert!(!poke(&bench, mapped + 2 * PAGE, b"x"), "no page behind");
        assert_eq!(bench.call(nr::MSYNC, &[mapped, 4 * PAGE, MS_SYNC]), 0);
        assert_eq!(bench.file(PATH).len(), 5000);
        assert_eq!(&bench.file(PATH)[4990..], [7; 10]);
        assert_eq!(bench.call(nr::FTRUNCATE, &[file, 9000]), 0);
        assert_eq!(peek(&bench, mapped + 5000, 90).map(|bytes| bytes == [0; 90]), Some(true), "{lease:?}");
        assert!(poke(&bench, mapped + 2 * PAGE, b"x"));
        // What was written and not written back goes with what is cut off.
        assert_eq!(bench.call(nr::FTRUNCATE, &[file, 100]), 0);
        assert!(!poke(&bench, mapped + 2 * PAGE, b"x") && !poke(&bench, mapped + PAGE, b"x"));
        assert_eq!(peek(&bench, mapped + 100, 10), Some(vec![0; 10]));
        assert_eq!(bench.call(nr::FTRUNCATE, &[file, 9000]), 0);
        assert_eq!(peek(&bench, mapped + 2 * PAGE, 2), Some(vec![0; 2]));
        assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
        assert_eq!(bench.call(nr::MUNMAP, &[mapped, 4 * PAGE]), 0);
        bench.rest();
        assert_eq!((bench.file(PATH).len(), bench.world.lock().open_count()), (9000, 0));
    }
}

#[test]
fn what_nobody_asks_for_is_written_in_a_while_or_when_the_last_mapping_goes() {
    for lease in LEASES {
        let bench = bench(lease, &pattern(5000));
        let file = open(&bench);
        let mapped = map(&bench, file, 2, SHARED);
        assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
        assert!(poke(&bench, mapped, b"one"));
        for _ in 0..3 {
            bench.rest();
        }
        assert_eq!(&bench.file(PATH)[..3], b"one");
        assert!(poke(&bench, mapped + PAGE, b"two"));
        assert_eq!(bench.call(nr::MUNMAP, &[mapped, 2 * PAGE]), 0);
        bench.rest();
        assert_eq!(&bench.file(PATH)[PAGE as usize..][..3], b"two");
        assert_eq!(bench.world.lock().open_count(), 0);
    }
}

/// What others do to a file of which there is no lease is seen by who maps it then.
#[test]
fn what_nobody_maps_any_more_is_not_believed() {
    let bench = bench(None, &pattern(5000));
    let file = open(&bench);
    for turn in 0..3_u8 {
        bench.world.lock().files.insert(PATH.into(), vec![turn; 5000]);
        let mapped = map(&bench, file, 2, SHARED);
        assert_eq!(peek(&bench, mapped + 100, 10), Some(vec![turn; 10]));
        assert!(poke(&bench, mapped + 10, b"x"));
        assert_eq!(bench.call(nr::MSYNC, &[mapped, 2 * PAGE, MS_SYNC]), 0);
        assert_eq!(bench.file(PATH)[..11], [vec![turn; 10], b"x".to_vec()].concat());
        assert_eq!(bench.call(nr::MUNMAP, &[mapped, 2 * PAGE]), 0);
    }
}

#[test]
fn what_cannot_be_written_back_is_said_once() {
    let bench = bench(Some(Lease::Sole), &pattern(20_000));
    bench.world.lock().fails_from = Some((4096, Errno::ENOSPC));
    let file = open(&bench);
    let mapped = map(&bench, file, 3, SHARED);
    assert!(poke(&bench, mapped, b"fits") && poke(&bench, mapped + 2 * PAGE, b"does not"));
    assert_eq!(bench.call(nr::MSYNC, &[mapped, 2 * PAGE, MS_SYNC]), error(Errno::ENOSPC));
    assert_eq!(bench.call(nr::MSYNC, &[mapped, 2 * PAGE, MS_SYNC]), 0);
    assert_eq!(&bench.file(PATH)[..4], b"fits");
}

#[test]
fn who_may_not_write_a_file_may_not_by_mapping_it() {
    let bench = bench(Some(Lease::Shared), &pattern(5000));
    let file = u64::try_from(bench.open(PATH, flags::O_RDONLY)).expect("it opens");
    assert_eq!(bench.call(nr::MMAP, &[0, PAGE, READ_WRITE, SHARED, file, 0]), error(Errno::EACCES));
    let mapped = u64::try_from(bench.call(nr::MMAP, &[0, PAGE, 1, SHARED, file, 0])).expect("to be read");
    assert_eq!(bench.call(nr::MPROTECT, &[mapped, PAGE, READ_WRITE]), error(Errno::EACCES));
    assert!(!poke(&bench, mapped, b"x"));
    assert_eq!(peek(&bench, mapped, 5), Some(pattern(5)));
}

/// Rights that are given and taken do not let a write go unnoticed.
#[test]
fn what_is_protected_in_between_is_written_back_all_the_same() {
    let bench = bench(Some(Lease::Sole), &pattern(5000));
    let file = open(&bench);
    let mapped = map(&bench, file, 1, SHARED);
    assert_eq!(peek(&bench, mapped, 1), Some(pattern(1)));
    for (turn, rights) in [1, READ_WRITE, 0, READ_WRITE].into_iter().enumerate() {
        assert_eq!(bench.call(nr::MPROTECT, &[mapped, PAGE, rights]), 0);
        if rights != READ_WRITE {
            assert!(!poke(&bench, mapped, b"x"));
            continue;
        }
        assert!(poke(&bench, mapped, &[turn as u8]));
        assert_eq!(bench.call(nr::MSYNC, &[mapped, PAGE, MS_SYNC]), 0);
        assert_eq!(bench.file(PATH)[0], turn as u8);
    }
}

/// A lease goes back behind what mappings have written; who touches them then sees what others wrote.
#[test]
fn a_lease_that_is_wanted_goes_behind_what_mappings_have_written() {
    let bench = bench(Some(Lease::Sole), &pattern(5000));
    let file = open(&bench);
    let mapped = map(&bench, file, 2, SHARED);
    assert!(poke(&bench, mapped + 1, b"mapped") && poke(&bench, mapped + PAGE, b"too"));
    let inode = PATH.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte));
    let job: JobId = order(1).job;
    {
        let mut world = bench.world.lock();
        world.calls.clear();
        world.recall = Some(Notice::Recall { job, file: FileId { device: 0, inode }, number: 1 });
    }
    // The I/O node says something of its own accord when somebody asks it.
    assert_eq!(bench.call(nr::ACCESS, &[bench.text(0x500, PATH), 0]), 0);
    bench.rest();
    let calls = core::mem::take(&mut bench.world.lock().calls);
    let last_write = calls.iter().rposition(|call| matches!(call, Call::Write { .. })).expect("it is written");
    let returned = calls.iter().position(|call| matches!(call, Call::Return { number: 1, .. })).expect("it is said");
    assert!(last_write < returned, "{calls:?}");
    assert_eq!((&bench.file(PATH)[1..7], &bench.file(PATH)[PAGE as usize..][..3]), (&b"mapped"[..], &b"too"[..]));
    bench.world.lock().files.insert(PATH.into(), b"others wrote this".to_vec());
    assert_eq!(peek(&bench, mapped, 6), Some(b"others".to_vec()));
    assert!(poke(&bench, mapped, b"O"));
    assert_eq!(bench.call(nr::MSYNC, &[mapped, PAGE, MS_SYNC]), 0);
    assert_eq!(bench.file(PATH), b"Others wrote this");
}

/// Who waits for it may go away in the middle.
#[test]
fn what_was_being_written_back_for_somebody_who_went_away_is_written_later() {
    let bench = bench(Some(Lease::Sole), &pattern(10_000));
    let file = open(&bench);
    let mapped = map(&bench, file, 3, SHARED);
    assert!(poke(&bench, mapped + PAGE, b"waits"));
    bench.world.lock().stuck_from = Some(PAGE);
    let _ = bench.drop_call(nr::MSYNC, &[mapped, 3 * PAGE, MS_SYNC]);
    assert_eq!(bench.process.job.cache.mapped_pages(), 1);
    bench.world.lock().stuck_from = None;
    assert_eq!(bench.call(nr::MSYNC, &[mapped, 3 * PAGE, MS_SYNC]), 0);
    assert_eq!(&bench.file(PATH)[PAGE as usize..][..5], b"waits");
}

/// A process that is data meanwhile has its mappings again, and what it has written to them.
#[test]
fn what_was_written_to_a_mapping_stays_written_when_its_process_is_data() {
    let bench = bench(Some(Lease::Sole), &pattern(10_000));
    let file = open(&bench);
    let mapped = map(&bench, file, 3, SHARED);
    assert!(poke(&bench, mapped + 10, b"before"));
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, 0]), 0);
    let ends = bench.get(0, 8);
    let (reads, writes) = (u64::from(ends[0]), u64::from(ends[4]));
    let (bench, made) = bench.frozen_while(nr::READ, &[reads, MEMORY, 1], |bench| {
        assert_eq!(bench.call(nr::WRITE, &[writes, MEMORY, 1]), 1);
    });
    assert_eq!(made, Some(1));
    assert_eq!(peek(&bench, mapped + 10, 6), Some(b"before".to_vec()));
    assert!(poke(&bench, mapped + PAGE, b"after"));
    assert_eq!(read(&bench, file, PAGE, 5), b"after");
    assert_eq!(bench.call(nr::MSYNC, &[mapped, 3 * PAGE, MS_SYNC]), 0);
    assert_eq!((&bench.file(PATH)[10..16], &bench.file(PATH)[PAGE as usize..][..5]), (&b"before"[..], &b"after"[..]));
}

/// What is done to a file, by calls and by mappings.
#[derive(Clone, Debug)]
enum Step {
    Poke(bool, u64, usize),
    Peek(bool, u64, usize),
    Private(u64),
    Write(u64, usize),
    Read(u64, usize),
    Cut(u64),
    Synchronise,
    Wait,
    GiveBack,
}

fn step() -> impl Strategy<Value = Step> {
    let place = || prop_oneof![0..20_000_u64, (0..5_u64).prop_map(|page| page * PAGE)];
    let length = || prop_oneof![1..200_usize, 1..9000_usize];
    let which = proptest::bool::ANY;
    prop_oneof![
        5 => (which, place(), length()).prop_map(|(which, at, length)| Step::Poke(which, at, length)),
        4 => (which, place(), length()).prop_map(|(which, at, length)| Step::Peek(which, at, length)),
        1 => place().prop_map(Step::Private),
        3 => (place(), length()).prop_map(|(at, length)| Step::Write(at, length)),
        3 => (place(), length()).prop_map(|(at, length)| Step::Read(at, length)),
        1 => place().prop_map(Step::Cut),
        1 => proptest::strategy::Just(Step::Synchronise),
        1 => proptest::strategy::Just(Step::Wait),
        1 => proptest::strategy::Just(Step::GiveBack),
    ]
}

proptest! {
    /// Calls and mappings, of two ranks, show one file.
    #[test]
    fn calls_and_mappings_show_one_file(
        steps in proptest::collection::vec(step(), 1..40),
        before in 0..20_000_usize,
        is_leased in proptest::bool::ANY,
    ) {
        let mut model = pattern(before);
        let bench = bench(is_leased.then_some(Lease::Sole), &model);
        let other = bench.sibling(None);
        let file = open(&bench);
        let mapped = [map(&bench, file, 8, SHARED), map(&other, open(&other), 8, SHARED)];
        let who = [&bench, &other];
        let put = |model: &mut Vec<u8>, at: usize, bytes: &[u8]| {
            model.resize(model.len().max(at + bytes.len()), 0);
            model[at..at + bytes.len()].copy_from_slice(bytes);
        };
        for (turn, step) in steps.into_iter().enumerate() {
            let fresh = |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + turn * 13) as u8).collect() };
            // As far as the file goes.
            let cut = |at: u64, length: usize| length.min(model.len().saturating_sub(at as usize));
            match step {
                Step::Poke(which, at, length) => {
                    let bytes = fresh(cut(at, length));
                    prop_assert!(poke(who[usize::from(which)], mapped[usize::from(which)] + at, &bytes));
                    if !bytes.is_empty() {
                        put(&mut model, at as usize, &bytes);
                    }
                }
                Step::Peek(which, at, length) => {
                    let length = cut(at, length);
                    let seen = peek(who[usize::from(which)], mapped[usize::from(which)] + at, length);
                    let expected = model.get(at as usize..at as usize + length).unwrap_or_default();
                    prop_assert!(seen.as_deref() == Some(expected), "{at} {length}");
                }
                Step::Private(at) => {
                    let page = at / PAGE * PAGE;
                    let length = cut(page, PAGE as usize);
                    let place = bench.call(nr::MMAP, &[0, PAGE, READ_WRITE, PRIVATE, file, page]) as u64;
                    let expected = model.get(page as usize..page as usize + length).unwrap_or_default();
                    prop_assert!(peek(&bench, place, length).as_deref() == Some(expected));
                    prop_assert_eq!(poke(&bench, place, b"x"), page < model.len() as u64);
                    prop_assert_eq!(bench.call(nr::MUNMAP, &[place, PAGE]), 0);
                }
                Step::Write(at, length) => {
                    let bytes = fresh(length);
                    write(&bench, file, at, &bytes);
                    put(&mut model, at as usize, &bytes);
                }
                Step::Read(at, length) => {
                    let expected = model.get(at as usize..at as usize + cut(at, length)).unwrap_or_default();
                    prop_assert!(read(&bench, file, at, length as u64) == expected, "{at} {length}");
                }
                Step::Cut(length) => {
                    prop_assert_eq!(bench.call(nr::FTRUNCATE, &[file, length]), 0);
                    model.resize(length as usize, 0);
                }
                Step::Synchronise => {
                    prop_assert_eq!(bench.call(nr::MSYNC, &[mapped[0], PAGE, MS_SYNC]), 0);
                    prop_assert!(bench.file(PATH) == model);
                }
                Step::Wait => bench.rest(),
                Step::GiveBack => while bench.process.node.retention.give_back() {},
            }
        }
        prop_assert_eq!(bench.call(nr::MUNMAP, &[mapped[0], 8 * PAGE]), 0);
        prop_assert_eq!(other.call(nr::MUNMAP, &[mapped[1], 8 * PAGE]), 0);
        bench.rest();
        bench.rest();
        prop_assert!(bench.file(PATH) == model);
        prop_assert_eq!(bench.process.job.cache.mapped_pages(), 0);
    }
}
