//! What the nodes of a job are called, and that their addresses are found by name on every one of them.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

#[test]
fn every_node_of_a_job_is_found_by_its_name() {
    let cluster = Cluster::up(2);
    let etc = cluster.root().join("etc");
    std::fs::create_dir_all(&etc).expect("directory");
    std::fs::write(etc.join("hosts"), "10.9.9.9 node0\n").expect("file");
    std::fs::write(etc.join("other"), "the root's\n").expect("file");
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let path = program("names", toolchain);
        let ran = cluster.run(&["-n", "2", path.to_str().expect("a path"), "node1", "node0", "localhost"]).success();
        let text = ran.text();
        for (node, address) in [(0, "10.128.0.1"), (1, "10.128.0.2")] {
            let name = format!("node{node}");
            assert_eq!(text.matches(&format!("I am {name}, {name}, {name}\n")).count(), 1, "{toolchain:?}: {text}");
            let line = format!("{name}: {address}:80 is {name}\n");
            assert_eq!(text.matches(&line).count(), 3, "{toolchain:?}: own name and twice by argument: {text}");
        }
        assert_eq!(text.matches("localhost: 127.0.0.1:80 is localhost\n").count(), 2, "{toolchain:?}: {text}");
    }
    let ran = cluster.run(&[coppice_tests::guests::BUSYBOX, "cat", "/etc/other", "/etc/hostname"]).success();
    assert_eq!(ran.text(), "the root's\nnode0\n");
}
