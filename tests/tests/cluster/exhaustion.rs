//! Programs that make the kernel keep as much as they can, with the node's memory eaten besides: what they are refused,
//! they are refused with an error, the node lives, and what it kept comes back.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

use crate::hostile::assert_unharmed;

/// Exit statuses that are in order: all was held or refused, the node had no memory for a start, and a page that was
/// touched could not be had.
const IN_ORDER: [i32; 3] = [0, 4, 137];

/// What so many ranks make the kernel keep, with so many threads each, and when they eat the memory.
const RUNS: &[(u32, &str, u32, &str)] = &[
    (1, "readv", 505, "never"),
    (2, "readv", 508, "between"),
    (1, "poll", 400, "between"),
    (2, "select", 300, "after"),
    (4, "none", 500, "never"),
    (2, "none", 500, "before"),
    (1, "sockets", 300, "never"),
    (2, "sockets", 300, "between"),
    (24, "signals", 2, "after"),
    (2, "signals", 400, "before"),
    (2, "epoll", 200, "before"),
    (2, "timers", 400, "between"),
    (2, "areas", 200, "before"),
    (4, "areas", 500, "after"),
    (2, "descriptors", 300, "before"),
    (1, "paths", 509, "between"),
    (64, "none", 20, "never"),
];

fn exhaust(memory: &str, cores: u32) {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", memory, "--cores", &cores.to_string()]);
    let path = program("exhaust", Toolchain::Musl).to_string_lossy().into_owned();
    let free = || {
        let ran = cluster.run(&[&*program("free_memory", Toolchain::Musl).to_string_lossy()]).success();
        ran.text().trim().parse::<u64>().expect("bytes")
    };
    // Tables of programs that ran are no loss.
    let forget = || {
        let _ = cluster.coppice(&["forget"]);
    };
    let _ = free();
    let before = free();
    for (ranks, what, threads, when) in RUNS {
        let (ranks, threads) = (ranks.to_string(), threads.to_string());
        let ran = cluster.run(&["-n", &ranks, "--ranks-per-node", &ranks, &path, what, &threads, when]);
        let run =
            format!("{ranks} ranks, {what}, {threads} threads, memory eaten {when}, on {memory} and {cores} cores");
        assert!(IN_ORDER.contains(&ran.status), "{run}: {} {} {}", ran.status, ran.text(), ran.stderr);
        assert!(!ran.text().contains("bad"), "{run}: {} {}", ran.text(), ran.stderr);
        assert_unharmed(&cluster, &run);
    }
    forget();
    let after = free();
    assert!(after * 100 >= before * 99, "{after} of {before} bytes are left on {memory} and {cores} cores");
}

#[test]
fn what_programs_make_the_kernel_keep_is_refused_in_time_with_little_memory() {
    exhaust("32M", 2);
}

#[test]
fn what_programs_make_the_kernel_keep_is_refused_in_time_on_one_core() {
    exhaust("64M", 1);
}

#[test]
fn what_programs_make_the_kernel_keep_is_refused_in_time_on_four_cores() {
    exhaust("64M", 4);
}
