//! Overlays of jobs: what the front end says to nodes, which is said again when a connection was lost, and what they
//! say to it.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::control::{OverlayOrder, ToNode};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::limits::OVERLAY_ORDERS_KEPT_MAX;
use coppice_protocol::overlay::Down;
use coppice_protocol::pset::FromPset;
use coppice_protocol::session::Identity;

use super::Machine;

/// What nodes were told of a job's overlay.
#[derive(Debug, Default)]
pub(super) struct Orders(BTreeMap<NodeId, OfNode>);

#[derive(Debug, Default)]
struct OfNode {
    /// The number of the last one.
    last: u32,
    /// The last ones since the overlay was started: at most [`OVERLAY_ORDERS_KEPT_MAX`].
    kept: VecDeque<(u32, Down)>,
}

impl Orders {
    /// A node is to be told this; its number.
    fn add(&mut self, node: NodeId, order: &Down) -> u32 {
        let of_node = self.0.entry(node).or_default();
        if matches!(order, Down::Announce { .. }) {
            // What belongs to another start is of no interest any more.
            of_node.kept.clear();
        }
        if of_node.kept.len() >= OVERLAY_ORDERS_KEPT_MAX {
            of_node.kept.pop_front();
        }
        of_node.last = of_node.last.saturating_add(1);
        of_node.kept.push_back((of_node.last, order.clone()));
        of_node.last
    }

    /// What a node was told since the overlay was started, in order.
    fn of(&self, node: NodeId) -> impl Iterator<Item = &(u32, Down)> {
        self.0.get(&node).into_iter().flat_map(|of_node| &of_node.kept)
    }
}

impl Machine {
    /// The front end of a job's overlay says something to a node, which hears it now or when its connection is back.
    pub(super) fn order_overlay(&mut self, job: JobId, node: NodeId, order: Down) {
        let Some(state) = self.jobs.get_mut(job).filter(|job| job.is_on(node)) else { return };
        let number = state.overlay.add(node, &order);
        if state.is_launched {
            self.send_control(node, &ToNode::Overlay(OverlayOrder { job, number, order }));
        }
    }

    /// What a node was told of a job's overlay, for another connection.
    pub(super) fn overlay_again(&self, job: JobId, node: NodeId) -> Vec<ToNode> {
        let again = |(number, order): &(u32, Down)| {
            ToNode::Overlay(OverlayOrder { job, number: *number, order: order.clone() })
        };
        self.jobs.get(job).into_iter().flat_map(|state| state.overlay.of(node)).map(again).collect()
    }

    /// A node says something to the front end. What is about ranks and their ends goes first when much waits.
    pub(super) fn overlay_says(&mut self, Identity { node, .. }: Identity, job: JobId, said: Vec<u8>) {
        if self.jobs.get(job).is_some_and(|job| job.is_on(node)) && self.outbox.has_room_to_spare() {
            self.outbox.push(FromPset::Overlay { node, job, said });
        }
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::NodeId;
    use coppice_protocol::limits::OVERLAY_ORDERS_KEPT_MAX;
    use coppice_protocol::overlay::{Above, Down};

    use super::Orders;

    fn announce(generation: u32) -> Down {
        Down::Announce { generation, period_ns: 1, sample_period_ns: 0, size: 1 }
    }

    fn move_of(index: u32) -> Down {
        Down::Move { generation: 1, index, above: Above::FrontEnd }
    }

    #[test]
    fn each_node_is_told_again_what_it_was_told_since_the_start_with_the_same_numbers() {
        let mut orders = Orders::default();
        let (one, other) = (NodeId(1), NodeId(2));
        assert_eq!([announce(1), move_of(0), move_of(1)].map(|order| orders.add(one, &order)), [1, 2, 3]);
        assert_eq!(orders.add(other, &announce(1)), 1);
        let told = |orders: &Orders, node| orders.of(node).cloned().collect::<Vec<_>>();
        assert_eq!(told(&orders, one), [(1, announce(1)), (2, move_of(0)), (3, move_of(1))]);
        // Numbers go on, so that what belongs to another start is not taken for heard.
        assert_eq!(orders.add(one, &announce(2)), 4);
        assert_eq!(told(&orders, one), [(4, announce(2))]);
        assert_eq!(told(&orders, other), [(1, announce(1))]);
        assert_eq!(told(&orders, NodeId(3)), []);
    }

    #[test]
    fn they_are_not_kept_without_end() {
        let mut orders = Orders::default();
        for index in 0..2 * OVERLAY_ORDERS_KEPT_MAX as u32 {
            orders.add(NodeId(1), &move_of(index));
        }
        let kept: Vec<u32> = orders.of(NodeId(1)).map(|(number, _)| *number).collect();
        assert_eq!((kept.len(), kept[0]), (OVERLAY_ORDERS_KEPT_MAX, OVERLAY_ORDERS_KEPT_MAX as u32 + 1));
    }
}
