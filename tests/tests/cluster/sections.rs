//! Long calls and large processes: the node goes on with everything else meanwhile.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

/// A number of the program's.
#[track_caller]
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in: {text}"))
}

#[test]
fn another_rank_goes_on_while_one_maps_and_unmaps_a_lot_and_ends() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", "2G"]);
    let path = program("sections", Toolchain::Glibc);
    let path = path.to_str().expect("a path");
    let text = cluster.run(&["-n", "2", "--ranks-per-node", "2", path, "beside", "1024"]).success().text();
    // 262,144 pages are some thousand steps; others have their turns in between.
    for phase in ["populate", "unmap", "end"] {
        let calls = number(&text, &format!("{phase}-calls"));
        assert!(calls >= 5, "{calls} calls while the other was at {phase}: {text}");
    }
    let nodes = cluster.json(&["nodes"]);
    assert_eq!(nodes[0]["generation"], 1, "the node was taken for dead");
}
