//! What a user can get wrong: one clear line each, and nothing left behind.

use std::path::{Path, PathBuf};

use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

fn write(cluster: &Cluster, name: &str, bytes: &[u8]) -> String {
    let path = cluster.root().join(name);
    std::fs::write(&path, bytes).expect("file");
    path.to_string_lossy().into_owned()
}

/// Overwrites bytes of a copy of a good program.
fn damaged(cluster: &Cluster, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = std::fs::read(program("true", Toolchain::Musl)).expect("program");
    change(&mut bytes);
    write(cluster, name, &bytes)
}

/// Offset of the first PT_LOAD program header.
fn first_load(bytes: &[u8]) -> usize {
    let table = u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes")) as usize;
    let count = u16::from_le_bytes(bytes[56..58].try_into().expect("two bytes")) as usize;
    (0..count)
        .map(|index| table + index * 56)
        .find(|at| bytes[*at..*at + 4] == 1u32.to_le_bytes())
        .expect("a segment to load")
}

#[test]
fn programs_that_are_none() {
    let cluster = Cluster::up(1);
    let dynamic = program("true", Toolchain::Dynamic).to_string_lossy().into_owned();
    let script = write(&cluster, "script", b"#!/bin/sh\necho no\n");
    let text = write(&cluster, "text", b"just text");
    let empty = write(&cluster, "empty", b"");
    let machine = damaged(&cluster, "machine", |bytes| bytes[18] = 183);
    let truncated = damaged(&cluster, "truncated", |bytes| bytes.truncate(5000));
    let cut = damaged(&cluster, "cut", |bytes| bytes.truncate(40));
    let kernel = damaged(&cluster, "kernel", |bytes| {
        let at = first_load(bytes);
        bytes[at + 16..at + 24].copy_from_slice(&0xffff_ffff_8000_0000u64.to_le_bytes());
    });
    let overlapping = damaged(&cluster, "overlapping", |bytes| {
        let at = first_load(bytes);
        bytes[at + 40..at + 48].copy_from_slice(&0x40_0000u64.to_le_bytes());
    });
    let large = damaged(&cluster, "large", |bytes| {
        let table = u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes")) as usize;
        let count = u16::from_le_bytes(bytes[56..58].try_into().expect("two bytes")) as usize;
        let last = (0..count)
            .map(|index| table + index * 56)
            .filter(|at| bytes[*at..*at + 4] == 1u32.to_le_bytes())
            .max_by_key(|at| u64::from_le_bytes(bytes[*at + 16..*at + 24].try_into().expect("eight bytes")))
            .expect("a segment to load");
        bytes[last + 40..last + 48].copy_from_slice(&(4u64 << 30).to_le_bytes());
    });

    let cases: &[(&str, &[&str])] = &[
        (&dynamic, &["dynamically", "--root /", "link it statically"]),
        (&script, &["script"]),
        (&text, &["ELF"]),
        (&empty, &["empty"]),
        (&machine, &["x86-64"]),
        (&truncated, &["truncated"]),
        (&cut, &["truncated"]),
        (&kernel, &["address"]),
        (&overlapping, &["overlap"]),
        (&large, &["memory"]),
        ("/no/such/program", &["/no/such/program"]),
        ("/tmp", &["/tmp"]),
    ];
    for (path, words) in cases {
        let _ = cluster.run(&[path]).refused(words);
    }
    // The cluster is none the worse for it.
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
}

#[test]
fn requests_that_cannot_be_met() {
    let cluster = Cluster::up(2);
    let _ = cluster.run(&["-n", "3", BUSYBOX, "true"]).refused(&["3", "2"]);
    let _ = cluster.run(&["--root", "/no/such/root", BUSYBOX, "true"]).refused(&["/no/such/root"]);
    let _ = cluster.run(&["--root", BUSYBOX, BUSYBOX, "true"]).refused(&[BUSYBOX]);
    let _ = cluster.run(&["--cwd", "/not/there", BUSYBOX, "true"]).refused(&["/not/there"]);
    let _ = cluster.run(&["--stdin-rank", "5", "-n", "2", BUSYBOX, "true"]).refused(&["5"]);
    let _ = cluster.coppice(&["up", "--nodes", "2"]).refused(&["already"]);
    let _ = cluster.coppice(&["job", "999"]).refused(&["999"]);
    let _ = cluster.coppice(&["kill", "999"]).refused(&["999"]);
    let _ = cluster.coppice(&["reboot", "17"]).refused(&["17"]);
    let _ = cluster.coppice(&["console", "17"]).refused(&["17"]);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
}

/// Nothing outside the job's root can be named, whatever the path.
#[test]
fn paths_stay_inside_the_root() {
    let cluster = Cluster::up(1);
    let outside = tempfile::tempdir().expect("directory");
    std::fs::write(outside.path().join("secret"), "secret").expect("file");
    let secret = outside.path().join("secret");
    let link = |name: &str, target: &Path| {
        std::os::unix::fs::symlink(target, cluster.root().join(name)).expect("link");
    };
    link("absolute", &secret);
    link("directory", outside.path());
    let dots: PathBuf = std::iter::repeat_n("..", 20).collect();
    link("dots", &dots.join(secret.strip_prefix("/").expect("absolute")));
    link("magic", Path::new("/proc/self/root"));
    let up_and_out = format!("/{}{}", "../".repeat(20), secret.strip_prefix("/").expect("absolute").display());
    let through_proc = format!("/proc/self/root{}", secret.display());
    for path in
        ["absolute", "directory/secret", "dots", &up_and_out, &through_proc, "magic/etc/passwd", "/proc/1/environ"]
    {
        let ran = cluster.run(&[BUSYBOX, "cat", path]);
        assert_eq!(ran.status, 1, "{path}: {} {}", ran.text(), ran.stderr);
        assert!(ran.stdout.is_empty(), "{path}: {}", ran.text());
        assert_eq!(ran.stderr.lines().count(), 1, "{path}: {}", ran.stderr);
    }
    // Nor written.
    let ran = cluster.run(&[BUSYBOX, "cp", "/absolute", "/directory/new"]);
    assert_ne!(ran.status, 0);
    assert_eq!(std::fs::read_dir(outside.path()).expect("directory").count(), 1);
    // As in a chroot, the directory above the root is the root.
    std::fs::write(cluster.root().join("inside"), "inside").expect("file");
    assert_eq!(cluster.run(&[BUSYBOX, "cat", "/../../inside"]).success().text(), "inside");
}
