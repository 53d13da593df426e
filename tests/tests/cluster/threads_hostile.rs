//! Threads that mean harm: the node survives all of them and runs the next job at once.

use coppice_tests::cluster::finish_child;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::{Cluster, Waiting};

use crate::guests::compare;
use crate::hostile::assert_unharmed;
use crate::threads::cluster_of;

/// Threads that a process may have.
const THREADS_MAX: u32 = 512;

fn path(toolchain: Toolchain) -> String {
    program("hostile_threads", toolchain).to_string_lossy().into_owned()
}

#[test]
fn threads_come_to_a_limit() {
    for cores in [1, 4] {
        let cluster = cluster_of(1, cores);
        for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
            let ran = cluster.run(&[&path(toolchain), "bomb"]).success();
            let round = format!("threads {THREADS_MAX}, then: Resource temporarily unavailable\n");
            assert_eq!(ran.text(), round.repeat(2), "{cores} cores, {toolchain:?}");
        }
        // Of two ranks each has as many.
        let ran = cluster.run(&["-n", "2", "--ranks-per-node", "2", &path(Toolchain::Musl), "bomb"]).success();
        assert_eq!(ran.text().matches(&format!("threads {THREADS_MAX}, then: Resource")).count(), 4, "{}", ran.text());
        assert_unharmed(&cluster, "as many threads as there may be");
    }
}

/// Numbers of the jobs that are in that state, the oldest first.
fn jobs(cluster: &Cluster, state: &str) -> Vec<u64> {
    let jobs = cluster.json(&["jobs"]);
    let mut numbers: Vec<u64> = jobs
        .as_array()
        .into_iter()
        .flatten()
        .filter(|job| job["state"] == state)
        .filter_map(|job| job["job"].as_u64())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// All cores are taken, or hundreds of threads wait for ever; a job that wants the same node is already there when the
/// kill comes, sometimes of the same program, whose table is then retained.
#[test]
fn busy_cores_and_sleepers_end_when_they_are_killed() {
    for cores in [1, 2, 4] {
        let cluster = cluster_of(1, cores);
        let path = path(Toolchain::Glibc);
        for (what, threads, line) in [("spin", 1, "spinning"), ("spin", 8, "spinning"), ("block", 400, "blocked")] {
            for next in [[BUSYBOX, "true", ""], [&path, "bomb", "0"]] {
                let waiting = Waiting::start(&cluster, &[&path, what, &threads.to_string()], line);
                let running = jobs(&cluster, "running");
                let mut command = cluster.command(&[&["run", "--quiet"], &next[..]].concat());
                let child = command
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::piped())
                    .spawn()
                    .expect("start");
                let _ = cluster.coppice(&["kill", &running[0].to_string()]).success();
                assert_eq!(waiting.end().status, 143, "{what} {threads} on {cores} cores");
                let _ = finish_child(child, "the next job").success();
            }
        }
        assert_unharmed(&cluster, "threads that were killed");
    }
}

#[test]
fn what_others_run_on_is_taken_away() {
    for cores in [1, 2, 4] {
        let cluster = cluster_of(1, cores);
        for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
            for what in ["unmap-stacks", "unmap-code", "unmap-all"] {
                let ran = cluster.run(&[&path(toolchain), what]);
                assert_eq!(ran.text(), format!("{what}\n"), "{}", ran.stderr);
                assert_eq!(ran.status, 139, "{what} on {cores} cores: {}", ran.stderr);
            }
        }
        assert_unharmed(&cluster, "memory that was taken away");
    }
}

/// The end of the process comes while its threads begin, end, fault, wait and make calls.
#[test]
fn ends_race_with_everything() {
    for cores in [1, 2, 4] {
        let cluster = cluster_of(1, cores);
        for seed in 0..12 {
            let toolchain = [Toolchain::Glibc, Toolchain::Musl][seed % 2];
            let ran = cluster.run(&[&path(toolchain), "exit-races", &seed.to_string()]);
            assert_eq!((ran.status, ran.text().as_str()), (46, ""), "seed {seed}, {cores} cores: {}", ran.stderr);
        }
        assert_unharmed(&cluster, "races with the end");
    }
}

#[test]
fn wild_flags_lists_and_addresses() {
    for cores in [1, 2] {
        let cluster = cluster_of(1, cores);
        for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
            compare(&cluster, "hostile_threads", toolchain, &["flags"]);
            compare(&cluster, "hostile_threads", toolchain, &["wild"]);
        }
        assert_unharmed(&cluster, "wild addresses");
    }
}
