//! Programs that are linked dynamically, unmodified, from a root that has their libraries: what they say is what they
//! say on the host.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

use crate::checkpoint::{checkpoint, end, restart, said, start, wait_for};

/// A program and its library beside each other, below a directory that ranks may use.
fn with_library(cluster: &Cluster, name: &str, toolchains: [Toolchain; 2]) -> PathBuf {
    let directory = cluster.root().join(name);
    std::fs::create_dir_all(&directory).expect("directory");
    let [of_program, of_library] = toolchains;
    std::fs::copy(program("library", of_library), directory.join("library.so")).expect("copied");
    let path = directory.join("dynamic");
    std::fs::copy(program("dynamic", of_program), &path).expect("copied");
    path.canonicalize().expect("there")
}

/// Runs a program with this machine's root on a node and natively, and compares.
fn compare(cluster: &Cluster, path: &Path, arguments: &[&str]) {
    let native = host::run(cluster.root(), path, arguments);
    let path = path.to_string_lossy();
    let ran = cluster.run(&[&["--root", "/", &path], arguments].concat());
    assert_eq!((ran.status, ran.text()), (native.status, native.text()), "{path}: {}", ran.stderr);
}

/// Libraries at the start and later, found beside the program, and what belongs to each thread.
#[test]
fn linkers_find_what_programs_need() {
    let cluster = Cluster::up(1);
    let glibc = with_library(&cluster, "glibc", [Toolchain::Dynamic, Toolchain::Library]);
    compare(&cluster, &glibc, &["one", "two"]);
    compare(&cluster, &with_library(&cluster, "musl", [Toolchain::MuslDynamic, Toolchain::MuslLibrary]), &[]);
    // Called by a link from elsewhere, it is where its file is.
    let link = cluster.root().join("link");
    symlink(&glibc, &link).expect("linked");
    let direct = cluster.run(&["--root", "/", &glibc.to_string_lossy()]).text();
    let called = cluster.run(&["--root", "/", &link.to_string_lossy()]).text();
    assert_eq!(called, direct.replace("called 'dynamic'", "called 'link'"));
}

/// The second time, the program's own pages are there.
#[test]
fn dynamic_programs_run_again_warm() {
    let cluster = Cluster::up(1);
    let path = with_library(&cluster, "glibc", [Toolchain::Dynamic, Toolchain::Library]);
    let path = path.to_string_lossy();
    let run = || cluster.coppice(&["run", "--root", "/", "--ranks-per-node", "2", "-n", "2", &path]);
    assert_eq!(run().status, 7);
    let again = run();
    assert_eq!(again.status, 7);
    assert!(again.stderr.contains("warm") && again.stderr.contains(" 0 fetched"), "{}", again.stderr);
}

/// What the root does not have is said before anything starts, and a root that is no good in one line.
#[test]
fn what_a_root_lacks_is_said() {
    let cluster = Cluster::up(1);
    let path = with_library(&cluster, "glibc", [Toolchain::Dynamic, Toolchain::Library]);
    let text = path.to_string_lossy();
    let linker = "/lib64/ld-linux-x86-64.so.2";
    let _ = cluster.run(&[&*text]).refused(&[linker, "--root /"]);
    assert!(cluster.json(&["jobs"]).as_array().is_none_or(Vec::is_empty), "no job was made");

    let inside = cluster.root().join("lib64");
    std::fs::create_dir(&inside).expect("directory");
    let inside = inside.join("ld-linux-x86-64.so.2");
    let real = std::fs::read(linker).expect("there");
    for (bytes, word) in [(&b"#!/bin/sh\n"[..], "a script"), (&real[..8000], "truncated")] {
        std::fs::write(&inside, bytes).expect("written");
        let ran = cluster.run(&[&*text]).refused(&[linker, word]);
        assert_ne!(ran.status, 0);
    }
    std::fs::write(&inside, real).expect("written");
    let ran = cluster.coppice(&["run", &text]);
    assert!(ran.stderr.contains("needs libc.so.6") && ran.stderr.contains("LD_LIBRARY_PATH"), "{}", ran.stderr);
    assert!(ran.stderr.contains("error while loading shared libraries: libc.so.6"), "{}", ran.stderr);
    assert_eq!(ran.status, 127);

    std::fs::create_dir(cluster.root().join("own")).expect("directory");
    std::fs::copy("/lib/x86_64-linux-gnu/libc.so.6", cluster.root().join("own/libc.so.6")).expect("copied");
    let ran = cluster.coppice(&["run", "--env", "LD_LIBRARY_PATH=/own", &text]);
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    assert!(!ran.stderr.contains("needs"), "{}", ran.stderr);
}

/// A library that another one takes the place of between two runs, or is damaged, is what it is then.
#[test]
fn a_library_is_what_it_is_when_it_is_loaded() {
    let cluster = Cluster::up(1);
    let path = with_library(&cluster, "glibc", [Toolchain::Dynamic, Toolchain::Library]);
    compare(&cluster, &path, &[]);
    let library = path.with_file_name("library.so");
    let whole = std::fs::read(&library).expect("there");
    let mut other = whole.clone();
    let at = whole.windows(8).position(|bytes| bytes == b"library:").expect("its text");
    other[at..at + 8].copy_from_slice(b"another:");
    for bytes in [&other[..], &whole[..5000], b"no library", b""] {
        std::fs::write(&library, bytes).expect("written");
        compare(&cluster, &path, &[]);
    }
    std::fs::remove_file(&library).expect("removed");
    compare(&cluster, &path, &[]);
}

/// Whatever its linker has mapped is there when it goes on.
#[test]
fn a_dynamic_program_goes_on_from_a_checkpoint() {
    let cluster = Cluster::up(2);
    let path = program("goes_on", Toolchain::Dynamic);
    let native = host::run(cluster.root(), &path, &["400", "native.txt"]).text();
    let lines = cluster.root().join("lines.txt");
    let (text, lines) = (path.to_string_lossy(), lines.to_string_lossy());
    let job = start(&cluster, &["--root", "/", "--nodes-list", "0", &text, "1000000", &lines, "5"]);
    wait_for(&cluster, &job, "round 5:");
    let name = checkpoint(&cluster, &job);
    end(&cluster, &job);
    let job = restart(&cluster, &name, &["--nodes-list", "1"]);
    wait_for(&cluster, &job, "round 30:");
    end(&cluster, &job);
    let text = said(&cluster, &job);
    assert!(native.contains(text.get(..text.find("round 30:").expect("it came so far")).expect("a part")), "{text}");
}
