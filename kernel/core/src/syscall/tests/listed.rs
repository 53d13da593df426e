//! What a program looks up when it starts, told to its node at once.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::control::Launch;
use coppice_protocol::lease::limits::NAMES_BELIEVED_NS;
use coppice_protocol::manifest::Entry;
use coppice_protocol::ship::{Call, FileStatus, Known, Location, Notice};
use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::executor;
use crate::files::flags;
use crate::limits::MANIFEST_TIME_NS;
use crate::process::testing::{Bench, MEMORY, order, pool};

const OUT: u64 = 0x10_0000;
const FILES: usize = 100;

fn path(number: usize) -> String {
    format!("/lib/module{number}")
}

/// A job that keeps what its program looks up: a hundred files, and as many that are not there.
fn bench() -> Bench {
    let paths: Vec<String> = (0..FILES).map(path).collect();
    let files: Vec<(&str, &[u8])> = paths.iter().map(|path| (path.as_str(), &b"module"[..])).collect();
    let bench = Bench::with_order(pool(), Launch { keeps_files: true, has_manifest: true, ..order(1) }, &files);
    for number in 0..2 * FILES {
        let at = Location { directory: None, path: path(number).as_str().into() };
        let known = match status(&bench, number) {
            Some(status) => Known::Status(status.into()),
            None => Known::Failed(Errno::ENOENT.0),
        };
        let entry = Entry::of(&Call::Stat { at, follow: true }, known, b"", true).expect("an entry");
        bench.world.lock().manifest.1.push(entry);
    }
    {
        let mut world = bench.world.lock();
        (world.names, world.manifest.0) = (Some(1), 7);
        world.calls.clear();
    }
    bench
}

/// What a file is, as a call says that is made.
fn status(bench: &Bench, number: usize) -> Option<FileStatus> {
    let file = bench.open(path(number), flags::O_RDONLY);
    let file = i32::try_from(file).ok().filter(|file| *file >= 0)?;
    let status = bench.process.files.lock().get(file).expect("open").as_shipped().expect("a file").status;
    assert_eq!(bench.call(nr::CLOSE, &[file as u64]), 0);
    bench.rest();
    Some(status)
}

fn load(bench: &Bench) {
    let (cache, client) = (bench.process.job.cache.clone(), bench.process.client.clone());
    assert!(executor::run_to_end(async move { cache.load_names(&client).await }).is_ok());
}

/// Looks at all of it. The calls that were shipped meanwhile.
fn looks(bench: &Bench) -> Vec<Call> {
    bench.world.lock().calls.clear();
    for number in 0..2 * FILES {
        let text = bench.text(0x500, path(number));
        let is_there = bench.call(nr::STAT, &[text, MEMORY + OUT]) == 0;
        assert_eq!(is_there, bench.world.lock().files.contains_key(path(number).as_bytes()), "{number}");
    }
    core::mem::take(&mut bench.world.lock().calls)
}

fn pass(time_ns: u64) {
    assert!(executor::run_to_end(executor::sleep(time_ns)).is_ok());
}

#[test]
fn all_of_it_is_one_call_and_one_more_when_it_is_too_old() {
    let bench = bench();
    load(&bench);
    assert_eq!(bench.world.lock().calls, [Call::Manifest { made: 0, entries: 0 }]);
    assert_eq!(looks(&bench), []);
    for _ in 0..2 {
        pass(NAMES_BELIEVED_NS * 2);
        assert_eq!(looks(&bench), [Call::Manifest { made: 7, entries: 2 * FILES as u32 }]);
        assert_eq!(looks(&bench), []);
    }
    // Who looks at other names is told of these.
    pass(NAMES_BELIEVED_NS * 2);
    bench.world.lock().calls.clear();
    assert_ne!(bench.call(nr::STAT, &[bench.text(0x500, "/lib/other"), MEMORY + OUT]), 0);
    assert!(matches!(bench.world.lock().calls[..], [Call::Stat { .. }]));
    // Later it asks for each.
    pass(MANIFEST_TIME_NS);
    let calls = looks(&bench);
    assert!(calls.len() == 2 * FILES && calls.iter().all(|call| matches!(call, Call::Stat { .. })), "{calls:?}");
}

