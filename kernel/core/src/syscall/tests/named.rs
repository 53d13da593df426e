//! Names and attributes of which the node has the lease: what is asked for once, and what of it is forgotten when.

use alloc::format;
use alloc::vec::Vec;

use coppice_protocol::ids::JobId;
use coppice_protocol::lease::limits::NAMES_BELIEVED_NS;
use coppice_protocol::ship::{Call, Notice};
use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::executor;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY, order};

const PATH: &str = "/work/a";
const OUT: u64 = 0x10_0000;
/// Where `st_size` and `st_mode` are in a `struct stat`.
const SIZE: u64 = 48;
const MODE: u64 = 24;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn bench() -> Bench {
    let bench = Bench::new(&[(PATH, b"12345"), ("/work/b", b"")]);
    bench.world.lock().names = Some(1);
    bench
}

/// Its length, or −errno.
fn stat(bench: &Bench, path: &str) -> i64 {
    let path = bench.text(0x500, path);
    match bench.call(nr::STAT, &[path, MEMORY + OUT]) {
        0 => i64::from_le_bytes(bench.get(OUT + SIZE, 8).try_into().expect("8 bytes")),
        failed => failed,
    }
}

/// As [`stat`], from a directory that is open.
fn stat_at(bench: &Bench, directory: i64, path: &str) -> i64 {
    let path = bench.text(0x500, path);
    match bench.call(nr::NEWFSTATAT, &[directory as u64, path, MEMORY + OUT, 0]) {
        0 => i64::from_le_bytes(bench.get(OUT + SIZE, 8).try_into().expect("8 bytes")),
        failed => failed,
    }
}

fn fstat(bench: &Bench, file: i64) -> i64 {
    assert_eq!(bench.call(nr::FSTAT, &[file as u64, MEMORY + OUT]), 0);
    i64::from_le_bytes(bench.get(OUT + SIZE, 8).try_into().expect("8 bytes"))
}

fn with_path(bench: &Bench, number: u32, path: &str, argument: u64) -> i64 {
    bench.call(number, &[bench.text(0x500, path), argument])
}

/// The calls that were shipped since this was asked last.
fn shipped(bench: &Bench) -> Vec<Call> {
    core::mem::take(&mut bench.world.lock().calls)
}

/// Has this done, for which so many calls are shipped.
#[track_caller]
fn ships<R>(bench: &Bench, count: usize, what: impl FnOnce() -> R) -> R {
    shipped(bench);
    let result = what();
    let calls = shipped(bench);
    assert_eq!(calls.len(), count, "{calls:?}");
    result
}

/// What is under way comes to its end, and what is kept is still believed.
fn a_moment() {
    assert!(executor::run_to_end(executor::sleep(NAMES_BELIEVED_NS / 4)).is_ok());
}

/// The I/O node wants the lease back, and then there is a later one.
fn recall(bench: &Bench) {
    let job: JobId = order(1).job;
    bench.world.lock().recall = Some(Notice::RecallNames { job, number: 1 });
    // It says something of its own accord when somebody asks it.
    bench.call(nr::STATFS, &[bench.text(0x500, PATH), MEMORY + OUT]);
    bench.rest();
    let calls = shipped(bench);
    assert!(calls.contains(&Call::ReturnNames { number: 1 }), "{calls:?}");
}

#[test]
fn what_a_name_leads_to_and_that_it_is_missing_is_asked_for_once() {
    let bench = bench();
    ships(&bench, 1, || (0..3).for_each(|_| assert_eq!(stat(&bench, PATH), 5)));
    ships(&bench, 0, || assert_eq!(stat(&bench, "/./work//a"), 5, "the same by another spelling"));
    let link_not_followed = [nr::LSTAT];
    ships(&bench, 0, || assert_eq!(with_path(&bench, link_not_followed[0], PATH, MEMORY + OUT), 0));
    ships(&bench, 0, || assert_eq!(with_path(&bench, nr::ACCESS, PATH, 0), 0));
    ships(&bench, 1, || (0..2).for_each(|_| assert_eq!(with_path(&bench, nr::ACCESS, PATH, 4), 0)));
    ships(&bench, 1, || (0..2).for_each(|_| assert_eq!(stat(&bench, "/work/none"), error(Errno::ENOENT))));
    ships(&bench, 0, || {
        assert_eq!(bench.open("/work/none", flags::O_RDONLY), error(Errno::ENOENT));
        assert_eq!(bench.open("/work/none", flags::O_RDWR), error(Errno::ENOENT));
        assert_eq!(with_path(&bench, nr::ACCESS, "/work/none", 4), error(Errno::ENOENT));
    });
    ships(&bench, 1, || (0..2).for_each(|_| assert_eq!(with_path(&bench, nr::CHDIR, "/work", 0), 0)));
    ships(&bench, 0, || assert_eq!(stat(&bench, "a"), 5));
}

