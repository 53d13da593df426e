//! What ranks did to their end is told before that is known.

use alloc::vec::Vec;

use super::super::stacks::tests::BYTES_MAX;
use super::super::{
    Above, BackEnds, CounterName, Deeds, Event, Gathered, METRICS, Metric, NODE_METRICS, Stacks, Tallies, Up,
};
use super::{FILE, Overlay, ranks};
use crate::ids::{NodeId, Rank};
use crate::limits::{OVERLAY_LAST_PARTS_MAX, OVERLAY_MESSAGE_BYTES_MAX, RANKS_PER_NODE_MAX};
use crate::ranks::Ranks;

/// Ranks of node 1 end amid an epoch, of which nothing has come by then.
#[test]
fn what_ranks_did_until_they_ended_is_in_their_epoch_and_counted_once() {
    let mut overlay = Overlay::new(4, FILE);
    overlay.end_epoch(5, 0..4);
    let (node, mut stacks) = (NodeId(1), Stacks::none());
    stacks.add(&[7], 3);
    let back_ends = overlay.back_ends.get_mut(&node).expect("a node");
    for rank in ranks(1).iter() {
        let did = Deeds { values: [10; METRICS], counters: Vec::new(), tallies: Tallies::default() };
        back_ends.ended(rank, did, &stacks);
    }
    let last = back_ends.last(6).expect("they have ended");
    assert!(matches!(&last, Up::Last { again, .. } if again.len() == 1), "what may be on its way is said again");
    let more = back_ends.last(6);
    assert!(matches!(more, Some(Up::Last { part, .. }) if part.ranks().count() == 0), "that was all");
    assert_eq!(Up::decode(&last.encode()), Ok(last.clone()));
    overlay.events.clear();
    // Twice, as after a connection was lost; and somebody else says it.
    for from in [1, 1, 2] {
        overlay.front_end.handle(NodeId(from), last.clone(), overlay.now_ns);
    }
    overlay.settle();
    let samples: Vec<u64> = overlay
        .events
        .iter()
        .filter_map(|it| if let Event::Stacks(it) = it { Some(it.samples()) } else { None })
        .collect();
    assert_eq!((samples, overlay.events.last()), (Vec::from([6]), Some(&Event::Lie(NodeId(2)))));
    overlay.events.clear();
    overlay.front_end.end();
    overlay.settle();
    let [Event::Epoch(part)] = overlay.events.as_slice() else { panic!("{:?}", overlay.events) };
    assert_eq!((part.epoch(), part.ranks()), (6, &ranks(1)));
    assert_eq!(part.summary(Metric::Calls).sum(), 20);
}

/// An epoch ends between the end of the last rank of node 1 and the moment at which that is told: what it did is on its
/// way up the tree, which may take longer than the job's end.
#[test]
fn what_ranks_did_to_their_end_comes_before_that_if_an_epoch_ends_between() {
    let mut overlay = Overlay::new(4, FILE);
    overlay.end_epoch(5, 0..4);
    let back_ends = overlay.back_ends.get_mut(&NodeId(1)).expect("a node");
    for rank in ranks(1).iter() {
        let did = Deeds { values: [10; METRICS], counters: Vec::new(), tallies: Tallies::default() };
        back_ends.ended(rank, did, &Stacks::none());
    }
    back_ends.submit(6, &Gathered::default());
    let on_its_way: Vec<_> = core::iter::from_fn(|| back_ends.poll_transmit()).collect();
    assert_eq!(on_its_way.len(), 1);
    let last = back_ends.last(7).expect("something was said");
    overlay.events.clear();
    overlay.front_end.handle(NodeId(1), last, overlay.now_ns);
    overlay.front_end.end();
    overlay.settle();
    let [Event::Epoch(part)] = overlay.events.as_slice() else { panic!("{:?}", overlay.events) };
    assert_eq!((part.epoch(), part.ranks(), part.summary(Metric::Calls).sum()), (6, &ranks(1), 20));
    // Of nodes of which nothing was said there is nothing to be said.
    assert_eq!(BackEnds::new(1, NodeId(1), 4).last(7), None);
}

/// All that a node may have to say at its end, at every limit at once, is one message.
#[test]
fn what_a_node_says_last_fits_into_a_message() {
    let ranks = RANKS_PER_NODE_MAX;
    let mut back_ends = BackEnds::new(1, NodeId(0), ranks);
    for (index, first) in (0..).zip((0..ranks).step_by(16)) {
        back_ends.attach(Ranks::range(Rank(first), 16), Above::Process { index, node: NodeId(index) });
    }
    let mut tallies = Tallies::default();
    (0..100).for_each(|node| tallies.sent_to.add(Some(NodeId(u32::MAX - node)), u64::MAX >> 8));
    (0..100).for_each(|number| tallies.calls.add(Some(u16::MAX - number), u64::MAX >> 8));
    let values = |rank: u32, epoch: u64| {
        let mut value = u64::from(rank) << 56 | epoch;
        [(); METRICS].map(|()| {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            value >> (rank % 40)
        })
    };
    let counters = || {
        let name = |number: u8| CounterName::new(&[b'a' + number; 31]).expect("a name");
        (0..16).map(|number| (name(number), u64::MAX - u64::from(number))).collect::<Vec<_>>()
    };
    for epoch in [5, 6] {
        let gathered = Gathered {
            ranks: (0..ranks).map(|rank| (Rank(rank), values(rank, epoch))).collect(),
            counters: (0..ranks).map(|rank| (Rank(rank), counters())).collect(),
            tallies: (0..ranks).map(|rank| (Rank(rank), tallies.clone())).collect(),
            node: Some([u64::MAX; NODE_METRICS]),
        };
        back_ends.submit(epoch, &gathered);
        while back_ends.poll_transmit().is_some() {}
    }
    for rank in 0..ranks {
        let did = Deeds { values: values(rank, 7), counters: counters(), tallies: tallies.clone() };
        back_ends.ended(Rank(rank), did, &Stacks::none());
    }
    let last = back_ends.last(7).expect("something was said");
    assert!(matches!(&last, Up::Last { again, .. } if again.len() == OVERLAY_LAST_PARTS_MAX));
    let bytes = last.encode().len() + BYTES_MAX;
    assert!(bytes <= OVERLAY_MESSAGE_BYTES_MAX, "{bytes} bytes");
}
