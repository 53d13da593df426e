//! Programs built with other MPIs than those of the other tests: how their ranks find each other, and what else they
//! ask of those who start them, is their own.
//!
//! `cargo xtask test` finds that ranks of two of them find each other. All else is run when it is asked for, with
//! `--ignored`, as it takes minutes to build or to run; what has to be built before is with `#[ignore]`.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

/// Path of a program of `tests/guests/mpi`.
fn guest(name: &str, toolchain: Toolchain) -> String {
    program(name, toolchain).to_string_lossy().into_owned()
}

/// Nodes with room for several ranks of any of them.
fn cluster(nodes: u32, more: &[&str]) -> Cluster {
    Cluster::up_with(&[&["--nodes", &nodes.to_string(), "--memory", "384M"], more].concat())
}

/// What has a result comes to it, wherever ranks are, and with the picture that a serial run draws.
#[track_caller]
fn results_are_right(cluster: &Cluster, toolchain: Toolchain, ranks: u32, per_node: u32) {
    let (n, each) = (ranks.to_string(), per_node.to_string());
    let run = |name: &str, arguments: &[&str]| {
        let program = guest(name, toolchain);
        let options = ["-n", &n, "--ranks-per-node", &each, &program];
        cluster.run(&[&options, arguments].concat()).success().text()
    };
    let text = run("ring", &[]);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<_> =
        (0..ranks).map(|rank| format!("rank {rank} of {ranks} on node{}: 10 rounds", rank / per_node)).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert_eq!(run("allreduce", &[]), format!("allreduce: {ranks} ranks agree\n"));
    assert_eq!(run("onesided", &[]), format!("onesided: {ranks} ranks agree\n"));
    assert!(run("pingpong", &["20", "3"]).contains("mpi-half-round-trip"));
    assert!(run("io", &["/words"]).ends_with(" bytes right\n"));
    assert!(run("halo", &["96", "60", "/heat.ppm"]).ends_with("as computed serially\n"));
}

/// Ranks of which all threads talk at once, and of which one does: several on a core, or with two cores for each rank.
/// There it is not said on how many they are, as libraries have threads that take their places among them.
#[track_caller]
fn threads_are_right(cluster: &Cluster, toolchain: Toolchain, on_a_core: bool) {
    let hybrid = guest("hybrid", toolchain);
    let (ranks, per_node, threads, cores, total) =
        if on_a_core { ("4", "2", "3", "1 cores", "79534888") } else { ("2", "1", "2", "", "74095619") };
    for (how, result) in [("multiple", "agree".to_owned()), ("funneled", format!("agree on {total}"))] {
        let ran = cluster.run(&["-n", ranks, "--ranks-per-node", per_node, &hybrid, how, threads]).success();
        let text = ran.text();
        let said = format!("{how}: {ranks} ranks of {threads} threads on {cores}");
        assert!(text.starts_with(&said) && text.ends_with(&format!(" {result}\n")), "{text}");
    }
}

