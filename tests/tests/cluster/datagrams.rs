//! Programs that talk by datagrams.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

#[test]
fn datagrams_are_as_on_linux() {
    let cluster = Cluster::up(2);
    for toolchain in [Toolchain::Musl, Toolchain::Glibc] {
        let path = program("datagrams", toolchain);
        let ran = cluster.run(&["-n", "2", "--nodes-list", "0,1", &path.to_string_lossy()]).success();
        let text = ran.text();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["rank 0: datagrams are as on Linux", "rank 1: datagrams are as on Linux"]);
    }
}
