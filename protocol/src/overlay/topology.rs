//! Which communication process is below which, and on which node each runs.
//!
//! A user may say so in a file, in the form that MRNet's have: `parent => child child … ;`, where each process is the
//! number of a node, a colon, and a number of its own there. The front end is `fe:0`. What is behind a `#` is a
//! comment.
//!
//! ```text
//! fe:0 => 0:0 8:0 ;
//! 0:0  => 0:1 4:0 ;    # two on node 0
//! ```
//!
//! Otherwise it follows from how many run on which node ([`Topology::over`]).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::ids::NodeId;
use crate::limits::{OVERLAY_CHILDREN_MAX, OVERLAY_PROCESSES_MAX};

/// A communication process; the front end is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Where it runs.
    pub node: NodeId,
    /// The process above it: its index, if that is not the front end.
    pub parent: Option<u32>,
}

/// Communication processes, each behind the one above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    processes: Vec<Process>,
}

/// Why a file does not say a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A line is not as it is to be.
    #[error("`{0}` is not `parent => child child … ;`")]
    Statement(String),
    /// Not a process.
    #[error("`{0}` is neither fe:0 nor the number of a node, a colon and a number")]
    Name(String),
    /// The front end is below something.
    #[error("fe:0 is above all others")]
    FrontEndBelow,
    /// A process is below two others, or twice below one.
    #[error("{0} is below more than one")]
    Twice(String),
    /// A process has more below it than [`OVERLAY_CHILDREN_MAX`].
    #[error("{0} has more than {OVERLAY_CHILDREN_MAX} below it")]
    TooWide(String),
    /// More than [`OVERLAY_PROCESSES_MAX`].
    #[error("more than {OVERLAY_PROCESSES_MAX} processes")]
    TooMany,
    /// A process is not below the front end, by whatever others.
    #[error("{0} is not below fe:0")]
    Apart(String),
    /// Nothing is below the front end.
    #[error("nothing is below fe:0")]
    Empty,
}

/// What a file calls a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    FrontEnd,
    On(NodeId, u32),
}

impl Name {
    fn parse(text: &str) -> Result<Self, TopologyError> {
        let wrong = || TopologyError::Name(text.into());
        let (node, number) = text.split_once(':').ok_or_else(wrong)?;
        // A number of the standard library may have a sign.
        let number_of = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten().ok_or_else(wrong)
        };
        match (node, number_of(number)?) {
            ("fe", 0) => Ok(Self::FrontEnd),
            (node, number) => Ok(Self::On(NodeId(number_of(node)?), number)),
        }
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::FrontEnd => f.write_str("fe:0"),
            Self::On(node, number) => write!(f, "{node}:{number}"),
        }
    }
}

impl Topology {
    /// All processes.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The processes below one, or below the front end, by their index.
    pub fn children(&self, parent: Option<u32>) -> impl Iterator<Item = u32> {
        (0..).zip(&self.processes).filter(move |(_, it)| it.parent == parent).map(|(index, _)| index)
    }

    /// Those that have no other below them, and so have back ends there, by their index.
    #[must_use]
    pub fn ibes(&self) -> Vec<u32> {
        let mut is_above = vec![false; self.processes.len()];
        for parent in self.processes.iter().filter_map(|process| process.parent) {
            if let Some(is_above) = is_above.get_mut(parent as usize) {
                *is_above = true;
            }
        }
        (0..).zip(is_above).filter(|(_, is_above)| !is_above).map(|(index, _)| index).collect()
    }

