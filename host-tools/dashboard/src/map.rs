//! All nodes at a glance: a square for each, in order, in the colour of its state, of its job, or of how much it holds.
//! Squares of a colour are one shape, so that a browser draws ten thousands of them at once.

use std::collections::BTreeMap;
use std::fmt::Write;

use coppice_api::counted;
use coppice_api::node::{NodeState, NodeView};
use coppice_api::show::show_bytes;

/// States in the order of the legend, with the class that has their colour.
pub(crate) const STATES: [(NodeState, &str); 7] = [
    (NodeState::Ready, "node-ready"),
    (NodeState::Busy, "node-busy"),
    (NodeState::Booting, "node-booting"),
    (NodeState::Waiting, "node-waiting"),
    (NodeState::Stopping, "node-stopping"),
    (NodeState::Failed, "node-failed"),
    (NodeState::Off, "node-off"),
];

/// Columns of a large map; a small one has fewer, and no more than this.
const COLUMNS_MAX: usize = 128;

/// Side of a square, of which a tenth is room to the next one.
const SIDE: usize = 10;

/// Classes of things that have nothing to do with each other: the largest have one each.
const HUES: [&str; 6] = ["hue-0", "hue-1", "hue-2", "hue-3", "hue-4", "hue-5"];

/// Of all others.
const OTHER_HUE: &str = "hue-other";

/// Of what there is more and more.
const SHADES: [&str; 4] = ["shade-1", "shade-2", "shade-3", "shade-4"];

/// Of what there is none.
const NONE: &str = "shade-0";

/// What the colour of a node is by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colouring {
    #[default]
    State,
    Job,
    /// The program that it ran last, and would start without loading it.
    Program,
    /// How much it holds of programs and files.
    Held,
    /// How much of its memory nobody uses.
    Free,
}

impl Colouring {
    pub(crate) const ALL: [Self; 5] = [Self::State, Self::Job, Self::Program, Self::Held, Self::Free];

    /// In an address.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Job => "job",
            Self::Program => "program",
            Self::Held => "held",
            Self::Free => "free",
        }
    }

    /// On a page.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Job => "job",
            Self::Program => "program held that ran last",
            Self::Held => "memory that is held",
            Self::Free => "free memory",
        }
    }
}

/// Nodes of one colour.
pub(crate) struct Group {
    /// The class that has it.
    pub(crate) class: &'static str,
    pub(crate) name: String,
    pub(crate) count: usize,
    /// Their squares, as an SVG path.
    pub(crate) path: String,
}

/// See this module.
pub(crate) struct NodeMap {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) groups: Vec<Group>,
    /// In words.
    pub(crate) label: String,
}

