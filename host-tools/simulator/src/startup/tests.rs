//! Small starts, and that the model is what runs show.

use super::{Costs, Options, Order, Started, full_fence, run};

fn start(nodes: u32, ranks_per_node: u32, order: Order) -> Started {
    let options = Options { nodes, ranks_per_node, pset_nodes: 64, order, fence: None, costs: Costs::default() };
    run(&options).expect("it starts")
}

#[test]
fn all_phases_come_one_after_the_other() {
    for (nodes, ranks_per_node) in [(1, 1), (1, 8), (2, 1), (7, 3), (64, 8)] {
        for order in [Order::New, Order::Old] {
            let Started { told_ns, launched_ns, running_ns, put_ns, met_ns, past_init_ns, card_ns, .. } =
                start(nodes, ranks_per_node, order);
            let phases = [0, told_ns, launched_ns, running_ns, put_ns, met_ns, past_init_ns, card_ns];
            assert!(phases.is_sorted(), "{nodes} × {ranks_per_node}, {order:?}: {phases:?}");
        }
    }
}

#[test]
fn a_run_is_the_same_each_time() {
    assert_eq!(start(33, 4, Order::New), start(33, 4, Order::New));
}

#[test]
fn the_new_order_grows_with_the_depth_of_trees_and_not_with_ranks() {
    let new = [64, 512].map(|nodes| start(nodes, 8, Order::New));
    assert!(new[1].past_init_ns < 2 * new[0].past_init_ns, "{new:?}");
    assert!(new[1].memory_bytes < new[0].memory_bytes * 5 / 4, "{new:?}");
    let old = [64, 512].map(|nodes| start(nodes, 8, Order::Old));
    assert!(old[1].memory_bytes > 7 * old[0].memory_bytes, "{old:?}");
}

#[test]
fn the_model_of_a_barrier_that_brings_all_is_what_runs_show() {
    for (nodes, ranks_per_node) in [(16, 16), (64, 32), (128, 64)] {
        let options =
            Options { nodes, ranks_per_node, pset_nodes: 64, order: Order::Old, fence: None, costs: Costs::default() };
        assert!(!options.is_modelled());
        let real = run(&options).expect("it starts");
        // What a node's cards are on the wire: frames say what they have in common once, which the model does not know.
        let bytes = real.node_bytes / u64::from(nodes - 1);
        let (ns, ..) = full_fence(nodes, bytes, &options.costs);
        let ratio = (real.met_ns - real.put_ns) as f64 / ns as f64;
        assert!((0.5..2.0).contains(&ratio), "{nodes} × {ranks_per_node}: {ratio}");
    }
}
