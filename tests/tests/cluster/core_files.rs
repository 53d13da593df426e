//! Core files of ranks that run, as `coppice core` writes them and gdb reads them.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::{Toolchain, program};

/// What gdb says of a core.
fn gdb(program: &Path, core: &Path, commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch"]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    let output = gdb.arg(program).arg(core).output().expect("gdb is installed");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// Threads that compute, sleep, wait and read are found where they are, with their memory; the rank goes on.
#[test]
fn a_debugger_sees_where_threads_are() {
    let cluster = Cluster::up(1);
    let path = program("stacks", Toolchain::Glibc);
    let mut child = cluster
        .command(&["run", "--quiet", &*path.to_string_lossy()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("a line"), "ready");
    let core = cluster.root().join("stacks.core");
    let arguments = ["core", "1", "0", "-o", &*core.to_string_lossy()];
    // Again and again: it goes on in between.
    for _ in 0..3 {
        let said = cluster.coppice(&arguments).success().text();
        assert!(said.starts_with(&*core.to_string_lossy()), "{said}");
    }
    let status = std::fs::metadata(&core).expect("a core");
    assert_eq!(status.mode() & 0o777, 0o600);
    // Of the large array one page was touched.
    assert!(status.len() > 32 << 20 && status.blocks() * 512 < 8 << 20, "{} of {}", status.blocks(), status.len());
    let seen = gdb(
        &path,
        &core,
        &[
            "thread apply all backtrace",
            "x/s &marked",
            "print (long) computed > 0",
            "info auxv",
            "info registers mxcsr",
        ],
    );
    assert_eq!(seen.matches("\nThread ").count(), 4, "{seen}");
    for expected in [
        "computes_deep",
        "sleeps_long",
        "waits_for_change",
        "reads_to_the_end",
        "in main ()",
        "\"seen in the core\"",
        "= 1",
        "AT_ENTRY",
        "0x1f80",
    ] {
        assert!(seen.contains(expected), "{expected}: {seen}");
    }
    // All of its calls of itself are there.
    assert_eq!(seen.matches("computes_deep").count(), 4, "{seen}");
    for complaint in ["warning: Unexpected size", "truncated", "Cannot access memory", "corrupt stack"] {
        assert!(!seen.contains(complaint), "{complaint}: {seen}");
    }
    // Nothing is left of one that cannot be written.
    let none = cluster.coppice(&["core", "1", "7", "-o", &*core.with_extension("none").to_string_lossy()]);
    assert!(none.status != 0 && none.stderr.contains("has no rank 7"), "{}", none.stderr);
    assert!(!core.with_extension("none").exists());
    drop(child.stdin.take());
    assert_eq!(lines.next().expect("a line").expect("a line"), "went on");
    drop(lines);
    assert_eq!(finish_child(child, "run").status, 0);
    let ended = cluster.coppice(&arguments);
    assert!(ended.status != 0 && ended.stderr.contains("job 1 has ended already"), "{}", ended.stderr);
}
