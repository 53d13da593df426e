//! Whole clusters: many seeds, and what they must have seen.

use std::collections::BTreeMap;

use coppice_simulator::cluster::{Options, run, run_with, shrink};

/// The seeds that every test run tries, split so that both cores have something to do.
const SEEDS: u64 = 20;

/// What must have happened in the seeds: checkers that never see it check nothing.
const MUST_HAPPEN: [&str; 59] = [
    "PMI barriers left by ranks",
    "PMI barriers left in jobs whose end was heard",
    "PMI conversations",
    "PMIx cards got",
    "PMIx cards that did not come in time",
    "PMIx cards that nobody has put",
    "PMIx conversations that were finalized",
    "PMIx events told",
    "PMIx fences left in jobs whose end was heard",
    "PMIx fences of all left",
    "PMIx fences of all without a rank",
    "PMIx fences of some left",
    "PMIx fences of some without a rank",
    "PMIx names found",
    "ends of ranks told by PMIx",
    "ranks that went away in the middle of PMIx",
    "fault: I/O node killed",
    "fault: I/O node stopped",
    "fault: busy connection cut",
    "fault: bytes changed on their way",
    "fault: connection cut",
    "fault: disk that does not answer",
    "fault: fabric killed",
    "fault: fabric stopped",
    "fault: failing disk",
    "fault: full disk",
    "fault: link that loses frames",
    "fault: locked database",
    "fault: machine killed",
    "fault: machine stopped",
    "fault: machine that begins to boot twice",
    "fault: machine that boots slowly",
    "fault: machine that does not boot",
    "fault: mount that hangs",
    "fault: node cut off",
    "fault: node cut off one way",
    "fault: nodes cut off from each other",
    "fault: service node killed",
    "fault: service node killed at a step",
    "fault: service node stopped",
    "fault: service node's clock set",
    "fault: slow link",
    "fault: stream that stalls",
    "fault: what nodes say to each other lost",
    "forgotten",
    "job ended",
    "job killed",
    "link changed",
    "pieces of streams that were changed",
    "processes",
    "programs stored again",
    "programs that nodes hold at the end",
    "rank reports held against its output",
    "ranks on retained pages",
    "reads of what another rank has written",
    "ranks that went away in the middle of PMI",
    "service node that cannot start",
    "user left",
    "words of nodes to each other lost",
];

fn try_seeds(seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let options = Options { faulty_ns: 60_000_000_000, ..Options::default() };
    let mut happened = BTreeMap::new();
    for seed in seeds {
        match run(seed, &options) {
            Ok(report) => report.counts.iter().for_each(|(name, count)| *happened.entry(*name).or_default() += count),
            Err(failure) => {
                let start = failure.trace.len().saturating_sub(30);
                panic!(
                    "{}\n{failure}\nagain with: cargo xtask simulate -- --seed {seed} --faulty 60 --trace",
                    failure.trace[start..].join("\n")
                );
            }
        }
    }
    happened
}

#[test]
fn the_seeds_hold() {
    let half = std::thread::spawn(|| try_seeds(0..SEEDS / 2));
    let mut happened = try_seeds(SEEDS / 2..SEEDS);
    for (name, count) in half.join().expect("holds") {
        *happened.entry(name).or_default() += count;
    }
    for name in MUST_HAPPEN {
        assert!(happened.get(name).is_some_and(|count| *count > 0), "no {name} in {happened:?}");
    }
}

/// Nothing but jobs whose ranks use the same files.
#[test]
fn files_that_ranks_share_are_one_for_all() {
    let options = Options { shares: true, faulty_ns: 60_000_000_000, ..Options::default() };
    let mut read = 0;
    for seed in 1000..1004 {
        let report = run(seed, &options).unwrap_or_else(|failure| panic!("{failure}"));
        read +=
            report.counts.iter().filter(|(name, _)| name.starts_with("reads of what")).map(|(_, it)| it).sum::<u64>();
    }
    assert!(read > 20, "{read} reads of what another rank has written");
}

#[test]
fn a_seed_is_all_there_is_to_remember() {
    let options = Options { faulty_ns: 30_000_000_000, ..Options::default() };
    let once = run(5, &options).expect("holds");
    // Beside others, and in another thread.
    let beside = std::thread::spawn(move || run(5, &options).expect("holds"));
    let other = run(6, &options).expect("holds");
    assert_eq!(once, beside.join().expect("holds"));
    assert_eq!(once, run(5, &options).expect("holds"));
    assert_ne!(once.digest, other.digest);
}

/// What happens is the same with every host, compiler and profile: nothing depends on addresses, on the order of hash
/// tables, on pointers' sizes, or on how many checks there are. The digests change with whatever nodes and hosts say to
/// each other: after such a change `INSTA_UPDATE=always cargo test -p coppice-simulator --test clusters digests` writes
/// the new ones, and `cargo xtask simulate -- --seed 0 --nodes 4 --users 3 --faulty 15` must print the first of them.
#[test]
fn digests_are_the_same_everywhere() {
    let options = Options { nodes: 4, users: 3, faulty_ns: 15_000_000_000, ..Options::default() };
    let digest = |seed| format!("{seed}: {:016x}", run(seed, &options).expect("holds").digest);
    insta::assert_snapshot!((0..5).map(digest).collect::<Vec<_>>().join("\n"));
}

/// More nodes than jobs want, of many psets.
#[test]
fn a_large_cluster_holds() {
    let options = Options { nodes: 96, pset_size: 16, faulty_ns: 20_000_000_000, ..Options::default() };
    run(1, &options).expect("holds");
}

/// It comes up, a job runs on all of it, a node dies, and the job ends with the reason.
#[test]
fn a_whole_cluster_loses_a_node() {
    let options = Options { nodes: 512, pset_size: 64, is_whole: true, faulty_ns: 0, ..Options::default() };
    let report = run(3, &options).expect("holds");
    assert!(report.counts.contains(&("processes", 512)), "{:?}", report.counts);
}

/// What a fault is does not depend on others, so a run can be repeated with the faults that it had.
#[test]
fn a_run_is_the_same_with_its_own_faults() {
    let options = Options { faulty_ns: 30_000_000_000, ..Options::default() };
    assert_eq!(run(9, &options).expect("holds"), run_with(9, &options, 0..1000).expect("holds"));
}

/// Nothing can have come right at once after the last fault: that fails whatever went wrong before.
#[test]
fn a_failure_is_shrunk_to_what_it_needs() {
    let options = Options { faulty_ns: 30_000_000_000, quiet_ns: 0, ..Options::default() };
    // Where fewer users fail, too: one alone may have no job at that moment.
    let fails = |seed: &u64, users| run_with(*seed, &Options { users, ..options }, []).is_err();
    let seeds = (0..100).filter(|seed| (1..options.users).all(|users| fails(seed, users)));
    let failing = seeds.filter_map(|seed| run(seed, &options).err()).find(|failure| failure.faults.len() > 8);
    let failure = failing.expect("a seed with faults");
    assert_eq!(failure.violation.checker, "progress");
    let shrunk = shrink(failure, &options, || false);
    assert_eq!((shrunk.failure.faults.len(), shrunk.options.users), (0, 1), "{}", shrunk.failure);
    let again = run_with(shrunk.failure.seed, &shrunk.options, shrunk.failure.faults.iter().copied());
    let again = again.expect_err("fails");
    assert_eq!((again.violation, again.at_ns), (shrunk.failure.violation, shrunk.failure.at_ns));
}
