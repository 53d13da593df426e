//! What the links of the cluster are like. It is kept here, and the fabric is told: one that is started in the place of
//! another makes its links so from the beginning, and a node that is booted anew finds its link as it was.

mod orders;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use coppice_api::cluster::ClusterState;
use coppice_api::link::{Direction, LinkChange, LinkShape, LinkShapes, Station};
use coppice_protocol::distribution;
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::ras::{RasKind, Severity};
use coppice_protocol::world::Passage;

use self::orders::Orders;
use super::node::Phase;
use super::{Controller, Now, ras};
use crate::plant::Plant;

const SECOND_NS: u64 = 1_000_000_000;

/// One link.
#[derive(Debug)]
struct Link {
    shapes: LinkShapes,
    /// The file that its frames are recorded in.
    recording: Option<PathBuf>,
}

/// All links.
#[derive(Debug)]
pub(super) struct Links {
    psets: PsetTable,
    links: BTreeMap<Station, Link>,
    pub(super) orders: Orders,
}

impl Links {
    /// The links of a cluster's nodes and I/O nodes, all alike.
    pub(super) fn new(table: &PsetTable, shape: LinkShape) -> Self {
        let nodes = table.nodes().map(station);
        let stations = nodes.chain(table.psets().map(io_station));
        let link = || Link { shapes: LinkShapes::both(shape), recording: None };
        Self { psets: *table, links: stations.map(|station| (station, link())).collect(), orders: Orders::default() }
    }

    /// What all of them are like.
    pub(super) fn shapes(&self) -> BTreeMap<Station, LinkShapes> {
        self.links.iter().map(|(station, link)| (*station, link.shapes)).collect()
    }

    /// Which nodes and I/O nodes belong together.
    pub(super) const fn psets(&self) -> PsetTable {
        self.psets
    }

    /// What those of some nodes are like to which files are sent from a pset, and of the I/O nodes on the way.
    pub(super) fn to(
        &self,
        nodes: impl IntoIterator<Item = NodeId>,
        home: PsetId,
        scheme: distribution::Scheme,
    ) -> impl Iterator<Item = LinkShapes> {
        let nodes: Vec<NodeId> = nodes.into_iter().collect();
        let mut psets = BTreeSet::from([home]);
        if scheme.knows_psets() {
            psets.extend(nodes.iter().filter_map(|node| self.psets.pset_of(*node)));
        }
        self.of(nodes, psets)
    }

    /// What it takes to get from one of these nodes to another over the slowest of their links.
    pub(super) fn passage(&self, nodes: impl IntoIterator<Item = NodeId>) -> Passage {
        let links: Vec<LinkShapes> = self.of(nodes, []).collect();
        let limits = links.iter().flat_map(|link| [link.to, link.from]).filter_map(|way| way.bandwidth_bits_per_s);
        let byte_ns = limits.map(|bits| 8 * SECOND_NS / bits.max(1)).max().unwrap_or(0);
        let narrow = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        Passage { latency_ns: narrow(latency_ns(&links)), byte_ns: narrow(byte_ns) }
    }

    /// What those of some nodes and I/O nodes are like.
    fn of(
        &self,
        nodes: impl IntoIterator<Item = NodeId>,
        psets: impl IntoIterator<Item = PsetId>,
    ) -> impl Iterator<Item = LinkShapes> {
        let stations = nodes.into_iter().map(station).chain(psets.into_iter().map(io_station));
        stations.filter_map(|station| self.links.get(&station).map(|link| link.shapes))
    }

    /// What the slower way of a node's link carries, bits/s; nothing, if it is not limited.
    pub(super) fn bandwidth_of(&self, node: NodeId) -> Option<u64> {
        let shapes = self.links.get(&station(node))?.shapes;
        let limited = [shapes.to.bandwidth_bits_per_s, shapes.from.bandwidth_bits_per_s];
        limited.into_iter().flatten().min()
    }

    /// Why frames do not reach a node or its I/O node, if that is because somebody wanted it; to be added to a line.
    pub(super) fn why_cut_off(&self, node: NodeId, pset: PsetId) -> String {
        let is_cut = |station| self.links.get(&station).is_some_and(|link| link.shapes.cut().is_some());
        match [station(node), io_station(pset)].into_iter().find(|station| is_cut(*station)) {
            Some(cut) => format!("; the link of {} is cut, `coppice link {cut} --mend` mends it", named(cut)),
            None => String::new(),
        }
    }
}

/// What a frame takes over one of these links to the switch and over another from it, at most, ns.
pub(super) fn latency_ns(links: &[LinkShapes]) -> u64 {
    let longest = |of: fn(&LinkShapes) -> u64| links.iter().map(of).max().unwrap_or(0);
    longest(|link| link.to.latency_ns).saturating_add(longest(|link| link.from.latency_ns))
}