    /// How many are on the way from the one that is furthest below to the front end.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let mut depths: Vec<u32> = Vec::with_capacity(self.processes.len());
        for process in &self.processes {
            let above = process.parent.and_then(|parent| depths.get(parent as usize)).copied().unwrap_or(0);
            depths.push(above + 1);
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// So many processes on each of these nodes, none with more than `children` others below it (at least two, at most
    /// [`OVERLAY_CHILDREN_MAX`]). Neighbours are below the same, or below neighbours. At most [`OVERLAY_PROCESSES_MAX`]
    /// of them.
    #[must_use]
    pub fn over(placed: &[(NodeId, u32)], children: u32) -> Self {
        let nodes: Vec<NodeId> = placed
            .iter()
            .flat_map(|(node, count)| core::iter::repeat_n(*node, *count as usize))
            .take(OVERLAY_PROCESSES_MAX)
            .collect();
        let children = (children as usize).clamp(2, OVERLAY_CHILDREN_MAX);
        let mut processes = Vec::with_capacity(nodes.len());
        // Parts of them, each to come below one that is there: its first is the head of the rest.
        let mut parts = vec![(None, 0, nodes.len())];
        while let Some((parent, first, end)) = parts.pop() {
            let each = (end - first).div_ceil(children).max(1);
            for first in (first..end).step_by(each) {
                let index = processes.len() as u32;
                processes.push(Process { node: nodes[first], parent });
                parts.push((Some(index), first + 1, end.min(first + each)));
            }
        }
        Self { processes }
    }

    /// What a file says.
    ///
    /// # Errors
    /// [`TopologyError`]: one line.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let below = statements(text)?;
        let (mut processes, mut seen) = (Vec::new(), 0);
        let mut parts = vec![(Name::FrontEnd, None)];
        while let Some((name, parent)) = parts.get(seen).copied() {
            seen += 1;
            let index = if let Name::On(node, _) = name {
                processes.push(Process { node, parent });
                Some(processes.len() as u32 - 1)
            } else {
                None
            };
            parts.extend(below.get(&name).into_iter().flatten().map(|child| (*child, index)));
        }
        // Each is below one other at most, so whoever was not come to goes in circles, or hangs in the air.
        let reached: BTreeSet<Name> = parts.iter().map(|(name, _)| *name).collect();
        let mut all = below.keys().chain(below.values().flatten());
        match all.find(|name| !reached.contains(name)) {
            Some(name) => Err(TopologyError::Apart(name.to_string())),
            None if processes.is_empty() => Err(TopologyError::Empty),
            None => Ok(Self { processes }),
        }
    }
}

