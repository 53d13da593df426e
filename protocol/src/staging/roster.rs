//! Who is which member of a transfer, and where.
//!
//! Home is the I/O node of a pset. Members are numbered from there, pset by pset: the nodes of home's pset, then of
//! each other its I/O node and its nodes, psets and nodes in the order of their numbers. So every member finds all
//! others, and which of them are near each other, from what a launch says of nodes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use super::Staging;
use crate::distribution::HOME;
use crate::ids::{JobId, NodeId, PsetId};
use crate::psets::PsetTable;
use crate::ras::{RasEvent, RasKind, Severity};
use crate::trees::Topology;
use crate::world::{NodeRange, World};

/// Who is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// The I/O node of a pset.
    IoNode(PsetId),
    /// A node.
    Node(NodeId),
}

impl core::fmt::Display for Station {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::IoNode(pset) => write!(f, "the I/O node of pset {pset}"),
            Self::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// What is recorded of a piece that does not belong to the file; `from` is who sent all of it, if one did.
#[must_use]
pub fn damaged_piece(job: Option<JobId>, piece: u32, from: Option<Station>) -> RasEvent {
    let whose = from.map_or_else(|| String::from("several nodes"), |station| station.to_string());
    RasEvent {
        severity: Severity::Error,
        kind: RasKind::DamagedPiece,
        job,
        rank: None,
        address: None,
        instruction: None,
        text: format!("piece {piece} of a staged file, from {whose}, is not what the file's hash says"),
    }
}

/// Members with consecutive numbers: an I/O node, or nodes of one pset with consecutive numbers.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the first.
    member: u32,
    pset: PsetId,
    /// The first node, and how many there are; `None` for the I/O node.
    nodes: Option<NodeRange>,
}

/// See this module.
#[derive(Clone, Debug)]
pub struct Roster {
    home: PsetId,
    /// In the order of their members.
    runs: Vec<Run>,
    members: u32,
    topology: Topology,
}

/// Nodes as parts that are of one pset each, in the order of the world. Ends at a node that is in none.
fn parts(world: &World, psets: PsetTable) -> impl Iterator<Item = (PsetId, NodeRange)> {
    world.nodes.iter().flat_map(move |range| {
        let mut left = *range;
        core::iter::from_fn(move || {
            let (pset, count) = psets.part(left)?;
            let part = NodeRange { first: left.first, count };
            left = NodeRange { first: NodeId(left.first.0.saturating_add(count)), count: left.count - count };
            Some((pset, part))
        })
    })
}

impl Roster {
    /// Those to whom files are staged. In the published scheme these are nodes alone, and it does not matter where they
    /// are. `None` if there is no memory for it, or nodes are in no pset.
    #[must_use]
    pub fn new(staging: &Staging, world: &World) -> Option<Self> {
        let knows_psets = staging.scheme.knows_psets();
        let mut nodes = Vec::new();
        nodes.try_reserve_exact(parts(world, staging.psets).count()).ok()?;
        nodes.extend(parts(world, staging.psets));
        let count: u64 = nodes.iter().map(|(_, range)| u64::from(range.count)).sum();
        if count != world.nodes.iter().map(|range| u64::from(range.count)).sum::<u64>() {
            return None;
        }
        nodes.sort_unstable_by_key(|(pset, range)| (*pset != staging.home, *pset, range.first));
        let (mut runs, mut sizes) = (Vec::new(), Vec::new());
        runs.try_reserve_exact(2 * nodes.len()).ok()?;
        sizes.try_reserve_exact(nodes.len() + 1).ok()?;
        sizes.push(0_u32);
        let (mut member, mut last) = (1_u32, staging.home);
        for (pset, range) in nodes {
            if pset != last && knows_psets {
                runs.push(Run { member, pset, nodes: None });
                member = member.checked_add(1)?;
                sizes.push(0);
            }
            last = pset;
            runs.push(Run { member, pset, nodes: Some(range) });
            member = member.checked_add(range.count)?;
            if let Some(size) = sizes.last_mut() {
                *size = size.checked_add(range.count)?;
            }
        }
        let topology = Topology::of_psets(sizes)?;
        Some(Self { home: staging.home, runs, members: member - 1, topology })
    }

    /// How many there are, but for home.
    #[must_use]
    pub const fn members(&self) -> u32 {
        self.members
    }

    /// Which of them are near each other.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Who a member is, if there is such.
    #[must_use]
    pub fn station(&self, member: u32) -> Option<Station> {
        if member == HOME {
            return Some(Station::IoNode(self.home));
        }
        let index = self.runs.partition_point(|run| run.member <= member).checked_sub(1)?;
        let Run { member: first, pset, nodes } = self.runs.get(index).filter(|_| member <= self.members)?;
        let Some(nodes) = nodes else { return Some(Station::IoNode(*pset)) };
        Some(Station::Node(NodeId(nodes.first.0.saturating_add(member - first))))
    }

    /// Where a member is, if there is such.
    #[must_use]
    pub fn address(&self, member: u32) -> Option<Ipv4Addr> {
        Some(match self.station(member)? {
            Station::IoNode(pset) => pset.address(),
            Station::Node(node) => node.address(),
        })
    }

    /// Which member a node is, if it is one.
    #[must_use]
    pub fn member_of(&self, node: NodeId) -> Option<u32> {
        self.runs.iter().find_map(|run| {
            let range = run.nodes?;
            let inside = node.0.checked_sub(range.first.0).filter(|inside| *inside < range.count)?;
            Some(run.member + inside)
        })
    }