#[test]
fn what_is_not_so_any_more_is_asked_for() {
    let bench = bench();
    load(&bench);
    // The host changes one file, removes another and makes one that was not there; that is seen in a moment.
    {
        let mut world = bench.world.lock();
        world.files.insert(path(3).into_bytes(), b"another".to_vec());
        world.files.remove(path(5).as_bytes());
        world.files.insert(path(150).into_bytes(), b"new".to_vec());
    }
    pass(NAMES_BELIEVED_NS * 2);
    let calls = looks(&bench);
    assert_eq!((calls.len(), &calls[0]), (4, &Call::Manifest { made: 7, entries: 2 * FILES as u32 }), "{calls:?}");
    assert_eq!(looks(&bench), []);
}

#[test]
fn what_the_job_changes_itself_is_seen_at_once() {
    let bench = bench();
    load(&bench);
    let text = bench.text(0x500, path(5));
    assert_eq!(bench.call(nr::UNLINK, &[text]), 0);
    let file = bench.open(path(150), flags::O_CREAT | flags::O_WRONLY);
    assert!(file >= 0);
    assert_eq!(bench.call(nr::CLOSE, &[file as u64]), 0);
    let calls = looks(&bench);
    assert!(calls.len() <= 2, "{calls:?}");
    pass(NAMES_BELIEVED_NS * 2);
    looks(&bench);
}

/// Others change something: nothing of it is believed any more, and asked for anew.
#[test]
fn with_the_lease_goes_all_of_it() {
    let bench = bench();
    load(&bench);
    bench.world.lock().recall = Some(Notice::RecallNames { job: order(1).job, number: 1 });
    bench.call(nr::STATFS, &[bench.text(0x500, "/lib"), MEMORY + OUT]);
    bench.rest();
    {
        let mut world = bench.world.lock();
        assert!(world.calls.contains(&Call::ReturnNames { number: 1 }));
        world.files.remove(path(5).as_bytes());
        world.names = Some(2);
    }
    let calls = looks(&bench);
    assert!(calls.len() >= 2 * FILES, "{}", calls.len());
    load(&bench);
    // But what is not so any more.
    assert!(matches!(looks(&bench)[..], [Call::Stat { .. }]));
}

/// Another job of the program is told what is new, and without memory for it nothing is kept.
#[test]
fn a_node_keeps_what_it_was_told_for_jobs_that_come() {
    let bench = bench();
    load(&bench);
    let left = &bench.process.node.left;
    let (client, program) = (&bench.process.client, order(1).program);
    let again = || {
        let cache = crate::files::cache::FileCache::new(
            pool(),
            left.retention(),
            &bench.process.node.quota,
            Some(crate::files::cache::Leaves { files: left.clone(), program }),
        );
        bench.world.lock().calls.clear();
        let (client, told) = (client.clone(), cache.clone());
        assert!(executor::run_to_end(async move { told.load_names(&client).await }).is_ok());
        (cache, core::mem::take(&mut bench.world.lock().calls))
    };
    assert_eq!(again().1, [Call::Manifest { made: 7, entries: 2 * FILES as u32 }]);
    let entry = bench.world.lock().manifest.1[0].clone();
    bench.world.lock().manifest.1.push(entry);
    assert_eq!(again().1, [Call::Manifest { made: 7, entries: 2 * FILES as u32 }]);
    assert_eq!(again().1, [Call::Manifest { made: 7, entries: 2 * FILES as u32 + 1 }]);
    bench.world.lock().manifest.0 = 9;
    again();
    assert_eq!(again().1, [Call::Manifest { made: 9, entries: 2 * FILES as u32 + 1 }]);
    assert!(left.discard(None).is_empty());
    assert_eq!(again().1, [Call::Manifest { made: 0, entries: 0 }]);
}
