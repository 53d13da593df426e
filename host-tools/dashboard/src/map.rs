//! All nodes at a glance: a square for each, in the colour of its state, in order. Squares of a state are one shape, so
//! that a browser draws ten thousands of them at once.

use std::collections::BTreeMap;
use std::fmt::Write;

use coppice_api::node::{NodeState, NodeView};

/// States in the order of the legend, with the class that has their colour.
const STATES: [(NodeState, &str); 7] = [
    (NodeState::Ready, "ready"),
    (NodeState::Busy, "busy"),
    (NodeState::Booting, "booting"),
    (NodeState::Waiting, "waiting"),
    (NodeState::Stopping, "stopping"),
    (NodeState::Failed, "failed"),
    (NodeState::Off, "off"),
];

/// Columns of a large map; a small one has fewer, and no more than this.
const COLUMNS_MAX: usize = 128;

/// Side of a square, of which a tenth is room to the next one.
const SIDE: usize = 10;

/// Nodes of one state.
pub(crate) struct OfState {
    pub(crate) class: &'static str,
    pub(crate) count: usize,
    /// Their squares, as an SVG path.
    pub(crate) path: String,
}

/// See this module.
pub(crate) struct NodeMap {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) states: Vec<OfState>,
    /// In words.
    pub(crate) label: String,
}

impl NodeMap {
    pub(crate) fn of(nodes: &[NodeView]) -> Self {
        // About four times as wide as high.
        let columns =
            (1..COLUMNS_MAX).find(|columns| columns * columns / 4 >= nodes.len()).unwrap_or(COLUMNS_MAX).max(8);
        let mut paths = BTreeMap::<&str, (usize, String)>::new();
        for (place, node) in nodes.iter().enumerate() {
            let class = STATES.iter().find(|(state, _)| *state == node.state).map_or("off", |(_, class)| class);
            let (count, path) = paths.entry(class).or_default();
            let (x, y, side) = (place % columns * SIDE, place / columns * SIDE, SIDE - 1);
            *count += 1;
            // Writing to a string cannot fail.
            let _ = write!(path, "M{x} {y}h{side}v{side}h-{side}z");
        }
        let of = |(_, class): &(NodeState, &'static str)| {
            let (count, path) = paths.remove(class)?;
            Some(OfState { class, count, path })
        };
        let states: Vec<OfState> = STATES.iter().filter_map(of).collect();
        let counts: Vec<String> = states.iter().map(|state| format!("{} {}", state.count, state.class)).collect();
        Self {
            width: columns * SIDE,
            height: nodes.len().div_ceil(columns).max(1) * SIDE,
            states,
            label: format!("{} nodes: {}", nodes.len(), counts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NodeMap;
    use crate::tests::node;
    use coppice_api::node::NodeState;

    #[test]
    fn each_node_is_a_square_in_the_colour_of_its_state() {
        let nodes = [NodeState::Ready, NodeState::Busy, NodeState::Ready].map(|state| node(0, state));
        let map = NodeMap::of(&nodes);
        assert_eq!((map.width, map.height, map.label.as_str()), (80, 10, "3 nodes: 2 ready, 1 busy"));
        assert_eq!(map.states[0].path, "M0 0h9v9h-9zM20 0h9v9h-9z");
        assert!(NodeMap::of(&[]).states.is_empty());
    }

    #[test]
    fn many_nodes_are_few_shapes() {
        let nodes: Vec<_> = (0..16_384)
            .map(|number| node(number, if number % 7 == 0 { NodeState::Failed } else { NodeState::Busy }))
            .collect();
        let map = NodeMap::of(&nodes);
        assert_eq!((map.width, map.height, map.states.len()), (1280, 1280, 2));
        assert!(map.states.iter().map(|state| state.path.len()).sum::<usize>() < 400_000);
    }
}