fn station(node: NodeId) -> Station {
    Station::Node(node.0)
}

fn io_station(pset: PsetId) -> Station {
    Station::IoNode(pset.0)
}

/// A station as people call it.
fn named(station: Station) -> String {
    match station {
        Station::Node(node) => format!("node {node}"),
        Station::IoNode(pset) => format!("the I/O node of pset {pset}"),
    }
}

impl<P: Plant> Controller<P> {
    /// Makes a link different, as far as this is written down. Whoever wonders later why a node is lost is told.
    fn reshape(&mut self, station: Station, change: &LinkChange, now: Now) {
        let Some(link) = self.links.links.get_mut(&station) else { return };
        let (before, after) = (link.shapes, change.applied_to(link.shapes));
        link.shapes = after;
        if before.cut() == after.cut() {
            return;
        }
        let (kind, severity, text) = match after.cut() {
            None => (RasKind::LinkMended, Severity::Info, format!("the link of {} is mended", named(station))),
            Some(direction) => {
                let way = match direction {
                    Direction::Both => "both ways",
                    Direction::To => "to it",
                    Direction::From => "from it",
                };
                let text = format!("the link of {} is cut on request, {way}", named(station));
                (RasKind::LinkCut, Severity::Warn, text)
            }
        };
        let node = station.node().map(NodeId);
        self.record_ras(node, &ras(severity, kind, None, text), now);
        if after.cut().is_none() {
            self.try_cut_off(station);
        }
    }

    /// Nodes that could not get ready as they were cut off are not to wait any longer than they have to.
    fn try_cut_off(&mut self, station: Station) {
        let nodes = match station {
            Station::Node(node) => vec![NodeId(node)],
            Station::IoNode(pset) => self.pset_mut(PsetId(pset)).map(|pset| pset.nodes.clone()).unwrap_or_default(),
        };
        for node in nodes {
            self.nodes.forgive(node);
            if self.state != ClusterState::Starting
                && self.nodes.get(node).map(super::Node::phase) == Some(Phase::Failed)
            {
                self.set_phase(node, Phase::Waiting);
            }
        }
    }

    /// The fabric is gone, and with it what it recorded.
    pub(super) fn recordings_gone(&mut self, reason: &str, now: Now) {
        let of = self.links.links.iter().filter(|(_, link)| link.recording.is_some());
        for station in of.map(|(station, _)| *station).collect::<Vec<_>>() {
            self.recording_ended(station, reason, now);
        }
    }

    /// A recording is over, and nobody wanted that.
    pub(super) fn recording_ended(&mut self, station: Station, reason: &str, now: Now) {
        let Some(file) = self.links.links.get_mut(&station).and_then(|link| link.recording.take()) else { return };
        let text = format!(
            "the recording of the link of {} in '{}' ended: {reason}",
            named(station),
            coppice_api::shown(&file)
        );
        let event = ras(Severity::Warn, RasKind::RecordingEnded, None, text);
        self.record_ras(station.node().map(NodeId), &event, now);
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::link::{LinkShape, LinkShapes};
    use coppice_protocol::ids::NodeId;
    use coppice_protocol::psets::PsetTable;
    use coppice_protocol::world::Passage;

    use super::{Links, station};

    /// Of the job's nodes alone, whichever way it goes slowest.
    #[test]
    fn a_passage_is_that_of_the_slowest_links() {
        let shape = |bits, latency_ns| LinkShape { bandwidth_bits_per_s: bits, latency_ns, ..LinkShape::default() };
        let mut links = Links::new(&PsetTable::new(4, 2), LinkShape::default());
        let mut set = |node, to, from| {
            links.links.get_mut(&station(NodeId(node))).expect("a link").shapes = LinkShapes { to, from };
        };
        set(0, shape(Some(1_000_000_000), 3_000), shape(None, 1_000));
        set(1, shape(None, 2_000), shape(Some(1_000_000), 5_000));
        set(3, shape(Some(0), u64::MAX), shape(None, 0));
        let of = |nodes: &[u32]| links.passage(nodes.iter().copied().map(NodeId));
        assert_eq!(of(&[2]), Passage::default());
        assert_eq!(of(&[0, 2]), Passage { latency_ns: 4_000, byte_ns: 8 });
        assert_eq!(of(&[0, 1, 2]), Passage { latency_ns: 8_000, byte_ns: 8_000 });
        assert_eq!(of(&[0, 1, 2, 3]), Passage { latency_ns: u32::MAX, byte_ns: u32::MAX });
    }
}
