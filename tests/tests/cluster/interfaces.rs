//! The network's interfaces as programs find them: getifaddrs(3) of both C libraries, and busybox's `ip`, which speaks
//! netlink by itself.

use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::{Cluster, host};

/// What a rank says that tells of both its interfaces, with `address` that of the network's.
fn both(address: &str) -> String {
    format!(
        "lo 127.0.0.1 mask 255.0.0.0 broadcast none flags 49\n\
         eth0 {address} mask 255.128.0.0 broadcast 10.255.255.255 flags 43\n"
    )
}

#[test]
fn getifaddrs_tells_of_both_interfaces() {
    let cluster = Cluster::up(2);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let path = program("interfaces", toolchain);
        let path = &*path.to_string_lossy();
        for (node, address) in [("0", "10.128.0.1"), ("1", "10.128.0.1")] {
            // A job's first node, whichever it is.
            let ran = cluster.run(&["--nodes-list", node, path, "all"]).success();
            assert_eq!(ran.text(), both(address), "{toolchain:?} on node {node}");
        }
        let ran = cluster.run(&["-n", "2", "--label", path, "all"]).success();
        let of_second: Vec<_> =
            ran.text().lines().filter_map(|line| line.strip_prefix("1: ")).map(str::to_owned).collect();
        assert_eq!(of_second.join("\n") + "\n", both("10.128.0.2"), "{toolchain:?}");
    }
}

/// Every word of what does not depend on the machine, errors included.
#[test]
fn netlink_sockets_answer_as_on_the_host() {
    let cluster = Cluster::up(1);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let path = program("interfaces", toolchain);
        let native = host::run::<&str>(cluster.root(), &path, &[]).success();
        let on_node = cluster.run(&[&*path.to_string_lossy()]).success();
        for (here, there) in on_node.text().lines().zip(native.text().lines()) {
            assert_eq!(here, there, "{toolchain:?}");
        }
        assert_eq!(on_node.text(), native.text(), "{toolchain:?}");
    }
}

#[test]
fn busybox_lists_addresses_and_routes() {
    let cluster = Cluster::up(1);
    let addresses = cluster.run(&[BUSYBOX, "ip", "-o", "-4", "addr"]).success().text();
    let words: Vec<Vec<&str>> = addresses.lines().map(|line| line.split_whitespace().collect()).collect();
    let [lo, eth0] = &words[..] else { panic!("{addresses}") };
    assert_eq!(lo[..6], ["1:", "lo", "inet", "127.0.0.1/8", "scope", "host"], "{addresses}");
    let network = ["2:", "eth0", "inet", "10.128.0.1/9", "brd", "10.255.255.255", "scope", "global"];
    assert_eq!(eth0[..8], network, "{addresses}");
    let links = cluster.run(&[BUSYBOX, "ip", "link"]).success().text();
    for part in
        ["1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536", "2: eth0: <BROADCAST,UP,LOWER_UP> mtu ", "02:00:0a:80:00:01"]
    {
        assert!(links.contains(part), "{links}");
    }
    let routes = cluster.run(&[BUSYBOX, "ip", "route"]).success().text();
    assert_eq!(routes.trim_end(), "10.128.0.0/9 dev eth0 scope link  src 10.128.0.1");
    // Nothing can be changed.
    assert_ne!(cluster.run(&[BUSYBOX, "ip", "link", "set", "eth0", "down"]).status, 0);
}
