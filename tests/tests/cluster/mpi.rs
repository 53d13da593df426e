//! Unmodified static MPICH programs on nodes: right results, whatever the number of ranks and where they are.

use coppice_tests::cluster::Ran;
use coppice_tests::guests::{Toolchain, mpich, program};
use coppice_tests::{Cluster, host};

/// Words of the file that `io.c` makes with that many ranks.
fn words(ranks: u32) -> Vec<u8> {
    (0..2 * 16 * 1024 * ranks).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

pub(crate) fn cluster(nodes: u32) -> Cluster {
    Cluster::up_with(&["--nodes", &nodes.to_string(), "--memory", "128M"])
}

/// Path of a program of `tests/guests/mpi`.
pub(crate) fn guest(name: &str) -> String {
    program(name, Toolchain::Mpi).to_string_lossy().into_owned()
}

/// Runs a program of ours with these options of `run`.
#[track_caller]
pub(crate) fn run(cluster: &Cluster, options: &[&str], name: &str, arguments: &[&str]) -> Ran {
    let path = guest(name);
    cluster.run(&[options, &[path.as_str()], arguments].concat())
}

/// Runs every program that has a result, and checks it.
#[track_caller]
pub(crate) fn everything_is_right(cluster: &Cluster, ranks: u32, ranks_per_node: u32) {
    let (n, per_node) = (ranks.to_string(), ranks_per_node.to_string());
    let mut options = vec!["-n", n.as_str()];
    if ranks_per_node > 1 {
        options.extend(["--ranks-per-node", per_node.as_str()]);
    }
    let said = |name: &str, arguments: &[&str]| run(cluster, &options, name, arguments).success().text();

    let text = said("ring", &[]);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    // As the job numbers its nodes, wherever they are.
    let node = |rank: u32| rank / ranks_per_node;
    let expected: Vec<_> =
        (0..ranks).map(|rank| format!("rank {rank} of {ranks} on node{}: 10 rounds", node(rank))).collect();
    assert_eq!(lines, expected);
    assert_eq!(said("allreduce", &[]), format!("allreduce: {ranks} ranks agree\n"));
    assert_eq!(said("onesided", &[]), format!("onesided: {ranks} ranks agree\n"));
    let text = said("pingpong", &["50", "3"]);
    assert!(text.contains("mpi-half-round-trip") && text.contains("mpi-bandwidth"), "{text}");

    assert_eq!(said("io", &["/words"]), format!("io: {} bytes right\n", words(ranks).len()));
    assert!(std::fs::read(cluster.root().join("words")).expect("the file") == words(ranks));

    assert_eq!(said("io_shared", &["/records"]), "io_shared: all right\n");

    let text = said("halo", &["96", "60", "/heat.ppm"]);
    assert!(text.starts_with("halo: 96 x 96 points in ") && text.ends_with("as computed serially\n"), "{text}");
    // The same program without MPI's starter, on this host, draws the same picture.
    let _ = host::run(cluster.root(), guest("halo").as_ref(), &["96", "60", "native.ppm"]).success();
    let picture = |name: &str| std::fs::read(cluster.root().join(name)).expect("a picture");
    assert!(picture("heat.ppm").starts_with(b"P6\n96 96\n255\n"));
    assert!(picture("heat.ppm") == picture("native.ppm"));
}

#[test]
fn programs_on_2_4_and_8_nodes() {
    let cluster = cluster(8);
    for nodes in [2, 4, 8] {
        everything_is_right(&cluster, nodes, 1);
    }
}

/// Ranks of a node talk over its loopback, the others over the network; the last node may have fewer.
#[test]
fn programs_with_2_ranks_on_a_node() {
    let cluster = cluster(4);
    for ranks in [4, 7, 8] {
        everything_is_right(&cluster, ranks, 2);
    }
}

/// A part of MPICH's own tests; `cargo xtask mpi-suite` runs all of those directories.
#[test]
fn mpichs_own_tests() {
    let cluster = cluster(8);
    let list = include_str!("../../guests/mpi/fast.txt");
    let directory = mpich().join("../mpich-tests/test/mpi");
    let mut failed = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, ranks, arguments @ ..] = words.as_slice() else { panic!("not “PROGRAM RANKS …”: {line}") };
        let path = directory.join(name);
        assert!(path.exists(), "no {}: build it with `cargo xtask mpi-suite`", path.display());
        let path = path.to_string_lossy();
        let ran = cluster.run(&[&["-n", ranks, "--timeout", "100", &path], arguments].concat());
        if ran.status != 0 || !ran.text().lines().any(|said| said.trim() == "No Errors") {
            failed.push(format!("{line}: status {}: {}{}", ran.status, ran.text(), ran.stderr));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
