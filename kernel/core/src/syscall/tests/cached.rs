//! Files of which the node has a lease: what is asked for, what is written when, and that nobody sees a difference.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::ids::JobId;
use coppice_protocol::lease::{FileId, Lease};
use coppice_protocol::ship::{Call, Notice};
use coppice_protocol::syscalls as nr;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::errno::Errno;
use crate::files::{Shipped, flags};
use crate::limits::JOB_UNWRITTEN_BYTES_MAX;
use crate::memory::FileChange;
use crate::process::testing::{Bench, MEMORY, order, pattern};

const PATH: &str = "/work/a";
/// Where what is read goes in the program's memory, and how much room there is.
const READ: u64 = 0x10_0000;
const READ_BYTES: u64 = 0x10_0000;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn bench(lease: Lease, bytes: &[u8]) -> Bench {
    let bench = Bench::new(&[(PATH, bytes)]);
    {
        let mut world = bench.world.lock();
        (world.lease, world.version) = (Some(lease), 1);
    }
    bench
}

fn open(bench: &Bench, flags: u32) -> u64 {
    u64::try_from(bench.open(PATH, flags)).expect("it opens")
}

fn read(bench: &Bench, file: u64, offset: u64, length: u64) -> Vec<u8> {
    let count = bench.call(nr::PREAD64, &[file, MEMORY + READ, length, offset]);
    bench.get(READ, usize::try_from(count).expect("it is read"))
}

fn write(bench: &Bench, file: u64, offset: u64, bytes: &[u8]) -> i64 {
    let at = bench.put(0, bytes);
    bench.call(nr::PWRITE64, &[file, at, bytes.len() as u64, offset])
}

/// The reads and writes that were shipped: where each begins and, of reads, how long it is.
fn shipped(bench: &Bench) -> (Vec<(u64, u32)>, Vec<u64>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for call in &bench.world.lock().calls {
        match call {
            Call::Read { offset, length, .. } => reads.push((*offset, *length)),
            Call::Write { offset, .. } => writes.push(offset.expect("an offset")),
            _ => {}
        }
    }
    (reads, writes)
}

#[test]
fn what_was_read_is_not_asked_for_again() {
    let bytes = pattern(20_000);
    let bench = bench(Lease::Shared, &bytes);
    for _ in 0..3 {
        let file = open(&bench, flags::O_RDONLY);
        for at in [0, 4096, 10_001, 19_990] {
            assert_eq!(read(&bench, file, at, 100), bytes[at as usize..bytes.len().min(at as usize + 100)]);
        }
        assert_eq!(read(&bench, file, 20_000, 100), b"");
        assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
        bench.rest();
    }
    let mut asked: Vec<u64> = shipped(&bench).0.into_iter().map(|(offset, _)| offset / 4096).collect();
    asked.sort_unstable();
    let times = asked.len();
    asked.dedup();
    assert_eq!(times, asked.len(), "no page comes twice: {asked:?}");
    // Another version is another file.
    bench.world.lock().version = 2;
    bench.world.lock().files.insert(PATH.into(), vec![9; 20_000]);
    let file = open(&bench, flags::O_RDONLY);
    assert_eq!(read(&bench, file, 0, 10), [9; 10]);
}

#[test]
fn where_a_file_ends_nobody_looks_at_memory() {
    let bench = bench(Lease::Shared, b"0123456789");
    let file = open(&bench, flags::O_RDONLY);
    for at in [10, 8000] {
        assert_eq!(bench.call(nr::PREAD64, &[file, 8, 100, at]), 0);
    }
    assert_eq!(bench.call(nr::PREAD64, &[file, 8, 100, 9]), error(Errno::EFAULT));
    // No more of it is there than what is read.
    let last = MEMORY + crate::process::testing::MEMORY_BYTES - 4;
    assert_eq!(bench.call(nr::PREAD64, &[file, last, 100, 6]), 4);
    assert_eq!(bench.call(nr::READ, &[file, last, 100]), 4, "as much as there is room for");
}

