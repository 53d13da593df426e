//! What programs may not leave on the host: files that run as whoever they belong to, devices.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

const SET_IDS: u32 = 0o6000;

fn everything_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(everything_below(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn no_call_leaves_set_ids_or_devices_on_the_host() {
    let cluster = Cluster::up(1);
    let host = |name: &str| cluster.root().join(name);
    let set_mode = |name: &str, mode| {
        std::fs::set_permissions(host(name), PermissionsExt::from_mode(mode)).expect("mode");
    };
    std::fs::write(host("theirs"), "").expect("file");
    set_mode("theirs", 0o4755);
    std::fs::create_dir(host("inherits")).expect("directory");
    set_mode("inherits", 0o2755);

    let path = program("set_ids", Toolchain::Glibc);
    let ran = cluster.run(&[&*path.to_string_lossy()]).success();
    let said = ran.text();
    // All succeed, and who looks sees the truth.
    let denied: Vec<&str> = said.lines().filter(|line| !line.ends_with(": done") && !line.ends_with("has 0")).collect();
    let expected = ["device", "disk", "fifo", "plain"];
    assert_eq!(denied.len(), expected.len() + 1, "{said}");
    for (line, name) in denied.iter().zip(expected) {
        assert!(line.contains(name) && line.ends_with(": ENOSYS"), "{said}");
    }
    assert!(denied[4].ends_with(": EINVAL"), "{said}");

    let made = everything_below(cluster.root());
    for name in ["opened", "opened_alone", "created", "opened2", "changed", "renamed", "dir", "dir2", "inherits/made"] {
        assert!(made.contains(&host(name)), "no {name}: {said}");
    }
    for path in made {
        let status = std::fs::symlink_metadata(&path).expect("status");
        let kind = status.file_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{}", path.display());
        assert!(!kind.is_char_device() && !kind.is_block_device() && !kind.is_fifo());
        // The host's own doing: a directory that hands its group on, and what is made in it.
        let inherited = kind.is_dir() && path.starts_with(host("inherits"));
        let left = status.mode() & SET_IDS & if inherited { !0o2000 } else { !0 };
        assert_eq!(left, 0, "{} has mode {:o}", path.display(), status.mode());
    }
    // What was asked for besides is there.
    assert_eq!(std::fs::metadata(host("opened_alone")).expect("status").mode() & 0o7777, 0o1755);
    assert_eq!(std::fs::metadata(host("changed")).expect("status").mode() & 0o7777, 0o755);
}
