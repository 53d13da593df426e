//! What is known of a job's nodes is short, and charged.

use coppice_hal::heap::measure;
use coppice_protocol::control::{Launch, Order};
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::NODE_ADDRESSES_MAX;
use coppice_protocol::world::{JobKey, NodeRange, World};

use super::{Endpoint, Failures, Pmi, order, quota};
use crate::files::stream::{Stream, copy_from};
use crate::limits::{PMI_CHARGE_BYTES, PMI_NAMES_AHEAD_BYTES};
use crate::net::testing::Nowhere;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// What node 3 takes for a job of a rank on each of these nodes, and what that is charged with, bytes.
fn taken(nodes: Vec<NodeRange>) -> (usize, usize) {
    let quota = quota();
    let pmi = Pmi::new(NodeId(3), Arc::new(Nowhere), Arc::clone(&quota));
    let world = World { nodes, ..World::new(JobKey([9; 32]), 1, []) };
    let order = Launch { first: Rank(3), size: world.node_count(), world, ..order(1) };
    let order = Order::from(order);
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

/// A line, and what is answered at once.
fn ask(endpoint: &Endpoint, line: &str) -> String {
    assert_eq!(endpoint.put(line.len(), &mut copy_from(line.as_bytes())), Ok(line.len()));
    let mut answer = Vec::new();
    let taken = endpoint.take(usize::MAX, false, &mut |part| {
        answer.extend_from_slice(part);
        part.len()
    });
    assert!(taken.is_ok());
    String::from_utf8(answer).expect("text")
}

/// Without memory for what is published next nothing is published, and the job goes on.
#[test]
fn names_are_charged_before_they_are_there() {
    let quota = quota();
    let pmi = Pmi::new(NodeId(0), Arc::new(Nowhere), Arc::clone(&quota));
    let world = World::new(JobKey([9; 32]), 1, [NodeId(0)]);
    let order = Order::from(Launch { first: Rank(0), size: 1, world, ..order(1) });
    let seat = pmi.join(&order, Failures::new(|_| panic!("the job goes on"))).expect("a place");
    let endpoint = seat.endpoint().expect("memory");
    let mut of_others = quota.charge(0).expect("nothing");
    for bytes in [1 << 30, 1 << 20, 1 << 10, 1] {
        while of_others.grow(bytes).is_ok() {}
    }
    let publish = |number: usize| {
        let port = "p".repeat(400);
        ask(&endpoint, &format!("cmd=publish_name service=name-{number} port={port}\n"))
    };
    let published = (0..).take_while(|number| publish(*number).contains(" rc=0 ")).count();
    let bytes = published * 400;
    assert!((10_000..PMI_CHARGE_BYTES - PMI_NAMES_AHEAD_BYTES).contains(&bytes), "{published} names");
    assert_eq!(publish(published), "cmd=publish_result rc=-1 msg=no_room_for_names\n");
    drop(of_others);
    assert!(publish(published).contains(" rc=0 "));
    assert_eq!(ask(&endpoint, "cmd=finalize\n"), "cmd=finalize_ack\n");
}
