//! Signals: handlers find what they find on the host, calls that wait are interrupted as there, and nothing is lost
//! between threads.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use coppice_tests::cluster::finish_child;
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

/// Runs a program on one node and on the host; output and status must agree.
#[track_caller]
fn compare(cluster: &Cluster, name: &str, toolchain: Toolchain, arguments: &[&str]) {
    let path = program(name, toolchain);
    let text = path.to_string_lossy().into_owned();
    let native = host::run(cluster.root(), &path, arguments);
    let on_node = cluster.run(&[&[text.as_str()], arguments].concat());
    assert_eq!(on_node.text(), native.text(), "{name} {toolchain:?} {arguments:?}: {}", on_node.stderr);
    assert_eq!(on_node.status, native.status, "{name} {toolchain:?} {arguments:?}: {}", on_node.stderr);
}

/// Every flag of handlers, queues, alternate stacks, faults, registers, timers.
#[test]
fn handlers_find_what_they_find_on_the_host() {
    let cluster = Cluster::up(1);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        compare(&cluster, "signals", toolchain, &[]);
    }
}

/// Default actions, faults that cannot be handled, stacks without room, and forged frames.
#[test]
fn signals_end_programs_as_on_the_host() {
    let cluster = Cluster::up(1);
    for how in [
        "term",
        "real-time",
        "pipe",
        "alarm",
        "blocked-fault",
        "ignored-fault",
        "fault-in-handler",
        "small-stack",
        "bad-stack",
        "no-restorer",
        "no-frame",
        "rip",
        "kernel-rip",
        "cs",
        "ss",
        "components",
        "compacted",
        "mxcsr",
        "vector",
        "unaligned",
        "flags",
        "no-interrupts",
        "magic",
        "no-vector",
        "kill-mask",
    ] {
        compare(&cluster, "signals", Toolchain::Glibc, &[how]);
    }
}

/// A signal during every call that waits: `EINTR`, or the call again.
#[test]
fn waiting_calls_are_interrupted_as_on_the_host() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "2"]);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        compare(&cluster, "signals_wait", toolchain, &[]);
    }
}

#[test]
fn reading_standard_input_is_interrupted() {
    let cluster = Cluster::up(1);
    let path = program("signals_wait", Toolchain::Glibc);
    let mut child = cluster
        .command(&["run", "--quiet", &path.to_string_lossy(), "input"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut input = child.stdin.take().expect("piped");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    // It is interrupted as long as nothing comes; made again, it reads what comes.
    let interrupted = lines.by_ref().find(|line| line.as_ref().is_ok_and(|line| line.starts_with("standard input")));
    assert_eq!(interrupted.expect("a line").expect("a line"), "standard input: -1 4");
    input.write_all(b"x").expect("write");
    assert_eq!(lines.next().expect("a line").expect("a line"), "standard input, restarting: 1 0");
    drop(input);
    assert_eq!(finish_child(child, "run with input").status, 0);
}

/// Threads that send each other real-time signals while they compute and wait: each arrives once, in order, and no
/// handler changes a register.
#[test]
fn torture() {
    for cores in ["1", "2"] {
        let cluster = Cluster::up_with(&["--nodes", "1", "--cores", cores]);
        let path = program("signals_torture", Toolchain::Glibc);
        let ran = cluster.run(&[&*path.to_string_lossy(), "12", "400"]).success();
        assert_eq!(ran.text(), "sent 4800, taken 4800, wrong 0, standard ones 1\n", "{cores} cores");
    }
}
