//! Nothing outside the root is ever reached.

use std::os::unix::net::UnixListener;

use coppice_protocol::ship::TimeChange;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Bench, at, below};
use crate::files::Root;

/// Links that a hostile program may have made, or a careless host.
fn farm(bench: &Bench) {
    let outside = bench.dir.path().join("outside");
    let secret = outside.join("secret");
    std::fs::create_dir_all(bench.host("d/e")).unwrap();
    bench.link("absolute", &secret);
    bench.link("absolute_dir", &outside);
    bench.link("up", "../outside/secret");
    bench.link("up_dir", "../outside");
    bench.link("d/e/far_up", "../../../../../../../../../../../../etc/passwd");
    bench.link("d/self_root", "/proc/self/root");
    bench.link("d/self_cwd", "/proc/self/cwd");
    bench.link("d/self_fd", "/proc/self/fd");
    bench.link("chain", "d/e/../../up_dir");
    bench.link("slash", "/");
    bench.link("dots", "..");
}

const HOSTILE: [&str; 18] = [
    "absolute",
    "absolute_dir/secret",
    "up",
    "up_dir/secret",
    "d/e/far_up",
    "d/self_root/etc/passwd",
    "d/self_cwd/Cargo.toml",
    "d/self_fd/0",
    "chain/secret",
    "../outside/secret",
    "/../outside/secret",
    "slash/../outside/secret",
    "dots/outside/secret",
    "d/../../outside/secret",
    "d/e/../../../outside/secret",
    "/proc/self/root/etc/passwd",
    "dots/dots/dots/outside/secret",
    "slash/etc/passwd",
];

#[test]
fn hostile_paths_stay_inside() {
    [false, true].into_iter().for_each(|walks| check_hostile_paths_stay_inside(Bench::resolving(walks)));
}

fn check_hostile_paths_stay_inside(bench: Bench) {
    farm(&bench);
    let dir = bench.open("d", OFlags::DIRECTORY).unwrap();
    let deep = bench.open("d/e", OFlags::DIRECTORY).unwrap();
    for path in HOSTILE {
        for location in [
            at(path),
            at(&format!("/{path}")),
            below(dir, &format!("../{path}")),
            below(deep, &format!("../../{path}")),
        ] {
            for flags in [OFlags::RDONLY, OFlags::RDWR, OFlags::PATH, OFlags::WRONLY | OFlags::TRUNC] {
                let error = bench.files.open(&location, flags.bits(), 0).unwrap_err();
                assert_eq!(error, Errno::NOENT, "{location:?}");
            }
            assert_eq!(bench.files.stat(&location, true).unwrap_err(), Errno::NOENT, "{location:?}");
            assert_eq!(bench.files.truncate(&location, 0).unwrap_err(), Errno::NOENT);
            assert_eq!(bench.files.change_mode(&location, 0).unwrap_err(), Errno::NOENT);
            assert_eq!(bench.files.file_system(&location).unwrap_err(), Errno::NOENT);
            assert_eq!(bench.files.access(&location, 0, 0).unwrap_err(), Errno::NOENT);
            let times = bench.files.change_times(&location, TimeChange::Now, TimeChange::Now, true);
            assert_eq!(times.unwrap_err(), Errno::NOENT);
            assert_eq!(bench.files.link(&location, &at("/stolen"), true).unwrap_err(), Errno::NOENT);
            assert_eq!(bench.files.resolve(&location).unwrap_err(), Errno::NOENT);
        }
    }
    let secret = bench.dir.path().join("outside/secret");
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret");
}

#[test]
fn new_names_stay_inside() {
    [false, true].into_iter().for_each(|walks| check_new_names_stay_inside(Bench::resolving(walks)));
}