#[test]
fn without_a_lease_everything_is_asked_for() {
    let bench = bench();
    bench.world.lock().names = None;
    ships(&bench, 3, || (0..3).for_each(|_| assert_eq!(stat(&bench, PATH), 5)));
    ships(&bench, 2, || (0..2).for_each(|_| assert_eq!(stat(&bench, "/work/none"), error(Errno::ENOENT))));
}

#[test]
fn what_was_opened_is_known_and_so_is_what_was_closed() {
    let bench = bench();
    let file = bench.open(PATH, flags::O_RDONLY);
    ships(&bench, 0, || assert_eq!((stat(&bench, PATH), fstat(&bench, file)), (5, 5)));
    assert_eq!(bench.call(nr::CLOSE, &[file as u64]), 0);
    // Who writes it changes what it is.
    let file = bench.open(PATH, flags::O_RDWR);
    ships(&bench, 2, || assert_eq!((stat(&bench, PATH), fstat(&bench, file)), (5, 5)));
    assert_eq!(bench.call(nr::PWRITE64, &[file as u64, MEMORY, 3, 5]), 3);
    ships(&bench, 2, || assert_eq!((stat(&bench, PATH), fstat(&bench, file)), (8, 8)));
    assert_eq!(bench.call(nr::CLOSE, &[file as u64]), 0);
    a_moment();
    ships(&bench, 0, || assert_eq!(stat(&bench, PATH), 8, "the close has told it"));
    // A new file is known when it is closed.
    assert_eq!(stat(&bench, "/work/c"), error(Errno::ENOENT));
    let file = bench.open("/work/c", flags::O_CREAT | flags::O_WRONLY);
    assert_eq!(bench.call(nr::CLOSE, &[file as u64]), 0);
    a_moment();
    ships(&bench, 0, || assert_eq!((stat(&bench, "/work/c"), stat(&bench, PATH)), (0, 8), "and the other still is"));
}

#[test]
fn what_the_job_itself_changes_is_seen_at_once() {
    let bench = bench();
    let sees = |a: i64, none: i64| {
        assert_eq!((stat(&bench, PATH), stat(&bench, "/work/none")), (a, none));
        ships(&bench, 0, || (stat(&bench, PATH), stat(&bench, "/work/none")));
    };
    let missing = error(Errno::ENOENT);
    sees(5, missing);
    assert_eq!(with_path(&bench, nr::UNLINK, PATH, 0), 0);
    sees(missing, missing);
    let file = bench.open(PATH, flags::O_CREAT | flags::O_WRONLY);
    assert_eq!(bench.call(nr::CLOSE, &[file as u64]), 0);
    bench.rest();
    sees(0, missing);
    let (from, to) = (bench.text(0x500, PATH), bench.text(0x600, "/work/none"));
    assert_eq!(bench.call(nr::RENAME, &[from, to]), 0);
    sees(missing, 0);
    assert_eq!(with_path(&bench, nr::TRUNCATE, "/work/none", 7), 0);
    bench.rest();
    sees(missing, 7);
    assert_eq!(with_path(&bench, nr::CHMOD, "/work/none", 0o600), 0);
    sees(missing, 7);
    assert_eq!(bench.get(OUT + MODE, 4), 0o100_600_u32.to_le_bytes());
    assert_eq!((stat(&bench, "/work/new/x"), with_path(&bench, nr::MKDIR, "/work/new", 0o755)), (missing, 0));
    assert_eq!(stat(&bench, "/work/new"), 0);
    bench.world.lock().files.insert(b"/work/new/x".to_vec(), [1; 3].to_vec());
    assert_eq!(stat(&bench, "/work/new/x"), 3, "what was missing with its directory is not known to be");
    assert_eq!(with_path(&bench, nr::MKDIR, "/work/new", 0o755), error(Errno::EEXIST));
    ships(&bench, 0, || assert_eq!(stat(&bench, "/work/new/x"), 3));
}