    /// Which member a pset's I/O node is: [`HOME`], one that passes on what its nodes get, or none.
    #[must_use]
    pub fn io_node(&self, pset: PsetId) -> Option<u32> {
        if pset == self.home {
            return Some(HOME);
        }
        self.runs.iter().find(|run| run.pset == pset && run.nodes.is_none()).map(|run| run.member)
    }

    /// The nodes among members.
    pub fn nodes_of(&self, members: &[u32]) -> impl Iterator<Item = NodeId> {
        members.iter().filter_map(|member| match self.station(*member)? {
            Station::Node(node) => Some(node),
            Station::IoNode(_) => None,
        })
    }

    /// What it takes of the heap, and what it takes to make it, for these nodes, bytes.
    #[must_use]
    pub fn memory_bytes(staging: &Staging, world: &World) -> usize {
        let parts = parts(world, staging.psets).count();
        let part = size_of::<(PsetId, NodeRange)>() + 2 * size_of::<Run>() + size_of::<u32>();
        parts.saturating_add(1).saturating_mul(part).saturating_add(Topology::memory_bytes(parts + 1))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    use proptest::collection::btree_set;
    use proptest::prelude::{Just, Strategy};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Roster, Station};
    use crate::distribution::Scheme;
    use crate::ids::{NodeId, PsetId};
    use crate::psets::PsetTable;
    use crate::staging::Staging;
    use crate::world::{JobKey, World};

    fn staging(home: u32, psets: PsetTable, scheme: Scheme) -> Staging {
        let (mtu, bytes_per_second, latency_ns, stall_ns, files) = (9000, 1, 0, 0, Vec::new());
        Staging { home: PsetId(home), psets, mtu, bytes_per_second, latency_ns, stall_ns, scheme, files }
    }

    fn world(nodes: &[u32]) -> World {
        World::new(JobKey([1; 32]), 2, nodes.iter().copied().map(NodeId))
    }

    fn roster(home: u32, (nodes, size): (u32, u32), of: &[u32]) -> Roster {
        let staging = staging(home, PsetTable::new(nodes, size), Scheme::TwoTrees);
        Roster::new(&staging, &world(of)).expect("memory")
    }

    #[test]
    fn members_of_one_pset_are_its_nodes_in_their_order() {
        let roster = roster(0, (10, 10), &[4, 9, 3]);
        assert_eq!(roster.address(0), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!([3, 4, 9].map(|node| roster.member_of(NodeId(node))), [Some(1), Some(2), Some(3)]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|member| roster.address(member)),
            [
                Some(PsetId(0).address()),
                Some(NodeId(3).address()),
                Some(NodeId(4).address()),
                Some(NodeId(9).address()),
                None
            ]
        );
        assert_eq!((roster.members(), roster.topology().psets(), roster.member_of(NodeId(5))), (3, 1, None));
    }

    #[test]
    fn other_psets_have_their_io_nodes_before_their_nodes() {
        // Psets of four; home is the second's.
        let roster = roster(1, (12, 4), &[2, 3, 4, 5, 8]);
        let stations: Vec<Station> = (0..=7).filter_map(|member| roster.station(member)).collect();
        let (io_node, node) = (|pset| Station::IoNode(PsetId(pset)), |node| Station::Node(NodeId(node)));
        assert_eq!(stations, [io_node(1), node(4), node(5), io_node(0), node(2), node(3), io_node(2), node(8)]);
        assert!(roster.topology().io_nodes().eq([3, 6]));
        assert_eq!([1, 0, 2, 3].map(|pset| roster.io_node(PsetId(pset))), [Some(0), Some(3), Some(6), None]);
        assert!(roster.nodes_of(&[3, 2, 7, 9]).eq([5, 8].map(NodeId)));
    }

    #[test]
    fn in_the_published_scheme_members_are_nodes_alone() {
        let staging = staging(1, PsetTable::new(12, 4), Scheme::published(5));
        let roster = Roster::new(&staging, &world(&[2, 3, 4, 5, 8])).expect("memory");
        assert_eq!((roster.members(), roster.topology().psets(), roster.io_node(PsetId(0))), (5, 1, None));
        assert_eq!(roster.io_node(PsetId(1)), Some(0));
    }

    #[test]
    fn nodes_of_no_pset_have_no_roster() {
        for nodes in [&[3, 4, 5][..], &[7], &[u32::MAX]] {
            let staging = staging(0, PsetTable::new(5, 2), Scheme::TwoTrees);
            assert!(Roster::new(&staging, &world(nodes)).is_none());
        }
    }

    proptest! {
        #[test]
        fn everybody_is_one_member(
            (home, size, nodes) in (0..8_u32, 1..9_u32, btree_set(0..60_u32, 1..40).prop_flat_map(|nodes| {
                Just(nodes.into_iter().collect::<Vec<_>>()).prop_shuffle()
            })),
        ) {
            let psets = PsetTable::new(60, size);
            let roster = roster(home, (60, size), &nodes);
            let (topology, others) = (roster.topology(), roster.topology().io_nodes().count() as u32);
            prop_assert_eq!(roster.members(), nodes.len() as u32 + others);
            prop_assert!(topology.members().is_none_or(|members| members == roster.members()));
            for node in nodes.iter().copied().map(NodeId) {
                let member = roster.member_of(node).expect("a member");
                prop_assert_eq!(roster.station(member), Some(Station::Node(node)));
                let io_node = roster.io_node(psets.pset_of(node).expect("a pset")).expect("an I/O node");
                prop_assert!(!topology.is_across(member, io_node));
            }
            for member in topology.io_nodes() {
                prop_assert!(matches!(roster.station(member), Some(Station::IoNode(_))));
            }
        }
    }
}
