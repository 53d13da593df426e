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
