//! Programs of our own, compiled with every usual tool chain: a node gives what the host gives.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

/// Every way to link a static C program.
const C_TOOLCHAINS: [Toolchain; 3] = [Toolchain::Glibc, Toolchain::GlibcPie, Toolchain::Musl];

/// Runs a program with arguments on one node and on the host; output, errors and status must agree.
#[track_caller]
pub(crate) fn compare(cluster: &Cluster, name: &str, toolchain: Toolchain, arguments: &[&str]) {
    let path = program(name, toolchain);
    let text = path.to_string_lossy().into_owned();
    let native = host::run(cluster.root(), &path, arguments);
    let mut command = vec!["--env", "RUST_BACKTRACE=0", &text];
    command.extend(arguments);
    let on_node = cluster.run(&command);
    assert_eq!(on_node.text(), native.text(), "{name} {toolchain:?} {arguments:?}: {}", on_node.stderr);
    assert_eq!(on_node.status, native.status, "{name} {toolchain:?} {arguments:?}: {}", on_node.stderr);
}

#[test]
fn start_contract() {
    let cluster = Cluster::up(1);
    for toolchain in C_TOOLCHAINS {
        compare(&cluster, "contract", toolchain, &["3", "with space", ""]);
    }
    let path = program("contract", Toolchain::Musl);
    let ran = cluster.run(&["--env", "GUEST_A=1", "--env", "GUEST_B=x=y", &path.to_string_lossy()]).success();
    assert!(ran.text().contains("env GUEST_A=1\n") && ran.text().contains("env GUEST_B=x=y\n"), "{}", ran.text());
    assert!(ran.stderr.contains("to standard error"), "{}", ran.stderr);
}

#[test]
fn file_calls() {
    let cluster = Cluster::up(1);
    compare(&cluster, "files", Toolchain::Glibc, &[]);
    compare(&cluster, "files", Toolchain::GlibcPie, &[]);
}

#[test]
fn memory_calls() {
    let cluster = Cluster::up(1);
    compare(&cluster, "memory", Toolchain::Glibc, &[]);
    compare(&cluster, "memory", Toolchain::GlibcPie, &[]);
}

/// AVX and SSE registers across page faults, waits and other work of the kernel.
#[test]
fn vector_registers_are_kept() {
    let cluster = Cluster::up(1);
    compare(&cluster, "vectors", Toolchain::Glibc, &[]);
}

/// Arguments, environment, files, exit codes and panics of Rust's std.
#[test]
fn rust_std() {
    let cluster = Cluster::up(1);
    for toolchain in [Toolchain::Rust, Toolchain::RustGlibc] {
        compare(&cluster, "standard", toolchain, &[]);
        compare(&cluster, "standard", toolchain, &["7", "ü"]);
        compare(&cluster, "standard", toolchain, &["panic"]);
    }
}