#[test]
fn who_reads_on_has_what_comes_next_and_in_large_pieces() {
    let bytes = pattern(3_000_000);
    let bench = bench(Lease::Shared, &bytes);
    let file = open(&bench, flags::O_RDONLY);
    let mut all = Vec::new();
    loop {
        let count = bench.call(nr::READ, &[file, MEMORY + READ, 4096]);
        all.extend(bench.get(READ, usize::try_from(count).expect("it is read")));
        if count == 0 {
            break;
        }
    }
    assert!(all == bytes);
    let reads = shipped(&bench).0;
    assert!(reads.len() < 60, "{} reads", reads.len());
    assert!(bench.world.lock().under_way_max > 2, "several at a time");
    let sum: u64 = reads.iter().map(|(_, length)| u64::from(*length)).sum();
    assert!(sum < 3_100_000, "{sum} bytes, and no byte twice");
}

/// Who reads a long file once in long calls has it copied once; who reads it in short ones, or beside others, has it
/// kept.
#[test]
fn a_long_file_is_read_past_what_is_kept_in_long_calls() {
    let long = crate::process::testing::pool().total_frames() as usize * 4096 / 8 + 8192;
    let bytes = pattern(long);
    for (bytes, length, beside, kept) in [
        (&bytes[..], 600_000, false, false),
        (&bytes[..], 100_000, false, true),
        (&bytes[..], 600_000, true, true),
        (&bytes[..1_000_000], 600_000, false, true),
    ] {
        let bench = bench(Lease::Shared, bytes);
        let _other = beside.then(|| bench.sibling(None));
        let file = open(&bench, flags::O_RDONLY);
        assert!(read(&bench, file, 4096, length) == bytes[4096..][..length as usize]);
        bench.world.lock().calls.clear();
        assert!(read(&bench, file, 4096, 100_000) == bytes[4096..][..100_000]);
        assert_eq!(shipped(&bench).0.iter().all(|(at, _)| *at > 100_000), kept, "{length} {beside}");
    }
}

/// What is read at the I/O node must not find a later piece that was written without an earlier one.
#[test]
fn nothing_is_written_later_while_a_call_is_made_at_the_io_node() {
    let long = crate::process::testing::pool().total_frames() as usize * 4096 / 8 + 8192;
    let bench = bench(Lease::Sole, &pattern(long));
    let file = open(&bench, flags::O_RDWR);
    let there = |bench: &Bench| bench.file(PATH)[700_000..700_003].to_vec();
    let before = there(&bench);
    bench.world.lock().stuck_from = Some(1_000_000);
    let read = bench.wait_while(nr::PREAD64, &[file, MEMORY + READ, 600_000, 1_000_000], |bench| {
        assert_eq!(there(bench), before);
        assert_eq!(write(bench, file, 700_000, b"now"), 3);
        assert_eq!(there(bench), b"now");
    });
    assert_eq!(read, None, "it waits on");
}

#[test]
fn little_writes_go_together_and_are_there_when_they_are_to_be() {
    let bench = bench(Lease::Sole, b"");
    let bytes = pattern(10_000);
    let file = open(&bench, flags::O_RDWR);
    let wrote = |bench: &Bench| {
        for (at, part) in (0..).step_by(100).zip(bytes.chunks(100)) {
            assert_eq!(write(bench, file, at, part), 100);
        }
    };
    wrote(&bench);
    assert_eq!((shipped(&bench).1, bench.file(PATH).len()), (vec![], 0), "nothing yet");
    assert!(read(&bench, file, 0, 20_000) == bytes, "who has written it reads it");
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 2]), 10_000);
    // Everything that looks at the file at the I/O node, waits for its disk, or ends with it.
    type End = fn(&Bench, u64) -> i64;
    let ends: [End; 4] = [
        |bench, file| bench.call(nr::FSYNC, &[file]),
        |bench, file| bench.call(nr::FSTAT, &[file, MEMORY + READ]),
        |bench, _| {
            let path = bench.text(0, PATH);
            bench.call(nr::STAT, &[path, MEMORY + READ])
        },
        |bench, _| {
            bench.rest();
            0
        },
    ];
    for end in ends {
        wrote(&bench);
        bench.world.lock().files.insert(PATH.into(), Vec::new());
        bench.world.lock().calls.clear();
        assert_eq!(end(&bench, file), 0);
        assert_eq!(shipped(&bench).1, [0], "all in one");
        assert!(bench.file(PATH) == bytes);
    }
    wrote(&bench);
    bench.world.lock().calls.clear();
    assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
    assert_eq!(shipped(&bench).1, [0]);
    bench.rest();
    assert_eq!(bench.world.lock().open_count(), 0);
}

