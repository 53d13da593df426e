//! Small jobs of which nodes die.

use coppice_protocol::limits::PMI_WATCH_NS;

use super::{Heard, Options, run};
use crate::startup::Costs;

fn heard(nodes: u32, deaths: u32, goes_on: bool) -> Heard {
    let dies_ns = Options::latest_ns(nodes);
    let options = Options { nodes, deaths, dies_ns, goes_on, costs: Costs::default() };
    run(&options).unwrap_or_else(|what| panic!("{nodes} nodes, {deaths} deaths: {what}"))
}

/// A hop takes what a node works for frames to and from all its peers, at most.
fn spreads_ns(nodes: u32) -> u64 {
    let (costs, depth) = (Costs::default(), u64::from(nodes.next_power_of_two().ilog2()));
    depth * (costs.latency_ns + 4 * depth * costs.frame_ns)
}

#[test]
fn a_death_is_known_to_all_soon() {
    for nodes in [2, 3, 16, 100, 512] {
        for goes_on in [false, true] {
            let heard = heard(nodes, 1, goes_on);
            assert!((PMI_WATCH_NS..2 * PMI_WATCH_NS + 1_000_000).contains(&heard.first_ns), "{nodes}: {heard:?}");
            assert!(heard.spread_ns <= spreads_ns(nodes), "{nodes}: {heard:?}");
            assert!(heard.quiet_frames <= 2, "{nodes}: {heard:?}");
        }
    }
}

#[test]
fn neighbours_that_die_together_are_known_two_intervals_later() {
    for (nodes, deaths) in [(8, 4), (100, 16), (256, 64)] {
        let heard = heard(nodes, deaths, true);
        assert!(heard.all_ns <= 4 * PMI_WATCH_NS + 100_000_000, "{nodes}: {heard:?}");
    }
}

#[test]
fn a_run_is_the_same_each_time() {
    assert_eq!(heard(33, 2, true), heard(33, 2, true));
}
