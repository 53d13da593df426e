//! System calls of all kinds: what programs print about them is what they print on the host.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

/// Runs a program on one node and on the host; output and status must agree, line by line.
#[track_caller]
fn compare(cluster: &Cluster, name: &str, toolchain: Toolchain) {
    let path = program(name, toolchain);
    let native = host::run::<&str>(cluster.root(), &path, &[]);
    let on_node = cluster.run(&[&*path.to_string_lossy()]);
    let (node, native_text) = (on_node.text(), native.text());
    for (line, (here, there)) in node.lines().zip(native_text.lines()).enumerate() {
        assert_eq!(here, there, "{name} {toolchain:?}, line {}: {}", line + 1, on_node.stderr);
    }
    assert_eq!(node, native_text, "{name} {toolchain:?}: {}", on_node.stderr);
    assert_eq!((on_node.status, native.status), (0, 0), "{name} {toolchain:?}: {}", on_node.stderr);
}

/// timerfd, signalfd, memfd, prctl, schedulers, `/proc/self`: on one core and on two.
#[test]
fn what_language_runtimes_call_answers_as_on_the_host() {
    for (cores, toolchain) in [("1", Toolchain::Glibc), ("2", Toolchain::Musl)] {
        let cluster = Cluster::up_with(&["--nodes", "1", "--cores", cores]);
        compare(&cluster, "runtime_calls", toolchain);
    }
}

/// splice and its like, pipes that keep packets apart, locks that the kernel hands on.
#[test]
fn pipes_and_locks_are_as_on_the_host() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "2"]);
    compare(&cluster, "pipes_and_locks", Toolchain::Glibc);
}

/// What wakes an epoll wakes those that watch it, on several cores; rings are refused.
#[test]
fn epolls_that_watch_epolls_are_as_on_the_host() {
    for cores in ["1", "2"] {
        let cluster = Cluster::up_with(&["--nodes", "1", "--cores", cores]);
        for _ in 0..5 {
            compare(&cluster, "nested_epolls", Toolchain::Glibc);
        }
    }
}