#[test]
fn a_lease_that_is_wanted_is_given_back_and_nothing_is_known() {
    let bench = bench();
    assert_eq!((stat(&bench, PATH), stat(&bench, "/work/none")), (5, error(Errno::ENOENT)));
    recall(&bench);
    bench.world.lock().files.insert(PATH.into(), Vec::new());
    bench.world.lock().files.insert(b"/work/none".to_vec(), [1; 2].to_vec());
    // What is told with that lease is late.
    ships(&bench, 4, || (0..2).for_each(|_| assert_eq!((stat(&bench, PATH), stat(&bench, "/work/none")), (0, 2))));
    bench.world.lock().names = Some(2);
    ships(&bench, 2, || (0..2).for_each(|_| assert_eq!((stat(&bench, PATH), stat(&bench, "/work/none")), (0, 2))));
}

#[test]
fn what_was_asked_before_something_changed_is_not_kept() {
    let bench = bench();
    let names = bench.process.job.cache.names();
    let (before, changing) = (names.ask().expect("nothing is changed"), names.change());
    assert!(names.ask().is_none(), "something is");
    drop(changing);
    let known = names.ask().expect("nothing is changed");
    assert_ne!(format!("{before:?}"), format!("{known:?}"));
    // Nor is anything answered here meanwhile.
    assert_eq!(stat(&bench, PATH), 5);
    let changing = names.change();
    ships(&bench, 2, || (0..2).for_each(|_| assert_eq!(stat(&bench, PATH), 5)));
    drop(changing);
    ships(&bench, 1, || (0..2).for_each(|_| assert_eq!(stat(&bench, PATH), 5)));
}

#[test]
fn what_the_host_changes_is_seen_in_a_second() {
    let bench = bench();
    let missing = error(Errno::ENOENT);
    assert_eq!((stat(&bench, PATH), stat(&bench, "/work/none")), (5, missing));
    bench.world.lock().files.insert(PATH.into(), Vec::new());
    bench.world.lock().files.insert(b"/work/none".to_vec(), Vec::new());
    ships(&bench, 0, || assert_eq!((stat(&bench, PATH), stat(&bench, "/work/none")), (5, missing)));
    let later = executor::run_to_end(executor::sleep(NAMES_BELIEVED_NS + 1));
    assert!(later.is_ok());
    assert_eq!((stat(&bench, PATH), stat(&bench, "/work/none")), (0, 0));
}

#[test]
fn who_lists_a_directory_knows_what_is_in_it() {
    let bench = bench();
    let directory = bench.open("/work", flags::O_RDONLY | flags::O_DIRECTORY);
    ships(&bench, 1, || assert!(bench.call(nr::GETDENTS64, &[directory as u64, MEMORY + OUT, 4096]) > 0));
    ships(&bench, 0, || {
        assert_eq!((stat(&bench, PATH), stat(&bench, "/work/b")), (5, 0));
        assert_eq!(with_path(&bench, nr::LSTAT, "/work/b", MEMORY + OUT), 0);
        assert_eq!(stat_at(&bench, directory, "a"), 5);
    });
    // Something was moved, perhaps that directory.
    assert_eq!(bench.call(nr::RENAME, &[bench.text(0x500, "/work/b"), bench.text(0x600, "/work/c")]), 0);
    ships(&bench, 1, || assert_eq!(stat_at(&bench, directory, "a"), 5));
    assert_eq!(bench.call(nr::RENAME, &[bench.text(0x500, "/work/c"), bench.text(0x600, "/work/b")]), 0);
    // Of a path that may lead elsewhere by now nothing is kept.
    recall(&bench);
    bench.world.lock().names = Some(2);
    assert_eq!(bench.call(nr::LSEEK, &[directory as u64, 0, 0]), 0);
    assert!(bench.call(nr::GETDENTS64, &[directory as u64, MEMORY + OUT, 4096]) > 0);
    ships(&bench, 1, || assert_eq!(stat(&bench, PATH), 5));
}

#[test]
fn for_want_of_memory_nothing_is_kept() {
    let bench = bench();
    assert_eq!(stat(&bench, PATH), 5);
    while bench.process.node.retention.give_back() {}
    ships(&bench, 1, || (0..2).for_each(|_| assert_eq!(stat(&bench, PATH), 5)));
    let names = bench.process.job.cache.names();
    assert!(names.oldest().is_some() && names.forget() && !names.forget());
    let taken = bench.process.node.quota.taken();
    assert_eq!(stat(&bench, PATH), 5);
    assert!(bench.process.node.quota.taken() > taken);
    assert!(names.forget());
    assert_eq!(bench.process.node.quota.taken(), taken);
}
