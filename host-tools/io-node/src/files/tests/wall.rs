//! The second wall: what lies outside is refused by the host's kernel, however it is named.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Bench, at, below};
use crate::files::{Result, errno};
use crate::wall::{Wall, confine_to_nothing};

/// A bench with a wall. `None`: this kernel has none, which is said.
fn bench() -> Option<Bench> {
    let nowhere = std::path::Path::new("/nowhere");
    let tried = std::thread::spawn(|| confine_to_nothing(nowhere)).join().unwrap().unwrap();
    let bench = Bench::new();
    let has_wall = tried != Wall::Missing;
    assert_eq!(bench.files.root.is_guarded(), has_wall);
    if !has_wall {
        eprintln!("not tried: this kernel has no Landlock");
    }
    has_wall.then_some(bench)
}

/// Does something on the job's thread that no call of [`crate::files`] would ever do.
fn inside<T: Send + 'static>(bench: &Bench, work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<()> {
    bench.files.root.inside(move || work().map(drop).map_err(|error| errno(&error)))
}

#[test]
fn plain_calls_with_plain_paths_do_not_leave_the_root() {
    let Some(bench) = bench() else { return };
    bench.write("mine", "mine");
    let outside = bench.dir.path().join("outside");
    let (secret, mine) = (outside.join("secret"), bench.host("mine"));
    let refused = |result: Result<()>| assert!(matches!(result, Err(Errno::ACCESS | Errno::XDEV)), "{result:?}");
    inside(&bench, {
        let mine = mine.clone();
        move || std::fs::read(mine)
    })
    .unwrap();
    refused(inside(&bench, {
        let secret = secret.clone();
        move || std::fs::read(secret)
    }));
    refused(inside(&bench, || std::fs::read("/etc/passwd")));
    refused(inside(&bench, || std::fs::read_dir("/")));
    refused(inside(&bench, || std::fs::read_dir("/proc/self/fd")));
    refused(inside(&bench, {
        let secret = secret.clone();
        move || std::fs::write(secret, "")
    }));
    refused(inside(&bench, {
        let new = outside.join("new");
        move || std::fs::write(new, "")
    }));
    refused(inside(&bench, {
        let new = outside.join("new");
        move || std::fs::create_dir(new)
    }));
    refused(inside(&bench, {
        let secret = secret.clone();
        move || std::fs::remove_file(secret)
    }));
    refused(inside(&bench, {
        let (mine, new) = (mine.clone(), outside.join("new"));
        move || std::fs::rename(mine, new)
    }));
    refused(inside(&bench, {
        let (secret, new) = (secret.clone(), bench.host("new"));
        move || std::fs::rename(secret, new)
    }));
    refused(inside(&bench, {
        let (secret, new) = (secret.clone(), bench.host("new"));
        move || std::fs::hard_link(secret, new)
    }));
    refused(inside(&bench, {
        let new = outside.join("new");
        move || std::os::unix::fs::symlink("/", new)
    }));
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1);
}

#[test]
fn what_was_found_outside_is_not_opened() {
    let Some(bench) = bench() else { return };
    std::fs::create_dir(bench.host("dir")).unwrap();
    bench.write("dir/file", "");
    let dir = bench.open("dir", OFlags::PATH).unwrap();
    let file = bench.open("dir/file", OFlags::RDWR).unwrap();
    // The way out that there is: the host takes a directory away that a program has open.
    std::fs::rename(bench.host("dir"), bench.dir.path().join("outside/dir")).unwrap();
    assert_eq!(bench.files.stat(&below(dir, "file"), true).map(drop), Ok(()));
    for flags in [OFlags::RDONLY, OFlags::RDWR, OFlags::RDWR | OFlags::TRUNC] {
        let opened = bench.files.open(&below(dir, "file"), flags.bits(), 0);
        assert_eq!(opened.unwrap_err(), Errno::ACCESS);
    }
    assert_eq!(bench.files.make_directory(&below(dir, "new"), 0o755), Err(Errno::ACCESS));
    assert_eq!(bench.files.truncate(&below(dir, "file"), 0), Err(Errno::ACCESS));
    assert_eq!(bench.files.remove(&below(dir, "file"), false), Err(Errno::ACCESS));
    // What is open stays so.
    bench.files.handle_truncate(file, 7).unwrap();
    assert_eq!(bench.files.write(file, super::super::WriteAt::End).unwrap().run(b"x"), Ok((1, 8)));
}

#[test]
fn special_files_are_neither_made_nor_renamed() {
    let Some(bench) = bench() else { return };
    let make = |path: std::path::PathBuf, kind| {
        move || Ok(rustix::fs::mknodat(CWD, path, kind, Mode::RUSR, rustix::fs::makedev(1, 3))?)
    };
    assert_eq!(inside(&bench, make(bench.host("new"), FileType::Fifo)), Err(Errno::ACCESS));
    assert_eq!(inside(&bench, make(bench.host("new"), FileType::Socket)), Err(Errno::ACCESS));
    let device = inside(&bench, make(bench.host("new"), FileType::CharacterDevice));
    assert!(matches!(device, Err(Errno::ACCESS | Errno::PERM)), "{device:?}");
    let program = || std::process::Command::new("/bin/true").status();
    assert_eq!(inside(&bench, program), Err(Errno::ACCESS));
    // The host's own can be removed, but not be had under another name.
    make(bench.host("fifo"), FileType::Fifo)().unwrap();
    let _socket = UnixListener::bind(bench.host("socket")).unwrap();
    for name in ["fifo", "socket"] {
        assert_eq!(bench.files.rename(&at(name), &at("new"), 0), Err(Errno::ACCESS));
        assert_eq!(bench.files.link(&at(name), &at("new"), false), Err(Errno::ACCESS));
        bench.files.remove(&at(name), false).unwrap();
    }
}

#[test]
fn all_else_goes_on_inside() {
    let Some(bench) = bench() else { return };
    bench.files.make_directory(&at("a"), 0o755).unwrap();
    bench.files.make_directory(&at("b"), 0o755).unwrap();
    let file = bench.open("a/file", OFlags::CREATE | OFlags::RDWR).unwrap();
    bench.files.rename(&at("a/file"), &at("b/file"), 0).unwrap();
    bench.files.link(&at("b/file"), &at("a/other"), false).unwrap();
    bench.files.rename(&at("a"), &at("b/a"), 0).unwrap();
    bench.files.symbolic_link(b"/b/file", &at("link")).unwrap();
    bench.files.rename(&at("link"), &at("b/a"), 0).unwrap_err();
    bench.files.truncate(&at("link"), 4).unwrap();
    bench.files.handle_truncate(file, 5).unwrap();
    bench.files.allocate(file, 0, 0, 100).unwrap().run().unwrap();
    // One without a name gets its first in another directory.
    if let Ok(nameless) = bench.open("b", OFlags::TMPFILE | OFlags::RDWR) {
        bench.files.link(&below(nameless, ""), &at("named"), false).unwrap();
        bench.files.handle_truncate(nameless, 3).unwrap();
        assert_eq!(std::fs::metadata(bench.host("named")).unwrap().len(), 3);
    }
    assert_eq!(std::fs::metadata(bench.host("b/a/other")).unwrap().len(), 100);
    // Also where all of the host is inside.
    let root = super::guarded(crate::files::Root::open("/").unwrap());
    let files = super::files_in(root);
    let path = bench.host("b/file");
    files.open(&at(path.to_str().unwrap()), OFlags::RDWR.bits(), 0).unwrap();
    assert_eq!(std::fs::read(bench.host("missing")).unwrap_err().kind(), ErrorKind::NotFound);
}