/// Who is said to be below whom.
fn statements(text: &str) -> Result<BTreeMap<Name, Vec<Name>>, TopologyError> {
    let mut below = BTreeMap::<Name, Vec<Name>>::new();
    let mut has_parent = BTreeSet::new();
    let without_comments: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
    let joined = without_comments.join("\n");
    let (whole, rest) = joined.rsplit_once(';').unwrap_or(("", &joined));
    if !rest.trim().is_empty() {
        return Err(TopologyError::Statement(rest.trim().into()));
    }
    for statement in whole.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let wrong = || TopologyError::Statement(statement.into());
        let (parent, children) = statement.split_once("=>").ok_or_else(wrong)?;
        let parent = Name::parse(parent.trim())?;
        let children = children.split_whitespace().map(Name::parse).collect::<Result<Vec<_>, _>>()?;
        if children.is_empty() {
            return Err(wrong());
        }
        for child in &children {
            let is_new = has_parent.insert(*child);
            if *child == Name::FrontEnd {
                return Err(TopologyError::FrontEndBelow);
            } else if !is_new {
                return Err(TopologyError::Twice(child.to_string()));
            } else if has_parent.len() > OVERLAY_PROCESSES_MAX {
                return Err(TopologyError::TooMany);
            }
        }
        let of_parent = below.entry(parent).or_default();
        of_parent.extend(children);
        if of_parent.len() > OVERLAY_CHILDREN_MAX {
            return Err(TopologyError::TooWide(parent.to_string()));
        }
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Process, Topology};
    use crate::ids::NodeId;
    use crate::limits::OVERLAY_CHILDREN_MAX;

    fn process(node: u32, parent: Option<u32>) -> Process {
        Process { node: NodeId(node), parent }
    }

    #[test]
    fn a_file_is_read() {
        let text = "# All of it\nfe:0 => 0:0 8:0 ;\n0:0\n => 0:1 4:0; # two on node 0\n8:0=>9:0;";
        let topology = Topology::parse(text).expect("a topology");
        let all = [process(0, None), process(8, None), process(0, Some(0)), process(4, Some(0)), process(9, Some(1))];
        assert_eq!(topology.processes(), all);
        assert_eq!(topology.ibes(), [2, 3, 4]);
        assert_eq!(topology.depth(), 2);
        assert_eq!(topology.children(Some(0)).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(topology.children(None).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn what_is_no_topology_is_refused() {
        let wide: String = (0..=OVERLAY_CHILDREN_MAX).map(|node| format!(" {node}:0")).collect();
        for (text, wanted) in [
            ("", "nothing is below fe:0"),
            ("fe:0 => 1:0", "`fe:0 => 1:0` is not `parent => child child … ;`"),
            ("fe:0 1:0;", "`fe:0 1:0` is not `parent => child child … ;`"),
            ("fe:0 =>;", "`fe:0 =>` is not `parent => child child … ;`"),
            ("fe:0 => 1;", "`1` is neither fe:0 nor the number of a node, a colon and a number"),
            ("fe:0 => +1:0;", "`+1:0` is neither fe:0 nor the number of a node, a colon and a number"),
            ("fe:0 => 1:;", "`1:` is neither fe:0 nor the number of a node, a colon and a number"),
            ("fe:1 => 1:0;", "`fe:1` is neither fe:0 nor the number of a node, a colon and a number"),
            ("fe:0 => 1:0; 1:0 => fe:0;", "fe:0 is above all others"),
            ("fe:0 => 1:0 1:0;", "1:0 is below more than one"),
            ("fe:0 => 1:0; 2:0 => 3:0; 3:0 => 2:0;", "2:0 is not below fe:0"),
            ("fe:0 => 1:0; 2:0 => 3:0;", "2:0 is not below fe:0"),
            ("1:0 => 1:0;", "1:0 is not below fe:0"),
            (&format!("fe:0 => {wide};"), "fe:0 has more than 64 below it"),
        ] {
            assert_eq!(Topology::parse(text).map_err(|error| error.to_string()), Err(wanted.into()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in "[fe0-9:=>; #\n]{0,60}") {
            if let Ok(topology) = Topology::parse(&text) {
                prop_assert!(!topology.ibes().is_empty());
            }
        }

        #[test]
        fn all_that_are_placed_are_in_the_tree(placed in vec(0_u32..4, 1..200), children in 2_u32..70) {
            let placed: Vec<_> = (0..).map(NodeId).zip(placed).collect();
            let topology = Topology::over(&placed, children);
            let count: u32 = placed.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(topology.processes().len(), count as usize);
            for (node, count) in &placed {
                let there = topology.processes().iter().filter(|process| process.node == *node).count();
                prop_assert_eq!(there, *count as usize);
            }
            // Each is behind the one above it, so all are below the front end.
            for (index, process) in (0..).zip(topology.processes()) {
                prop_assert!(process.parent.is_none_or(|parent| parent < index));
            }
            let parents: BTreeSet<_> = topology.processes().iter().map(|process| process.parent).collect();
            for parent in parents {
                prop_assert!(topology.children(parent).count() <= (children as usize).min(OVERLAY_CHILDREN_MAX));
            }
            // As few layers as hold them.
            let (mut room, mut layer, mut layers) = (0_u64, 1_u64, 0);
            while room < u64::from(count) {
                layer = layer.saturating_mul(children.min(OVERLAY_CHILDREN_MAX as u32).into());
                (room, layers) = (room + layer, layers + 1);
            }
            prop_assert!(topology.depth() <= layers, "{} of {layers}", topology.depth());
        }
    }
}
