//! No number is given twice: each boot of a node has one that none before it had, whatever the service node could
//! record meanwhile. (That of jobs see [`super::Jobs`].)

use std::collections::BTreeMap;

use coppice_protocol::ids::{Generation, NodeId};

use crate::checkers::Violation;

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Numbers {
    /// The last boot of each node.
    boots: BTreeMap<NodeId, Generation>,
    found: Vec<Violation>,
}

impl Numbers {
    /// A node is booted.
    pub(in crate::cluster) fn booted(&mut self, node: NodeId, generation: Generation) {
        let before = self.boots.insert(node, generation);
        if let Some(before) = before.filter(|before| *before >= generation) {
            self.found.push(Violation::new(format!("node {node} is booted as {generation}, after {before}")));
        }
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::{Generation, NodeId};

    use super::Numbers;

    #[test]
    fn numbers_grow() {
        let mut numbers = Numbers::default();
        for (node, generation) in [(1, 1), (2, 1), (1, 4)] {
            numbers.booted(NodeId(node), Generation(generation));
        }
        assert!(numbers.found().is_empty());
        numbers.booted(NodeId(1), Generation(4));
        assert!(numbers.found().pop().is_some());
    }
}