#[test]
fn writes_that_wait_for_the_disk_do_not_wait_for_more() {
    for how in [flags::O_SYNC, flags::O_DSYNC, flags::O_DIRECT] {
        let bench = bench(Lease::Sole, b"");
        let file = open(&bench, flags::O_RDWR | how);
        assert_eq!(write(&bench, file, 0, b"hello"), 5);
        assert_eq!(bench.file(PATH), b"hello");
    }
}

#[test]
fn what_cannot_be_written_is_said_once_and_is_not_read() {
    type Say = fn(&Bench, u64) -> i64;
    let says: [Say; 3] = [
        |bench, file| bench.call(nr::FSYNC, &[file]),
        |bench, file| {
            bench.rest();
            write(bench, file, 0, b"more")
        },
        |bench, file| bench.call(nr::CLOSE, &[file]),
    ];
    for (index, say) in says.into_iter().enumerate() {
        let bench = bench(Lease::Sole, b"");
        bench.world.lock().fails_from = Some((4096, Errno::ENOSPC));
        let file = open(&bench, flags::O_RDWR);
        assert_eq!(write(&bench, file, 0, b"fits"), 4);
        assert_eq!(write(&bench, file, 8192, b"does not"), 8);
        assert_eq!(say(&bench, file), error(Errno::ENOSPC), "{index}");
        assert_eq!(bench.file(PATH), b"fits");
        if index < 2 {
            assert_eq!(bench.call(nr::FSYNC, &[file]), 0, "once");
            assert_eq!(read(&bench, file, 0, 100), b"fits", "what is there, no more");
        }
    }
}

#[test]
fn a_write_that_is_cut_short_goes_on() {
    let bench = bench(Lease::Sole, b"");
    bench.world.lock().write_bytes_max = Some(3);
    let file = open(&bench, flags::O_RDWR);
    assert_eq!(write(&bench, file, 0, b"0123456789"), 10);
    assert_eq!(bench.call(nr::FSYNC, &[file]), 0);
    assert_eq!((bench.file(PATH), shipped(&bench).1), (b"0123456789".to_vec(), vec![0, 3, 6, 9]));
}

/// A lease is given back behind what was written, and then nothing is known.
#[test]
fn a_lease_that_is_wanted_is_given_back_behind_what_was_written() {
    let bench = bench(Lease::Sole, b"before");
    let file = open(&bench, flags::O_RDWR);
    assert_eq!(write(&bench, file, 2, b"--"), 2);
    let inode = PATH.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte));
    let id = FileId { device: 0, inode };
    let job: JobId = order(1).job;
    {
        let mut world = bench.world.lock();
        world.calls.clear();
        world.recall = Some(Notice::Recall { job, file: id, number: 1 });
    }
    // The I/O node says something of its own accord when somebody asks it.
    assert_eq!(bench.call(nr::ACCESS, &[bench.text(0x500, PATH), 0]), 0);
    bench.rest();
    let calls = core::mem::take(&mut bench.world.lock().calls);
    let place = |is: fn(&Call) -> bool| calls.iter().position(is).expect("it was said");
    let wrote = place(|call| matches!(call, Call::Write { offset: Some(2), .. }));
    let returned = place(|call| matches!(call, Call::Return { number: 1, .. }));
    assert!(wrote < returned);
    assert_eq!(bench.file(PATH), b"be--re");
    // From now on others may write.
    bench.world.lock().files.insert(PATH.into(), b"others".to_vec());
    assert_eq!(read(&bench, file, 0, 100), b"others");
    assert_eq!(write(&bench, file, 0, b"O"), 1);
    assert_eq!(bench.file(PATH), b"Others");
}

/// Whichever of them is left writes what all have written.
#[test]
fn of_many_handles_each_writes_later_and_nothing_is_lost_with_them() {
    let bench = bench(Lease::Sole, b"");
    let files: Vec<u64> = (0..40).map(|_| open(&bench, flags::O_RDWR)).collect();
    for (index, file) in files.iter().enumerate() {
        assert_eq!(write(&bench, *file, index as u64, &[index as u8]), 1);
    }
    assert_eq!(bench.file(PATH), b"");
    for file in files {
        assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
    }
    assert_eq!(bench.file(PATH), (0..40).collect::<Vec<u8>>());
}