/// What `MPI_Abort` is called with is what the job ends with; a rank that crashes, or leaves, ends it, too.
#[track_caller]
fn ends_reach_the_user(cluster: &Cluster, toolchain: Toolchain) {
    let ran = cluster.run(&["-n", "4", "--ranks-per-node", "2", &guest("abort", toolchain), "2", "7"]);
    assert_eq!((ran.status, ran.text().as_str()), (7, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("rank 2 aborted the job with code 7"), "{}", ran.stderr);
    for (how, said) in [
        ("signal", "rank 1 on node 1 was ended by signal 11 without finalizing MPI"),
        ("exit", "rank 1 on node 1 exited with status 4 without finalizing MPI"),
    ] {
        let ran = cluster.run(&["-n", "2", "--nodes-list", "0,1", &guest("crash", toolchain), "1", how]);
        assert_ne!(ran.status, 0, "{how}: {}", ran.text());
        assert!(ran.stderr.contains(said), "{how}: {}", ran.stderr);
        assert_eq!(ran.text(), "", "{how}");
    }
}

/// All of that, with a node that has three ranks on two cores.
#[track_caller]
fn everything_is_right(toolchain: Toolchain) {
    let cluster = cluster(4, &["--cores", "2"]);
    for (ranks, per_node) in [(4, 1), (8, 3)] {
        results_are_right(&cluster, toolchain, ranks, per_node);
    }
    threads_are_right(&cluster, toolchain, true);
    ends_reach_the_user(&cluster, toolchain);
}

/// All of that on two nodes, one rank on each or one on each of their cores.
#[track_caller]
fn two_nodes_are_enough(toolchain: Toolchain) {
    let cluster = cluster(2, &["--cores", "2"]);
    for (ranks, per_node) in [(2, 1), (4, 2)] {
        results_are_right(&cluster, toolchain, ranks, per_node);
    }
    threads_are_right(&cluster, toolchain, false);
    ends_reach_the_user(&cluster, toolchain);
}

/// As many nodes as this class of machine carries, with little memory. Ranks that poll keep all of its cores busy with
/// waiting; then what takes most turns is left out.
#[track_caller]
fn thirty_two_nodes_are_right(toolchain: Toolchain, memory: &str, polls: bool) {
    let cluster = Cluster::up_with(&["--nodes", "32", "--memory", memory]);
    let run = |name: &str, arguments: &[&str]| {
        let program = guest(name, toolchain);
        cluster.run(&[&["-n", "32", &program], arguments].concat())
    };
    let text = run("ring", &["2"]).success().text();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<_> = (0..32).map(|rank| format!("rank {rank} of 32 on node{rank}: 2 rounds")).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert_eq!(run("allreduce", &["1"]).success().text(), "allreduce: 32 ranks agree\n");
    if !polls {
        assert_eq!(run("onesided", &[]).success().text(), "onesided: 32 ranks agree\n");
        assert!(run("io", &["/words"]).success().text().ends_with(" bytes right\n"));
    }
    let ran = run("abort", &["31", "7"]);
    assert_eq!((ran.status, ran.text().as_str()), (7, ""), "{}", ran.stderr);
}

/// Ranks of two nodes find each other.
#[track_caller]
fn ranks_find_each_other(cluster: &Cluster, toolchain: Toolchain) {
    let run = |name: &str| cluster.run(&["-n", "2", &guest(name, toolchain)]).success().text();
    let text = run("ring");
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0 of 2 on node0: 10 rounds", "rank 1 of 2 on node1: 10 rounds"]);
    assert_eq!(run("allreduce"), "allreduce: 2 ranks agree\n");
}

#[test]
fn ranks_with_pmi_2_find_each_other() {
    ranks_find_each_other(&cluster(2, &[]), Toolchain::MpichPmi2);
}

#[test]
#[ignore = "cargo xtask test runs it when Open MPI is built"]
fn ranks_of_open_mpi_find_each_other() {
    let cluster = cluster(2, &[]);
    ranks_find_each_other(&cluster, Toolchain::OpenMpi);
    // By PMIx nobody starts more ranks: who asks for some is told so, and the job ends as with any error of MPI's.
    let ran = cluster.run(&["-n", "2", &guest("family", Toolchain::OpenMpi), "together", "2", "1"]);
    assert_ne!(ran.status, 0, "{}", ran.text());
    let said = "(it wanted to spawn ranks by PMIx_Spawn, which is not supported)";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

#[test]
#[ignore = "takes a minute"]
fn mpich_with_pmi_2() {
    everything_is_right(Toolchain::MpichPmi2);
}

/// With a core for each rank: those poll while they wait.
#[test]
#[ignore = "needs cargo xtask mpich --pmi pmix"]
fn mpich_with_pmix() {
    results_are_right(&cluster(4, &[]), Toolchain::MpichPmix, 4, 1);
}

#[test]
#[ignore = "ranks that share cores poll, and take minutes"]
fn mpich_with_pmix_and_ranks_that_share_cores() {
    everything_is_right(Toolchain::MpichPmix);
}

/// With a core for each rank: those of Open MPI poll while they wait.
#[test]
#[ignore = "needs cargo xtask openmpi"]
fn open_mpi() {
    results_are_right(&cluster(4, &[]), Toolchain::OpenMpi, 4, 1);
}

#[test]
#[ignore = "ranks of Open MPI that share cores poll, and take minutes"]
fn open_mpi_with_ranks_that_share_cores() {
    everything_is_right(Toolchain::OpenMpi);
}

#[test]
#[ignore = "takes a minute"]
fn mpich_with_pmi_2_on_2_nodes() {
    two_nodes_are_enough(Toolchain::MpichPmi2);
}

#[test]
#[ignore = "needs cargo xtask mpich --pmi pmix"]
fn mpich_with_pmix_on_2_nodes() {
    two_nodes_are_enough(Toolchain::MpichPmix);
}

#[test]
#[ignore = "needs cargo xtask openmpi"]
fn open_mpi_on_2_nodes() {
    two_nodes_are_enough(Toolchain::OpenMpi);
}

#[test]
#[ignore = "32 nodes take a minute"]
fn mpich_on_32_nodes() {
    thirty_two_nodes_are_right(Toolchain::Mpi, "64M", false);
}

#[test]
#[ignore = "takes a minute"]
fn mpich_with_pmi_2_on_32_nodes() {
    thirty_two_nodes_are_right(Toolchain::MpichPmi2, "64M", false);
}

#[test]
#[ignore = "needs cargo xtask mpich --pmi pmix"]
fn mpich_with_pmix_on_32_nodes() {
    thirty_two_nodes_are_right(Toolchain::MpichPmix, "128M", true);
}

#[test]
#[ignore = "needs cargo xtask openmpi"]
fn open_mpi_on_32_nodes() {
    thirty_two_nodes_are_right(Toolchain::OpenMpi, "192M", true);
}

/// `MPI_Publish_name` and `MPI_Lookup_name`, and then a call at the port that was found.
#[track_caller]
fn published_ports_are_found(toolchain: Toolchain) {
    let cluster = cluster(4, &[]);
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
#[ignore = "takes a minute"]
fn published_ports_are_found_and_called_with_pmi_2() {
    published_ports_are_found(Toolchain::MpichPmi2);
}

/// MPICH with PMIx has no names to publish.
#[test]
#[ignore = "needs cargo xtask openmpi"]
fn published_ports_are_found_and_called_with_open_mpi() {
    published_ports_are_found(Toolchain::OpenMpi);
}

/// One frame in a hundred is lost on every link, and each takes 5 ms, in both directions.
#[track_caller]
fn bad_links_change_nothing(toolchain: Toolchain) {
    let cluster = cluster(4, &["--loss", "1%", "--latency", "5ms"]);
    results_are_right(&cluster, toolchain, 4, 1);
}

#[test]
#[ignore = "takes a minute"]
fn bad_links_change_nothing_with_pmi_2() {
    bad_links_change_nothing(Toolchain::MpichPmi2);
}

#[test]
#[ignore = "needs cargo xtask mpich --pmi pmix"]
fn bad_links_change_nothing_with_pmix() {
    bad_links_change_nothing(Toolchain::MpichPmix);
}

#[test]
#[ignore = "needs cargo xtask openmpi"]
fn bad_links_change_nothing_with_open_mpi() {
    bad_links_change_nothing(Toolchain::OpenMpi);
}
