//! Programs on the network: between nodes and within one, many sockets at once, and what is not theirs.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

const MIB: u64 = 1 << 20;

/// Every byte is looked at where it comes; connections are made and waited for as MPICH does.
#[test]
fn two_nodes_exchange_bytes() {
    let cluster = Cluster::up(2);
    let path = program("exchange", Toolchain::Musl);
    let bytes = (64 * MIB).to_string();
    let ran = cluster.run(&["-n", "2", "--nodes-list", "0,1", &path.to_string_lossy(), &bytes]).success();
    let text = ran.text();
    for line in ["accepted one of 10.64.0.2", "connected to 10.64.0.1"] {
        assert!(text.contains(line), "{text}");
    }
    for rank in 0..2 {
        assert!(text.contains(&format!("rank {rank}: {bytes} bytes each way")), "{text}");
    }
}