/// Classes in the order of the legend, with their names, and which of them each node is in.
struct Coloured {
    classes: Vec<(&'static str, String)>,
    of_node: Vec<usize>,
}

impl NodeMap {
    /// Of these nodes.
    pub(crate) fn of(nodes: &[NodeView], by: Colouring) -> Self {
        let Coloured { classes, of_node } = match by {
            Colouring::State => by_state(nodes),
            Colouring::Job => by_hue(nodes, "no job", |node| node.job.map(|job| format!("job {job}"))),
            Colouring::Program => by_hue(nodes, "none", |node| {
                let first = node.retained.first()?;
                let last = node.last_program.as_ref().filter(|last| last.program == first.program);
                Some(last.map_or_else(|| first.program.chars().take(12).collect(), |last| last.path.to_string()))
            }),
            Colouring::Held => by_shade(nodes, "nothing", |node| {
                node.retained.iter().fold(0_u64, |sum, held| sum.saturating_add(held.bytes))
            }),
            Colouring::Free => by_shade(nodes, "unknown", |node| node.memory.map_or(0, |memory| memory.free_bytes)),
        };
        // About four times as wide as high.
        let columns =
            (1..COLUMNS_MAX).find(|columns| columns * columns / 4 >= nodes.len()).unwrap_or(COLUMNS_MAX).max(8);
        let mut paths = vec![(0, String::new()); classes.len()];
        for (place, class) in of_node.into_iter().enumerate() {
            let Some((count, path)) = paths.get_mut(class) else { continue };
            let (x, y, side) = (place % columns * SIDE, place / columns * SIDE, SIDE - 1);
            *count += 1;
            // Writing to a string cannot fail.
            let _ = write!(path, "M{x} {y}h{side}v{side}h-{side}z");
        }
        let groups = classes.into_iter().zip(paths).filter(|(_, (count, _))| *count > 0);
        let groups: Vec<Group> =
            groups.map(|((class, name), (count, path))| Group { class, name, count, path }).collect();
        let counts: Vec<String> = groups.iter().map(|group| format!("{} {}", group.count, group.name)).collect();
        Self {
            width: columns * SIDE,
            height: nodes.len().div_ceil(columns).max(1) * SIDE,
            label: format!("{}: {}", counted(nodes.len(), "node"), counts.join(", ")),
            groups,
        }
    }
}

fn by_state(nodes: &[NodeView]) -> Coloured {
    let place = |node: &NodeView| STATES.iter().position(|(state, _)| *state == node.state).unwrap_or(0);
    Coloured {
        classes: STATES.iter().map(|(state, class)| (*class, state.as_str().to_owned())).collect(),
        of_node: nodes.iter().map(place).collect(),
    }
}

/// Those of most nodes have a colour of their own, in their order.
fn by_hue(nodes: &[NodeView], none: &str, of: impl Fn(&NodeView) -> Option<String>) -> Coloured {
    let named: Vec<Option<String>> = nodes.iter().map(of).collect();
    let mut counts = BTreeMap::<&str, usize>::new();
    named.iter().flatten().for_each(|name| *counts.entry(name).or_default() += 1);
    let mut most: Vec<(&str, usize)> = counts.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    most.truncate(HUES.len());
    let place = |name: &Option<String>| match name {
        None => HUES.len() + 1,
        Some(name) => most.iter().position(|(known, _)| known == name).unwrap_or(HUES.len()),
    };
    let of_node = named.iter().map(place).collect();
    let name = |place: usize| most.get(place).map(|(name, _)| (*name).to_owned()).unwrap_or_default();
    let mut classes: Vec<_> = HUES.iter().enumerate().map(|(place, class)| (*class, name(place))).collect();
    classes.extend([(OTHER_HUE, "others".to_owned()), (NONE, none.to_owned())]);
    Coloured { classes, of_node }
}

/// The more, the stronger: in as many steps as there are shades, up to the most that one has.
fn by_shade(nodes: &[NodeView], none: &str, of: impl Fn(&NodeView) -> u64) -> Coloured {
    let values: Vec<u64> = nodes.iter().map(of).collect();
    let most = values.iter().copied().max().unwrap_or_default().max(1);
    let steps = SHADES.len() as u64;
    let step = most.div_ceil(steps).max(1);
    let place = |value: &u64| usize::try_from(value.div_ceil(step).min(steps)).unwrap_or_default();
    let shades = SHADES
        .iter()
        .zip(1..)
        .map(|(class, number)| (*class, format!("up to {}", show_bytes(step.saturating_mul(number).min(most)))));
    Coloured {
        of_node: values.iter().map(place).collect(),
        classes: [(NONE, none.to_owned())].into_iter().chain(shades).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Colouring, NodeMap};
    use crate::tests::node;
    use coppice_api::node::{MemoryView, NodeState, NodeView};

    #[test]
    fn each_node_is_a_square_in_the_colour_of_its_state() {
        let nodes = [NodeState::Ready, NodeState::Busy, NodeState::Ready].map(|state| node(0, state));
        let map = NodeMap::of(&nodes, Colouring::State);
        assert_eq!((map.width, map.height, map.label.as_str()), (80, 10, "3 nodes: 2 ready, 1 busy"));
        assert_eq!(map.groups[0].path, "M0 0h9v9h-9zM20 0h9v9h-9z");
        assert!(NodeMap::of(&[], Colouring::State).groups.is_empty());
    }

    #[test]
    fn colours_are_of_the_largest_jobs_and_of_how_much_there_is() {
        let of = |job| NodeView { job, ..node(0, NodeState::Busy) };
        let jobs: Vec<NodeView> =
            (0..10).flat_map(|job| (0..=job).map(move |_| of(Some(job)))).chain([of(None)]).collect();
        let label = NodeMap::of(&jobs, Colouring::Job).label;
        let wanted = "56 nodes: 10 job 9, 9 job 8, 8 job 7, 7 job 6, 6 job 5, 5 job 4, 10 others, 1 no job";
        assert_eq!(label, wanted);
        let of = |free_bytes: u64| {
            let memory = MemoryView { total_bytes: 1 << 30, kernel_bytes: 0, free_bytes };
            NodeView { memory: Some(memory), ..node(0, NodeState::Ready) }
        };
        let nodes = [0, 1, 256, 257, 1024].map(|mib| of(mib << 20));
        let label = NodeMap::of(&nodes, Colouring::Free).label;
        assert_eq!(label, "5 nodes: 1 unknown, 2 up to 256.0 MiB, 1 up to 512.0 MiB, 1 up to 1.0 GiB");
        for by in Colouring::ALL {
            let map = NodeMap::of(&jobs, by);
            assert_eq!(map.groups.iter().map(|group| group.count).sum::<usize>(), jobs.len(), "{by:?}");
        }
    }

    #[test]
    fn many_nodes_are_few_shapes() {
        let nodes: Vec<_> = (0..16_384)
            .map(|number| node(number, if number % 7 == 0 { NodeState::Failed } else { NodeState::Busy }))
            .collect();
        let map = NodeMap::of(&nodes, Colouring::State);
        assert_eq!((map.width, map.height, map.groups.len()), (1280, 1280, 2));
        assert!(map.groups.iter().map(|group| group.path.len()).sum::<usize>() < 400_000);
    }
}
