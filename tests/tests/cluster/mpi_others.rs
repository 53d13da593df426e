//! Programs built with other MPIs than those of the other tests: how their ranks find each other, and what else they
//! ask of those who start them, is their own.
//!
//! Each takes its minutes to build, so most are run when they are asked for: `cargo xtask mpich --pmi pmi2`, `cargo
//! xtask openmpi`, then these with `--ignored`.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

/// Path of a program of `tests/guests/mpi`.
fn guest(name: &str, toolchain: Toolchain) -> String {
    program(name, toolchain).to_string_lossy().into_owned()
}

/// Three ranks on a node that has two cores, and two on the last; then ranks of which all threads talk at once.
#[track_caller]
fn ranks_and_threads_are_right(cluster: &Cluster, toolchain: Toolchain) {
    let ring = guest("ring", toolchain);
    let ran = cluster.run(&["-n", "8", "--ranks-per-node", "3", &ring]).success();
    let text = ran.text();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let expected: Vec<_> = (0..8).map(|rank| format!("rank {rank} of 8 on node{}: 10 rounds", rank / 3)).collect();
    assert_eq!(lines, expected, "{}", ran.stderr);
    let hybrid = guest("hybrid", toolchain);
    let ran = cluster.run(&["-n", "4", "--ranks-per-node", "2", &hybrid, "multiple", "3"]).success();
    assert_eq!(ran.text(), "multiple: 4 ranks of 3 threads on 1 cores agree\n");
}

/// What `MPI_Abort` is called with is what the job ends with.
#[track_caller]
fn abort_reaches_the_user(cluster: &Cluster, toolchain: Toolchain) {
    let ran = cluster.run(&["-n", "4", "--ranks-per-node", "2", &guest("abort", toolchain), "2", "7"]);
    assert_eq!((ran.status, ran.text().as_str()), (7, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("rank 2 aborted the job with code 7"), "{}", ran.stderr);
}

#[test]
#[ignore = "needs cargo xtask mpich --pmi pmi2"]
fn mpich_with_pmi_2() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--memory", "128M", "--cores", "2"]);
    ranks_and_threads_are_right(&cluster, Toolchain::MpichPmi2);
    abort_reaches_the_user(&cluster, Toolchain::MpichPmi2);
}

/// `MPI_Publish_name` and `MPI_Lookup_name`, and then a call at the port that was found.
#[track_caller]
fn published_ports_are_found(toolchain: Toolchain) {
    let cluster = Cluster::up_with(&["--nodes", "4", "--memory", "128M"]);
    let published = guest("published", toolchain);
    for (ranks, per_node) in [(4, "1"), (6, "2")] {
        let ran = cluster.run(&["-n", &ranks.to_string(), "--ranks-per-node", per_node, &published]).success();
        assert_eq!(ran.text(), format!("published: {ranks} ranks found each other\n"), "{}", ran.stderr);
    }
}

#[test]
fn published_ports_are_found_and_called() {
    published_ports_are_found(Toolchain::Mpi);
}

#[test]
#[ignore = "needs cargo xtask mpich --pmi pmi2"]
fn published_ports_are_found_and_called_with_pmi_2() {
    published_ports_are_found(Toolchain::MpichPmi2);
}

/// What has a result comes to it, with several ranks on a node, and with the picture that a serial run draws.
#[test]
#[ignore = "needs cargo xtask openmpi"]
fn open_mpi() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--memory", "256M"]);
    for (ranks, per_node) in [("4", "1"), ("8", "2")] {
        let run = |name: &str, arguments: &[&str]| {
            let program = guest(name, Toolchain::OpenMpi);
            let options = ["-n", ranks, "--ranks-per-node", per_node, &program];
            cluster.run(&[&options, arguments].concat()).success().text()
        };
        let text = run("ring", &[]);
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        let node = |rank: u32| rank / per_node.parse::<u32>().expect("a number");
        let count = ranks.parse().expect("a number");
        let expected = (0..count).map(|rank| format!("rank {rank} of {ranks} on node{}: 10 rounds", node(rank)));
        assert_eq!(lines, expected.collect::<Vec<_>>());
        assert_eq!(run("allreduce", &[]), format!("allreduce: {ranks} ranks agree\n"));
        assert_eq!(run("onesided", &[]), format!("onesided: {ranks} ranks agree\n"));
        assert!(run("pingpong", &["20", "3"]).contains("mpi-half-round-trip"));
        assert!(run("io", &["/words"]).ends_with(" bytes right\n"));
        assert!(run("halo", &["96", "60", "/heat.ppm"]).ends_with("as computed serially\n"));
    }
    abort_reaches_the_user(&cluster, Toolchain::OpenMpi);
}
