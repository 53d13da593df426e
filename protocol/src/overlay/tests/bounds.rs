//! What nobody may do to others: be too many, or be far ahead.

use super::*;
use crate::limits::OVERLAY_AHEAD_EPOCHS_MAX;

/// Limits each of which holds, and not both: no process has more below it than it may, and one node has all of them.
#[test]
fn a_node_is_not_called_by_more_than_it_hears() {
    // Three processes on node 0, for 32 nodes each.
    let overlay = Overlay::new(96, "fe:0 => 0:0 0:1 0:2 ;");
    assert_eq!(overlay.events.first(), Some(&Event::TooWide));
    let [_, Event::Started { processes: 0, depth: 0 }] = overlay.events.as_slice() else {
        panic!("{:?}", overlay.events)
    };
    let mut overlay = Overlay::new(96, "fe:0 => 0:0 ; 0:0 => 0:1 0:2 95:0 ;");
    assert!(!overlay.events.contains(&Event::TooWide));
    overlay.end_epoch(5, 0..96);
    assert_eq!(overlay.ranks_in(5).count(), 192);
    // Who was below the one on node 95 goes to node 0 as long as that hears them, then to the front end.
    overlay.die(95);
    overlay.front_end.node_lost(NodeId(95), overlay.now_ns);
    overlay.settle();
    let seats = overlay.front_end.seats();
    let below = seats.iter().flat_map(|seat| &seat.below).map(|child| child.source);
    let callers = below.filter(|source| matches!(source, Source::BackEnds(node) if node.0 != 0)).count();
    assert_eq!(callers, 64);
    overlay.end_epoch(6, 0..95);
    assert_eq!(overlay.ranks_in(6).count(), 190);
}

/// A clock that is wrong has its own node missing, and nobody else late; when all clocks are set, all are heard.
#[test]
fn who_is_far_ahead_is_not_heard_until_most_others_are_there() {
    let mut overlay = Overlay::new(4, FILE);
    overlay.end_epoch(5, 0..4);
    overlay.end_epoch(1_000_000, [1]);
    for epoch in 6..10 {
        overlay.end_epoch(epoch, [0, 2, 3]);
        overlay.pass(10 * OVERLAY_GRACE_NS);
        assert_eq!(overlay.ranks_in(epoch), of_nodes([0, 2, 3]), "epoch {epoch}");
    }
    // Of those that are there first little is heard on each level until the others are.
    (1_000_001..1_000_005).for_each(|epoch| overlay.end_epoch(epoch, 0..4));
    assert_eq!(overlay.ranks_in(1_000_004), of_nodes(0..4));
}

/// Half of the nodes say nothing for longer than anybody may be ahead, and come again.
#[test]
fn who_is_silent_for_long_has_nobody_else_refused() {
    let mut overlay = Overlay::new(4, FILE);
    overlay.end_epoch(5, 0..4);
    for epoch in 6..6 + 3 * OVERLAY_AHEAD_EPOCHS_MAX {
        overlay.end_epoch(epoch, [0, 2]);
        overlay.pass(10 * OVERLAY_GRACE_NS);
        assert_eq!(overlay.ranks_in(epoch), of_nodes([0, 2]), "epoch {epoch}");
    }
    let last = 6 + 3 * OVERLAY_AHEAD_EPOCHS_MAX;
    overlay.end_epoch(last, 0..4);
    assert_eq!(overlay.ranks_in(last), of_nodes(0..4));
}
