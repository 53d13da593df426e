//! Programs on the network: between nodes and within one, many sockets at once, and what is not theirs.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

use crate::hostile::assert_unharmed;

const MIB: u64 = 1 << 20;

/// Every byte is looked at where it comes; connections are made and waited for as MPICH does.
#[test]
fn two_nodes_exchange_bytes() {
    let cluster = Cluster::up(2);
    let path = program("exchange", Toolchain::Musl);
    let bytes = (64 * MIB).to_string();
    let ran = cluster.run(&["-n", "2", "--nodes-list", "0,1", &path.to_string_lossy(), &bytes]).success();
    let text = ran.text();
    for line in ["accepted one of 10.128.0.2", "connected to 10.128.0.1"] {
        assert!(text.contains(line), "{text}");
    }
    for rank in 0..2 {
        assert!(text.contains(&format!("rank {rank}: {bytes} bytes each way")), "{text}");
    }
}

/// What the calls say, down to the events and errors, is what they say on Linux.
#[test]
fn calls_within_one_program_are_as_on_the_host() {
    let cluster = Cluster::up(1);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let path = program("sockets", toolchain);
        let native = host::run::<&str>(cluster.root(), &path, &[]);
        let on_node = cluster.run(&[&*path.to_string_lossy()]);
        assert_eq!(on_node.text(), native.text(), "{toolchain:?}: {}", on_node.stderr);
        assert_eq!((on_node.status, native.status), (0, 0), "{toolchain:?}: {}", on_node.stderr);
    }
}

#[test]
fn a_thousand_sockets_under_epoll_and_under_poll() {
    let cluster = Cluster::up(2);
    let path = program("many_sockets", Toolchain::Glibc);
    let ran = cluster.run(&["-n", "2", "--nodes-list", "0,1", &path.to_string_lossy(), "1000"]).success();
    assert_eq!(ran.text(), "epoll: 1000 sockets\npoll: 1000 sockets\n");
}

/// Nobody answers at the cluster's own ports, wherever they are; who calls there harms nothing.
#[test]
fn the_clusters_ports_are_out_of_reach() {
    let cluster = Cluster::up(2);
    let path = program("hostile_sockets", Toolchain::Glibc);
    let path = path.to_string_lossy();
    let stations = ["127.0.0.1", "0.0.0.0", "10.128.0.1", "10.64.0.2", "10.0.0.1"];
    let ran = cluster.run(&[&["--nodes-list", "0", &path, "forbidden"], &stations[..]].concat()).success();
    let bind = "bind: Permission denied\n".repeat(4);
    assert_eq!(ran.text(), format!("refused 1500, others 0\n{bind}"));
    assert_unharmed(&cluster, "calls at the cluster's ports");
}

/// Taking all there is of something is answered with an error, and the node goes on.
#[test]
fn exhaustion_is_an_error_and_not_the_nodes_end() {
    let cluster = Cluster::up(2);
    let path = program("hostile_sockets", Toolchain::Glibc);
    let path = path.to_string_lossy();
    for (nodes, what, expected) in [
        // First, while the kernel has taken little memory for itself.
        ("0", &["memory"][..], "a few, then there is no memory\n"),
        ("0", &["descriptors"], "many sockets, then: Too many open files\n"),
        ("0", &["connections"], "many connections, then: Too many open files\n"),
        // To a node of the job that wants none, as its rank has ended.
        ("0,1", &["peer", "10.128.0.2"], "many connections, then: Too many open files\n"),
    ] {
        let ranks = nodes.split(',').count().to_string();
        let ran = cluster.run(&[&["-n", &ranks, "--nodes-list", nodes, &*path], what].concat()).success();
        assert_eq!(ran.text(), expected, "{what:?}: {}", ran.stderr);
        assert_unharmed(&cluster, what[0]);
    }
}
