//! What is known of a job's nodes is short, and charged.

use coppice_hal::heap::measure;
use coppice_protocol::control::Launch;
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::NODE_ADDRESSES_MAX;
use coppice_protocol::world::{JobKey, NodeRange, World};

use super::{Failures, Pmi, order, quota};
use crate::limits::PMI_CHARGE_BYTES;
use crate::net::testing::Nowhere;

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// What node 3 takes for a job of a rank on each of these nodes, and what that is charged with, bytes.
fn taken(nodes: Vec<NodeRange>) -> (usize, usize) {
    let quota = quota();
    let pmi = Pmi::new(NodeId(3), Arc::new(Nowhere), Arc::clone(&quota));
    let world = World { key: JobKey([9; 32]), ranks_per_node: 1, nodes };
    let order = Launch { rank: Rank(3), size: world.node_count(), world, ..order(1) };
    let (seat, taken) = measure(|| pmi.join(&order, Failures::new(|_| ())).expect("a place"));
    let charged = quota.taken();
    drop(seat);
    (taken.most_bytes, charged)
}

#[test]
fn a_job_on_all_nodes_there_can_be_takes_no_more_than_one_on_a_few() {
    let range = |count| vec![NodeRange { first: NodeId(0), count }];
    let (most, charged) = taken(range(NODE_ADDRESSES_MAX));
    assert!(most <= PMI_CHARGE_BYTES && charged <= PMI_CHARGE_BYTES + 100, "{most} of {charged} bytes");
    assert_eq!(taken(range(4)).1, charged);
}

#[test]
fn scattered_nodes_are_charged() {
    let nodes =
        (0..20_000).map(|node| NodeRange { first: NodeId(if node == 3 { 3 } else { 10 + 2 * node }), count: 1 });
    let (most, charged) = taken(nodes.collect());
    assert!((20_000 * 20..charged).contains(&most), "{most} of {charged} bytes");
}
