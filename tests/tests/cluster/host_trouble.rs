//! What becomes of a job when something happens to its files on the host, and when there is more of files than memory.
//! The same program under the same trouble is told the same on the host (`tests/guests/c/trouble.c`).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish, finish_child};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// What the program says where it waits for the end of its input.
const WAITS: &str = "waiting";
/// A node's memory, and a file that it cannot hold, MiB.
const MEMORY: &str = "48M";
const LARGE_MIB: &str = "80";
/// Bytes of the file that is cut short.
const LONG: usize = 64 * 4096;

fn guest() -> String {
    program("trouble", Toolchain::Glibc).to_str().expect("a path").to_owned()
}

/// All that a program says, with what happens when it waits.
#[track_caller]
fn said(mut command: Command, happens: impl FnOnce()) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start");
    let mut said = String::new();
    // Nothing comes behind the line before it goes on.
    let mut output = BufReader::new(child.stdout.as_mut().expect("piped"));
    while !said.ends_with(&format!("{WAITS}\n")) {
        if output.read_line(&mut said).expect("output") == 0 {
            panic!("{said}{}", finish_child(child, "a program that should wait").stderr);
        }
    }
    happens();
    let ran = finish_child(child, "a program that waited");
    assert_eq!((ran.status, &*ran.stderr), (0, ""), "{said}{}", ran.text());
    said + &ran.text()
}

/// A program is told the same on the host and on a node when this happens to the directory that it works in; where
/// `meant.0` is said on the host, a node says `meant.1`.
#[track_caller]
fn is_told_the_same(what: &str, meant: (&str, &str), prepare: fn(&Path), happens: fn(&Path)) {
    let guest = guest();
    let directory = tempfile::tempdir().expect("temporary directory");
    let afresh = |name: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).expect("made");
        prepare(&path);
        path
    };
    let there = afresh("host");
    let mut native = Command::new(&guest);
    native.arg(what).arg(&there);
    let native = said(native, || happens(&there)).replace(meant.0, meant.1);
    let cluster = Cluster::up(1);
    for io in ["leased", "strict"] {
        let there = afresh(io);
        let root = there.to_str().expect("a path");
        let command = cluster.command(&["run", "--quiet", "--io", io, "--root", root, &guest, what, "/"]);
        assert_eq!(said(command, || happens(&there)), native, "{io}");
    }
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "nothing was lost");
}

#[test]
fn a_root_that_is_removed_under_a_job() {
    let prepare = |path: &Path| std::fs::write(path.join("read"), "read before").expect("written");
    is_told_the_same("removed", ("ENOENT", "ESTALE"), prepare, |path| std::fs::remove_dir_all(path).expect("removed"));
}

#[test]
fn a_file_that_is_cut_short_on_the_host() {
    let prepare = |path: &Path| std::fs::write(path.join("f"), vec![b'x'; LONG]).expect("written");
    is_told_the_same("cut", ("", ""), prepare, |path| {
        let file = std::fs::File::options().write(true).open(path.join("f")).expect("a file");
        file.set_len(1000).expect("cut");
    });
}

#[test]
fn a_file_system_that_nothing_may_be_written_to() {
    let cluster = Cluster::with_mounts(|cluster, mounts| {
        let root = cluster.root();
        std::fs::write(root.join("f"), "some bytes").expect("written");
        std::fs::create_dir(root.join("d")).expect("made");
        mounts.make_read_only(root)
    });
    let Some(cluster) = cluster else { return };
    let (guest, root) = (guest(), cluster.root().to_str().expect("a path"));
    let mut native = cluster.namespace().expect("mounts").command(guest.as_ref());
    native.args(["read-only", root]).stdin(Stdio::null());
    let native = finish(native).success().text();
    assert!(native.matches("EROFS").count() > 10, "{native}");
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    for io in ["leased", "strict"] {
        let ran = cluster.run(&["--io", io, &guest, "read-only", "/"]).success();
        assert_eq!(ran.text(), native, "{io}");
    }
}

/// No program fails for what a node knows of files: it gives that up, and knows it again later.
#[test]
fn a_node_full_of_files_has_its_memory_for_programs() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", MEMORY]);
    let guest = guest();
    // Written by this job; then only read, by the next.
    for arguments in [&["memory", "/", LARGE_MIB, "writes"][..], &["memory", "/", LARGE_MIB]] {
        let ran = cluster.run(&[&[&*guest], arguments].concat());
        let told = "what is known of files counts as memory that can be had: yes\n";
        let told = format!(
            "{told}pwrite(f, \"last\", 4, length) = 4\npread(f, bytes, 10, length) = 4\nfsync(f) = 0\nclose(f) = 0\n"
        );
        assert_eq!((ran.status, &*ran.text()), (0, &*told), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "nothing was lost");
}
