//! MPI between nodes and OpenMP inside: one thread of a rank talks, or all of them at the same time.

use coppice_tests::guests::{Toolchain, program};

use crate::threads::cluster_of;

#[test]
fn openmp_and_mpi_on_2_nodes_of_2_cores() {
    let cluster = cluster_of(2, 2);
    let path = program("hybrid", Toolchain::MpiOpenMp);
    let path = path.to_str().expect("a path");
    // Ranks, ranks of a node, threads of each and their cores, what the fields add up to in double precision.
    for (ranks, per_node, threads, cores, total) in
        [("2", "1", "2", 2, 74_095_619), ("2", "1", "4", 2, 74_095_619), ("4", "2", "3", 1, 79_534_888)]
    {
        let run = |how: &str| {
            let ran = cluster.run(&["-n", ranks, "--ranks-per-node", per_node, path, how, threads]).success();
            ran.text()
        };
        let who = format!("{ranks} ranks of {threads} threads on {cores} cores");
        assert_eq!(run("multiple"), format!("multiple: {who} agree\n"));
        assert_eq!(run("funneled"), format!("funneled: {who} agree on {total}\n"));
    }
}
