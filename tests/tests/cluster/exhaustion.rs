//! Programs that make the kernel keep as much as they can, with the node's memory eaten besides: what they are refused,
//! they are refused with an error, the node lives, and what it kept comes back.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

use crate::hostile::assert_unharmed;

/// Exit statuses that are in order: all was held or refused; there was no memory for a rank's stacks, for a page that
/// it touched, or for the rank.
const IN_ORDER: [i32; 4] = [0, 4, 137, 125];

/// What so many ranks make the kernel keep, with so many threads each, and when they eat the memory.
type Run = (u32, &'static str, u32, &'static str);

/// Calls that wait and keep much meanwhile.
const WAITING: &[Run] = &[
    (1, "readv", 505, "never"),
    (2, "readv", 508, "between"),
    (1, "poll", 400, "between"),
    (2, "select", 300, "after"),
    (1, "paths", 509, "between"),
    (2, "descriptors", 300, "before"),
    (1, "pages", 300, "never"),
    (2, "splice", 200, "between"),
];

/// Threads, and sockets beside them.
const THREADS: &[Run] = &[
    (4, "none", 500, "never"),
    (2, "none", 500, "before"),
    (1, "sockets", 300, "never"),
    (2, "sockets", 300, "between"),
    (64, "none", 20, "never"),
];

/// What is kept without a call that waits.
const THINGS: &[Run] = &[
    (24, "signals", 2, "after"),
    (2, "signals", 400, "before"),
    (2, "epoll", 200, "before"),
    (2, "timers", 400, "between"),
    (2, "areas", 200, "before"),
    (4, "areas", 500, "after"),
];

/// What is tried on each node: some of all that, or all of it if `COPPICE_EXHAUSTION_ROUNDS` says how often.
fn runs(some: &[Run]) -> Vec<Run> {
    let rounds = std::env::var("COPPICE_EXHAUSTION_ROUNDS").ok();
    let rounds = rounds.map(|rounds| rounds.parse::<usize>().expect("COPPICE_EXHAUSTION_ROUNDS is a number"));
    rounds.map_or_else(|| some.to_vec(), |rounds| [WAITING, THREADS, THINGS].concat().repeat(rounds))
}

fn exhaust(memory: &str, cores: u32, some: &[Run]) {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", memory, "--cores", &cores.to_string()]);
    let path = program("exhaust", Toolchain::Musl).to_string_lossy().into_owned();
    let free = || {
        let ran = cluster.run(&[&*program("free_memory", Toolchain::Musl).to_string_lossy()]).success();
        ran.text().trim().parse::<u64>().expect("bytes")
    };
    let _ = free();
    let before = free();
    for (ranks, what, threads, when) in runs(some) {
        let (ranks, threads) = (ranks.to_string(), threads.to_string());
        let ran = cluster.run(&["-n", &ranks, "--ranks-per-node", &ranks, &path, what, &threads, when]);
        let run =
            format!("{ranks} ranks, {what}, {threads} threads, memory eaten {when}, on {memory} and {cores} cores");
        assert!(IN_ORDER.contains(&ran.status), "{run}: {} {} {}", ran.status, ran.text(), ran.stderr);
        assert!(!ran.text().contains("bad"), "{run}: {} {}", ran.text(), ran.stderr);
        assert_unharmed(&cluster, &run);
    }
    // Nor did it lose its connection for want of memory for what came.
    let console = cluster.coppice(&["console", "0"]).success().text();
    let lost: Vec<&str> = console.lines().filter(|line| line.contains("ship: ")).collect();
    assert!(lost.is_empty(), "{lost:#?}");
    // Tables of programs that ran are no loss, and what is said of the last job may still be under way.
    let _ = cluster.coppice(&["forget"]);
    let _ = free();
    let after = free();
    assert!(after * 100 >= before * 99, "{after} of {before} bytes are left on {memory} and {cores} cores");
}

#[test]
fn what_programs_make_the_kernel_keep_is_refused_in_time_with_little_memory() {
    exhaust("32M", 2, WAITING);
}

#[test]
fn what_programs_make_the_kernel_keep_is_refused_in_time_on_one_core() {
    exhaust("64M", 1, THREADS);
}

#[test]
fn what_programs_make_the_kernel_keep_is_refused_in_time_on_four_cores() {
    exhaust("64M", 4, THINGS);
}

/// Many short ones take more of a node than few long ones.
#[test]
fn as_many_arguments_as_can_be_passed_are_no_nodes_end() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", "32M", "--cores", "2"]);
    let path = program("true", Toolchain::Musl).to_string_lossy().into_owned();
    let run = |ranks: &str, count: usize| {
        let start = ["-n", ranks, "--ranks-per-node", ranks, &path].map(String::from);
        let all: Vec<String> = start.into_iter().chain(std::iter::repeat_n(String::new(), count)).collect();
        cluster.run(&all)
    };
    let _ = run("1", 65_000).refused(&["put them into a file"]);
    let _ = run("16", 10_000).refused(&["fewer --ranks-per-node"]);
    for (ranks, count) in [("1", 14_000), ("2", 14_000), ("16", 1800), ("64", 400)] {
        let ran = run(ranks, count);
        assert!([0, 125].contains(&ran.status), "{ranks} ranks, {count} arguments: {}", ran.stderr);
        assert_unharmed(&cluster, &format!("{ranks} ranks with {count} arguments"));
    }
}
