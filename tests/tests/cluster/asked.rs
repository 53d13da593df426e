//! Programs that ask for checkpoints of their own jobs, and are told when there are.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

use crate::checkpoint::{checkpoint, end, restart, said, start, wait_for};

/// Names of the checkpoints of a job, in order.
fn listed(cluster: &Cluster, job: &str) -> Vec<String> {
    let listed = cluster.json(&["checkpoints", job]);
    let names = listed.as_array().expect("a list").iter().map(|one| one["checkpoint"].as_str().expect("a name"));
    names.map(str::to_owned).collect()
}

/// One is made that nobody else has asked for. The program is told of it and of others, also where it goes on from it.
#[test]
fn a_program_asks_for_one_and_goes_on_from_it() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--nmr", "0"]);
    let path = program("asks", Toolchain::Glibc);
    let job = start(&cluster, &[&path.to_string_lossy(), "1000000"]);
    wait_for(&cluster, &job, "round 3\n");
    assert!(said(&cluster, &job).starts_with("at first asked 0 made 0\ntold asked 1 made 1\nround 0\n"));
    let asked = format!("{job}@1");
    assert_eq!(listed(&cluster, &job), [asked.as_str()]);
    end(&cluster, &job);
    // It stood in poll when that was made.
    let next = restart(&cluster, &asked, &[]);
    wait_for(&cluster, &next, "round 3\n");
    assert!(said(&cluster, &next).starts_with("told asked 1 made 1\nround 0\n"), "{}", said(&cluster, &next));
    let name = checkpoint(&cluster, &next);
    assert_eq!(listed(&cluster, &next), [name]);
    end(&cluster, &next);
}

/// Ranks of several nodes that ask together have one made of all of them.
#[test]
fn ranks_that_ask_together_are_told_of_one() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--nmr", "0"]);
    let path = program("asks", Toolchain::Musl);
    let ran = cluster.run(&["-n", "4", "--ranks-per-node", "2", &path.to_string_lossy(), "20"]).success();
    assert_eq!(ran.text().matches("told asked ").count(), 4, "{}", ran.text());
    let job = cluster.last_job()["job"].to_string();
    let names = listed(&cluster, &job);
    assert!((1..=2).contains(&names.len()), "{names:?}");
}