/// What was charged for a handle is not kept when it is gone: many may have been open of each of many files.
#[test]
fn of_handles_that_are_gone_nothing_is_kept() {
    let bench = bench(Lease::Sole, b"");
    let files: Vec<u64> = (0..300).map(|_| open(&bench, flags::O_RDWR)).collect();
    let first = bench.process.files.lock().get(files[0] as i32).expect("open");
    let cached = Arc::clone(first.as_shipped().and_then(Shipped::cached).expect("known"));
    let (writers, room) = cached.writers_and_room();
    assert!(writers == 300 && room <= 2 * writers, "room for {room}");
    for (index, file) in files.iter().enumerate().rev() {
        assert_eq!(bench.call(nr::CLOSE, &[*file]), 0);
        let (writers, room) = cached.writers_and_room();
        // The first is held here.
        assert!(writers == index.max(1) && room <= 4 * writers, "{writers}, and room for {room}");
    }
    drop(first);
    assert_eq!(cached.writers_and_room(), (0, 0));
}

/// All files of a job together, each of which has little.
#[test]
fn so_much_of_all_files_may_wait_to_be_written() {
    let names: Vec<String> = (0..60).map(|number| format!("/work/{number}")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let bench = Bench::new(&files);
    {
        let mut world = bench.world.lock();
        (world.lease, world.version) = (Some(Lease::Sole), 1);
    }
    // An open has what was written before written back.
    let open = |name: &String| u64::try_from(bench.open(name, flags::O_RDWR)).expect("it opens");
    let files: Vec<u64> = names.iter().map(open).collect();
    let mut most = 0;
    for file in files {
        // No whole pieces, which would go by themselves.
        for at in [10_000, 140_000] {
            assert_eq!(bench.call(nr::PWRITE64, &[file, MEMORY, 100_000, at]), 100_000);
            most = most.max(bench.process.job.cache.waiting());
        }
    }
    let limit = JOB_UNWRITTEN_BYTES_MAX;
    assert!((limit / 2..limit + 128 * 1024).contains(&most), "{most}");
}

/// What another thread writes while a file is cut stays below, and is no more behind.
#[test]
fn a_file_that_is_cut_keeps_what_was_written_to_it_meanwhile() {
    let bench = bench(Lease::Sole, &[1; 10_000]);
    let file = open(&bench, flags::O_RDWR);
    assert_eq!(write(&bench, file, 4096, &[2; 200]), 200);
    // As if the call that cuts it had come back now.
    let identity = bench.process.files.lock().get(file as i32).expect("open").as_shipped().expect("one").identity();
    bench.world.lock().files.insert(PATH.into(), vec![1; 4196]);
    bench.process.file_changed(identity, &FileChange::Cut(4196));
    assert_eq!(bench.call(nr::FSYNC, &[file]), 0);
    assert_eq!(bench.file(PATH), [vec![1; 4096], vec![2; 100]].concat());
    // Nor is it lost with what is known.
    assert_eq!(write(&bench, file, 10, &[3; 10]), 10);
    bench.process.job.cache.is_unsure(identity);
    assert_eq!(bench.call(nr::FSYNC, &[file]), 0);
    assert_eq!(bench.file(PATH)[..25], [vec![1; 10], vec![3; 10], vec![1; 5]].concat());
}

/// What is done to a file by two descriptors.
#[derive(Clone, Debug)]
enum Step {
    Write(bool, u64, u64),
    Read(bool, u64, u64),
    Append(u64),
    Cut(u64),
    Flush,
    Map(u64),
    Wait,
    GiveBack,
}

fn step() -> impl Strategy<Value = Step> {
    let place = || prop_oneof![0..20_000_u64, (0..5_u64).prop_map(|page| page * 4096), 0..400_000_u64];
    let length = || prop_oneof![1..200_u64, 1..9000_u64, (1..4_u64).prop_map(|pages| pages * 4096), 1..700_000_u64];
    let which = proptest::bool::ANY;
    prop_oneof![
        4 => (which, place(), length()).prop_map(|(which, at, length)| Step::Write(which, at, length)),
        4 => (which, place(), length()).prop_map(|(which, at, length)| Step::Read(which, at, length)),
        2 => length().prop_map(Step::Append),
        1 => place().prop_map(Step::Cut),
        1 => proptest::strategy::Just(Step::Flush),
        1 => (0..8_u64).prop_map(Step::Map),
        1 => proptest::strategy::Just(Step::Wait),
        1 => proptest::strategy::Just(Step::GiveBack),
    ]
}

proptest! {
    /// Whatever is kept, gathered, read ahead or given back: the file is what it would be without.
    #[test]
    fn nobody_sees_a_difference(
        steps in proptest::collection::vec(step(), 1..40),
        before in 0..30_000_usize,
        write_bytes_max in proptest::option::of(1000..50_000_usize),
    ) {
        let mut model = pattern(before);
        let bench = bench(Lease::Sole, &model);
        bench.world.lock().write_bytes_max = write_bytes_max;
        let files = [open(&bench, flags::O_RDWR), open(&bench, flags::O_RDWR)];
        let appending = open(&bench, flags::O_WRONLY | flags::O_APPEND);
        let put = |model: &mut Vec<u8>, at: usize, bytes: &[u8]| {
            model.resize(model.len().max(at + bytes.len()), 0);
            model[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let fresh = |turn: usize, length: u64| -> Vec<u8> {
            (0..length as usize).map(|index| (index * 7 + turn * 13 + index / 251) as u8).collect()
        };
        for (turn, step) in steps.into_iter().enumerate() {
            match step {
                Step::Write(which, at, length) => {
                    let bytes = fresh(turn, length);
                    let memory = bench.put(0, &bytes);
                    let wrote = bench.call(nr::PWRITE64, &[files[usize::from(which)], memory, length, at]);
                    // A disk that takes little may take less.
                    let wrote = usize::try_from(wrote).expect("it is written");
                    prop_assert!(wrote > 0);
                    put(&mut model, at as usize, &bytes[..wrote]);
                    // What it took behind a gap is not counted.
                    if wrote < bytes.len() {
                        bench.rest();
                        model = bench.file(PATH);
                    }
                }
                Step::Append(length) => {
                    let bytes = fresh(turn, length);
                    let memory = bench.put(0, &bytes);
                    let wrote = bench.call(nr::WRITE, &[appending, memory, length]);
                    let wrote = usize::try_from(wrote).expect("it is written");
                    let end = model.len();
                    put(&mut model, end, &bytes[..wrote]);
                }
                Step::Read(which, at, length) => {
                    let length = length.min(READ_BYTES);
                    let end = model.len().min((at + length) as usize);
                    let expected = model.get(at as usize..end).unwrap_or_default();
                    prop_assert!(read(&bench, files[usize::from(which)], at, length) == expected, "{at} {length}");
                }
                Step::Cut(length) => {
                    prop_assert_eq!(bench.call(nr::FTRUNCATE, &[files[0], length]), 0);
                    model.resize(length as usize, 0);
                }
                Step::Flush => {
                    prop_assert_eq!(bench.call(nr::FSYNC, &[files[1]]), 0);
                    prop_assert!(bench.file(PATH) == model);
                }
                Step::Map(page) => {
                    if page * 4096 < model.len() as u64 {
                        let place = bench.call(nr::MMAP, &[0, 4096, 1, 2, files[0], page * 4096]) as u64;
                        let seen = bench.process.space.lock().read_u64(place);
                        if seen.is_err() {
                            // It is fetched when it is copied from.
                            let at = bench.call(nr::WRITE, &[files[1], place, 0]);
                            prop_assert_eq!(at, 0);
                        }
                        prop_assert_eq!(bench.call(nr::MUNMAP, &[place, 4096]), 0);
                    }
                }
                Step::Wait => bench.rest(),
                Step::GiveBack => {
                    while bench.process.node.retention.give_back() {}
                }
            }
        }
        for file in files.into_iter().chain([appending]) {
            prop_assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
        }
        bench.rest();
        prop_assert!(bench.file(PATH) == model);
        prop_assert_eq!(bench.world.lock().open_count(), 0);
    }
}