fn check_new_names_stay_inside(bench: Bench) {
    farm(&bench);
    bench.write("mine", "");
    let flags = OFlags::CREATE | OFlags::WRONLY;
    // Through a directory link that leads nowhere inside, nothing can be made.
    for parent in ["up_dir", "absolute_dir", "chain", "d/self_root/tmp"] {
        let path = format!("{parent}/new");
        assert_eq!(bench.open(&path, flags).unwrap_err(), Errno::NOENT);
        assert_eq!(bench.files.make_directory(&at(&path), 0o755).unwrap_err(), Errno::NOENT);
        assert_eq!(bench.files.symbolic_link(b"x", &at(&path)).unwrap_err(), Errno::NOENT);
        assert_eq!(bench.files.rename(&at("mine"), &at(&path), 0).unwrap_err(), Errno::NOENT);
        assert_eq!(bench.files.link(&at("mine"), &at(&path), false).unwrap_err(), Errno::NOENT);
        assert_eq!(bench.files.remove(&at(&format!("{parent}/secret")), false).unwrap_err(), Errno::NOENT);
        let stolen = bench.files.rename(&at(&format!("{parent}/secret")), &at("stolen"), 0);
        assert_eq!(stolen.unwrap_err(), Errno::NOENT);
    }
    // `..` at the root is the root.
    bench.open("/../../new", flags).unwrap();
    assert!(bench.host("new").exists());
    bench.files.make_directory(&at("dots/dots/slash/made"), 0o755).unwrap();
    assert!(bench.host("made").is_dir());
    // A dangling link is followed to where it leads inside.
    bench.link("dangling", "/made/there");
    bench.open("dangling", flags).unwrap();
    assert!(bench.host("made/there").exists());
    assert_eq!(std::fs::read_dir(bench.dir.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn handles_outside_lead_nowhere() {
    [false, true].into_iter().for_each(|walks| check_handles_outside_lead_nowhere(Bench::resolving(walks)));
}

fn check_handles_outside_lead_nowhere(bench: Bench) {
    std::fs::create_dir_all(bench.host("a/b")).unwrap();
    let dir = bench.open("a/b", OFlags::DIRECTORY).unwrap();
    assert_eq!(bench.files.resolve(&below(dir, "")).unwrap(), "/a/b");
    assert_eq!(bench.files.resolve(&below(dir, "..")).unwrap(), "/a");
    assert_eq!(bench.files.resolve(&below(dir, "../../../..")).unwrap(), "/");
    // The host moves it within the root: parents follow.
    std::fs::rename(bench.host("a/b"), bench.host("c")).unwrap();
    assert_eq!(bench.files.resolve(&below(dir, "")).unwrap(), "/c");
    assert_eq!(bench.files.resolve(&below(dir, "../a")).unwrap(), "/a");
    // And out of it: the directory itself still works, as in a chroot, but its parent cannot be had.
    std::fs::rename(bench.host("c"), bench.dir.path().join("outside/c")).unwrap();
    assert!(bench.files.stat(&below(dir, "."), true).is_ok());
    assert_eq!(bench.files.stat(&below(dir, "../secret"), true).unwrap_err(), Errno::NOENT);
    assert_eq!(bench.files.resolve(&below(dir, "..")).unwrap_err(), Errno::NOENT);
    assert_eq!(bench.files.resolve(&below(dir, "")).unwrap_err(), Errno::NOENT);
}

#[test]
fn special_files_are_never_opened() {
    let bench = Bench::new();
    let make = |name: &str, kind| rustix::fs::mknodat(CWD, bench.host(name), kind, Mode::RUSR | Mode::WUSR, 0);
    make("fifo", FileType::Fifo).unwrap();
    let _socket = UnixListener::bind(bench.host("socket")).unwrap();
    bench.link("to_fifo", "fifo");
    for name in ["fifo", "socket", "to_fifo"] {
        for flags in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR | OFlags::CREATE, OFlags::RDONLY | OFlags::NONBLOCK]
        {
            assert_eq!(bench.open(name, flags).unwrap_err(), Errno::NXIO, "{name}");
        }
        let handle = bench.open(name, OFlags::PATH).unwrap();
        assert!(bench.files.handle_stat(handle).is_ok());
        assert_eq!(bench.files.truncate(&at(name), 0).unwrap_err(), Errno::INVAL);
    }
    // Only root can make devices, so only there is this tested.
    let null = rustix::fs::makedev(1, 3);
    let made = rustix::fs::mknodat(CWD, bench.host("null"), FileType::CharacterDevice, Mode::RWXU, null);
    if made.is_ok() {
        assert_eq!(bench.open("null", OFlags::RDWR).unwrap_err(), Errno::ACCESS);
    }
}

#[test]
fn kernel_file_systems_are_not_opened() {
    let root = Root::open("/").unwrap();
    let files = super::files_in(root);
    for path in
        ["/proc/self/mem", "/proc/version", "/proc/self/fd/0", "/proc/thread-self/environ", "/sys/kernel/uevent_seqnum"]
    {
        let result = files.open(&at(path), OFlags::RDONLY.bits(), 0);
        assert!(matches!(result, Err(Errno::ACCESS | Errno::NOENT)), "{path}: {result:?}");
    }
    // Magic links are text: this one reads as the path of the directory it stands for.
    let cwd = std::env::current_dir().unwrap();
    assert_eq!(files.resolve(&at("/proc/self/cwd")).unwrap(), cwd.to_str().unwrap());
    assert_eq!(files.stat(&at("/proc/self/exe/x"), true).unwrap_err(), Errno::NOTDIR);
    assert_eq!(Root::open("/proc").unwrap_err(), Errno::ACCESS);
}

#[test]
fn a_vanished_root_is_stale() {
    [false, true].into_iter().for_each(|walks| check_a_vanished_root_is_stale(Bench::resolving(walks)));
}

fn check_a_vanished_root_is_stale(bench: Bench) {
    let flags = OFlags::CREATE | OFlags::RDWR;
    let file = bench.open("file", flags).unwrap();
    let dir = bench.open("/", OFlags::DIRECTORY).unwrap();
    std::fs::remove_dir_all(bench.host("")).unwrap();
    for result in [
        bench.open("new", flags),
        bench.open("/", OFlags::RDONLY),
        bench.files.open(&below(dir, "x"), flags.bits(), 0).map(|(handle, _)| handle),
    ] {
        assert_eq!(result.unwrap_err(), Errno::STALE);
    }
    assert_eq!(bench.files.stat(&at("/"), true).unwrap_err(), Errno::STALE);
    // What is open stays so, as on any Unix.
    assert!(bench.files.handle_stat(file).is_ok());
    assert_eq!(Root::open(bench.host("").to_str().unwrap()).unwrap_err(), Errno::NOENT);
}

#[test]
fn renames_meanwhile_are_not_seen() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.host("a/b/c")).unwrap();
    bench.write("file", "");
    bench.link("a/b/c/link", "/a/../a/b/../../file");
    let (one, other) = (bench.host("x"), bench.host("y"));
    std::fs::create_dir(&one).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::rename(&one, &other).unwrap();
                std::fs::rename(&other, &one).unwrap();
            }
        });
        let mut found = (0..5000).map(|_| bench.files.stat(&at("a/b/../b/c/../c/link"), true).map(drop));
        let failed = found.find(std::result::Result::is_err);
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}
