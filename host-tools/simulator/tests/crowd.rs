//! Jobs on very many small nodes, with the real service node's controller and the real I/O nodes' machines.

use std::time::Duration;

use coppice_protocol::ids::NodeId;
use coppice_simulator::crowd::{Costs, Ended, Fault, Options, run};

const SMALL: Options =
    Options { nodes: 48, pset_size: 16, ranks_per_node: 8, turn: 4, lasts_ns: 5_000_000_000, fault: None };

fn runs(options: &Options) -> (Ended, Costs) {
    run(options).expect("it comes to its end")
}

/// Each of which ends by itself, and is recorded.
#[test]
fn sixty_five_thousand_ranks_run_from_submit_to_end() {
    let options = Options { nodes: 1024, pset_size: 64, ranks_per_node: 64, ..Options::default() };
    let (ended, costs) = runs(&options);
    assert_eq!((ended.exit_status, ended.reason, ended.reports), (0, None, 65_536));
    // A node is told once, and says twice as much as fits into a message at most.
    let nodes = u64::from(options.nodes);
    assert!(costs.nodes.messages_down <= 4 * nodes, "{costs:?}");
    assert!(costs.nodes.messages_up <= 4 * nodes, "{costs:?}");
    // Of several nodes one message comes, and the node of a rank is never named for it alone.
    assert!(costs.psets.messages_up < 2 * nodes, "{costs:?}");
    assert!(costs.psets.bytes_up / 65_536 < 256, "{costs:?}");
}

#[test]
fn what_a_job_costs_grows_with_its_ranks_and_no_faster() {
    let few = runs(&Options { nodes: 32, ..SMALL }).1;
    let many = runs(&Options { nodes: 320, ..SMALL }).1;
    let ratio = |of: fn(&Costs) -> u64| of(&many) as f64 / of(&few) as f64;
    for (what, ratio) in [
        ("messages of nodes", ratio(|costs| costs.nodes.messages_up + costs.nodes.messages_down)),
        ("bytes of I/O nodes", ratio(|costs| costs.psets.bytes_up + costs.psets.bytes_down)),
    ] {
        assert!((8.0..12.0).contains(&ratio), "{what}: {ratio}");
    }
}

/// From the moment at which it is told to launch it is not heard any more: its pset gives it up soon.
#[test]
fn a_node_that_falls_silent_ends_the_job_by_its_name() {
    for node in [0, 17, 47] {
        let (ended, _) = runs(&Options { fault: Some((NodeId(node), Fault::Silent)), ..SMALL });
        let reason = ended.reason.expect("a reason");
        assert!(reason.contains(&format!("node {node} was lost")), "{reason}");
        assert_eq!(ended.reports, 48 * 8);
        assert!(ended.lasted < Duration::from_secs(60), "{:?}", ended.lasted);
    }
}

/// It says that it is alive, and neither launches its ranks nor ends them.
#[test]
fn a_node_that_does_not_answer_its_launch_ends_the_job_by_its_name() {
    let (ended, _) = runs(&Options { fault: Some((NodeId(17), Fault::Deaf)), ..SMALL });
    let reason = ended.reason.expect("a reason");
    assert!(reason.contains("node 17 has not launched rank 136"), "{reason}");
    assert_eq!(ended.reports, 48 * 8);
    assert!(ended.lasted < Duration::from_secs(400), "{:?}", ended.lasted);
}
