//! MPICH's own test programs, with a checkpoint every second and a restart from every fifth: they find no errors.
//!
//! `COPPICE_SECONDS` has them come again and again for so long, from one on that `COPPICE_SEED` says, as `cargo xtask
//! soak` has it; the suite takes a few.

use std::time::{Duration, Instant};

use coppice_tests::Cluster;
use coppice_tests::guests::mpich;
use coppice_tests::random::told;

use crate::checkpoint::{checkpoint_soon, restart, said, start};
use crate::mpi;

/// A checkpoint is made so often, and a job goes on from one of so many. Most programs are over sooner: of one that has
/// not gone on from any yet one is made whenever there can be.
const INTERVAL: Duration = Duration::from_secs(1);
const RESTART_ONE_OF: u32 = 5;

/// How often a program is run that comes to its end before it went on from a checkpoint.
const RUNS_MAX: u32 = 20;

/// How many programs the suite takes.
const PROGRAMS: usize = 3;

/// Longest a program may take in all its jobs.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(300);

/// Runs a program until it went on from a checkpoint. Gives how many were made.
fn run(cluster: &Cluster, line: &str) -> u32 {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, ranks, arguments @ ..] = words.as_slice() else { panic!("not “PROGRAM RANKS …”: {line}") };
    let path = mpich().join("../mpich-tests/test/mpi").join(name);
    assert!(path.exists(), "no {}: build it with `cargo xtask mpi-suite`", path.display());
    let path = path.to_string_lossy();
    let (mut made, mut interval) = (0, Duration::ZERO);
    for _ in 0..RUNS_MAX {
        let begun = Instant::now();
        let mut job = start(cluster, &[&["-n", ranks, &path], arguments].concat());
        let (mut jobs, mut is_restarted) = (vec![job.clone()], false);
        while let Some(checkpoint) = checkpoint_soon(cluster, &job) {
            made += 1;
            if made % RESTART_ONE_OF == 0 {
                let _ = cluster.coppice(&["kill", "--signal", "KILL", &job]);
                let ended = cluster.coppice(&["wait", &job]);
                assert!([0, 137].contains(&ended.status), "{line}: {}", ended.stderr);
                job = restart(cluster, &checkpoint, &[]);
                jobs.push(job.clone());
                // It is to come to its end now.
                (is_restarted, interval) = (true, INTERVAL);
            }
            assert!(begun.elapsed() < PROGRAM_TIME_MAX, "{line}: no end");
            std::thread::sleep(interval);
        }
        let ended = cluster.coppice(&["wait", &job]);
        // What was said behind a checkpoint is said again, which need not begin a line.
        let text = jobs.iter().map(|job| said(cluster, job)).collect::<Vec<_>>().join("\n");
        let is_right = ended.status == 0 && text.lines().any(|said| said.trim() == "No Errors");
        assert!(is_right, "{line}: jobs {jobs:?}: status {}: {text}{}", ended.status, ended.stderr);
        jobs.iter().for_each(|job| drop(cluster.coppice(&["checkpoints", "--delete", job])));
        if is_restarted {
            break;
        }
    }
    made
}

#[test]
fn mpichs_own_tests_go_on_from_their_checkpoints() {
    let seed = told("COPPICE_SEED").unwrap_or(0);
    println!("COPPICE_SEED={seed}");
    let begun = Instant::now();
    let end = told("COPPICE_SECONDS").map(|seconds| begun + Duration::from_secs(seconds));
    let list = include_str!("../../../guests/mpi/fast.txt");
    // A file is not again what it was at the checkpoint, and one that is removed at the end does not come back.
    let lines: Vec<&str> = list.lines().filter(|line| !line.starts_with('#') && !line.starts_with("io/")).collect();
    let first = usize::try_from(seed % lines.len() as u64).expect("few");
    let cluster = mpi::cluster(8);
    let mut count = 0;
    for line in lines.iter().cycle().skip(first).take(if end.is_some() { usize::MAX } else { PROGRAMS }) {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let made = run(&cluster, line);
        count += 1;
        println!("{line}: {made} checkpoints, {:.0} s", begun.elapsed().as_secs_f64());
    }
    println!("{count} programs in {:.0} s", begun.elapsed().as_secs_f64());
}
