//! No file of the host becomes set-user-id or set-group-id by what a program does.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Bench, at, below};

fn mode_of(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    assert_eq!(mode_of(path), mode);
}

#[test]
fn new_files_are_ordinary() {
    let bench = Bench::new();
    let flags = OFlags::CREATE | OFlags::RDWR;
    for (name, more) in [("made", OFlags::empty()), ("new", OFlags::EXCL), ("kept", OFlags::NOFOLLOW)] {
        bench.files.open(&at(name), (flags | more).bits(), 0o7755).unwrap();
        assert_eq!(mode_of(&bench.host(name)), 0o1755, "{name}");
    }
    bench.link("dangling", "behind");
    bench.files.open(&at("dangling"), flags.bits(), 0o6711).unwrap();
    assert_eq!(mode_of(&bench.host("behind")), 0o711);
    bench.files.make_directory(&at("dir"), 0o7755).unwrap();
    assert_eq!(mode_of(&bench.host("dir")), 0o1755);
    // One without a name gets none with such a mode either.
    let nameless = bench.files.open(&at("/"), (OFlags::TMPFILE | OFlags::RDWR).bits(), 0o6755);
    match nameless {
        Ok((handle, status)) => {
            assert_eq!(status.mode & 0o7777, 0o755);
            bench.files.handle_change_mode(handle, 0o6755).unwrap();
            bench.files.link(&below(handle, ""), &at("named"), false).unwrap();
            assert_eq!(mode_of(&bench.host("named")), 0o755);
        }
        // Not every file system has them.
        Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
    }
}

#[test]
fn changed_modes_are_ordinary() {
    let bench = Bench::new();
    bench.write("file", "");
    std::fs::create_dir(bench.host("dir")).unwrap();
    bench.link("link", "file");
    bench.files.link(&at("file"), &at("other"), false).unwrap();
    for (name, seen) in [("file", "file"), ("link", "file"), ("other", "file"), ("dir", "dir")] {
        let handle = bench.open(name, OFlags::RDONLY).unwrap();
        for mode in [0o4755, 0o2755, 0o6711, 0o7777, 0o177_777] {
            bench.files.change_mode(&at(name), mode).unwrap();
            assert_eq!(mode_of(&bench.host(seen)), mode & 0o1777, "{name} {mode:o}");
            bench.files.handle_change_mode(handle, 0).unwrap();
            bench.files.handle_change_mode(handle, mode).unwrap();
            assert_eq!(mode_of(&bench.host(seen)), mode & 0o1777, "{name} {mode:o}");
        }
    }
}

#[test]
fn what_the_host_has_set_can_be_lost_but_not_won() {
    let bench = Bench::new();
    bench.write("file", "");
    std::fs::create_dir(bench.host("dir")).unwrap();
    set_mode(&bench.host("file"), 0o6755);
    bench.files.change_mode(&at("file"), 0o6755).unwrap();
    assert_eq!(mode_of(&bench.host("file")), 0o755);
    // In a directory whose files get its group, all goes on as on the host.
    set_mode(&bench.host("dir"), 0o2755);
    bench.files.make_directory(&at("dir/below"), 0o755).unwrap();
    assert_eq!(mode_of(&bench.host("dir/below")), 0o2755);
    bench.files.open(&at("dir/file"), (OFlags::CREATE | OFlags::WRONLY).bits(), 0o2755).unwrap();
    assert_eq!(mode_of(&bench.host("dir/file")), 0o755);
    bench.files.change_mode(&at("dir"), 0o6700).unwrap();
    assert_eq!(mode_of(&bench.host("dir")), 0o2700);
    let dir = bench.open("dir", OFlags::RDONLY).unwrap();
    bench.files.handle_change_mode(dir, 0o755).unwrap();
    bench.files.handle_change_mode(dir, 0o6755).unwrap();
    assert_eq!(mode_of(&bench.host("dir")), 0o755);
}

#[test]
fn nobody_is_let_at_devices() {
    let bench = Bench::new();
    let make =
        |name: &str, kind, number| rustix::fs::mknodat(CWD, bench.host(name), kind, Mode::RUSR | Mode::WUSR, number);
    make("fifo", FileType::Fifo, 0).unwrap();
    // Only root can make devices, so only there is this tested.
    let has_device = make("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3)).is_ok();
    for name in ["fifo", "null"].into_iter().take(if has_device { 2 } else { 1 }) {
        assert_eq!(bench.files.change_mode(&at(name), 0o666).unwrap_err(), Errno::PERM);
        assert_eq!(mode_of(&bench.host(name)), 0o600);
    }
}

#[test]
fn directories_of_the_kernel_are_not_changed_by_handle() {
    let files = super::files_in(crate::files::Root::open("/").unwrap());
    let (handle, status) = files.open(&at("/proc/self/task"), OFlags::DIRECTORY.bits(), 0).unwrap();
    assert_eq!(files.handle_change_mode(handle, status.mode).unwrap_err(), Errno::ACCESS);
    let now = coppice_protocol::ship::TimeChange::Now;
    assert_eq!(files.handle_change_times(handle, now, now).unwrap_err(), Errno::ACCESS);
}
