//! How fast links carry what is sent: each node and each I/O node has one to the fabric, of which both directions are
//! apart. What is sent waits until its sender's link has carried what was there before it, and then until its
//! receiver's has: so many who speak with one I/O node wait for each other.

use coppice_protocol::ids::{NodeId, PsetId};

use super::queue::{MILLISECOND_NS, SECOND_NS};
use crate::random::Random;

/// What links of a run carry, ns per byte: 10, 1 and 0.4 Gbit/s.
const NS_PER_BYTE: [u64; 3] = [1, 8, 20];
/// What one carries at worst when it is slow, ns per byte: 2 Mbit/s.
pub(super) const SLOW_NS_PER_BYTE_MAX: u64 = 4000;
/// What is sent with everything: headers of frames.
const OVERHEAD_BYTES: u64 = 66;
/// What the fabric takes itself, ns.
const SWITCH_NS: u64 = 20_000;
/// What hosts add to that in between, ns.
const JITTER_NS_MAX: u64 = MILLISECOND_NS;
/// How often something comes late as a frame was lost, doubled or overtaken by another: what TCP makes of that is a
/// pause in its stream. Usually; and on a link that loses much.
const LATE_PER_MILLE: u64 = 20;
const LOSSY_PER_MILLE: u64 = 300;
/// How late that is at most, ns: frames that are sent again may be lost again.
pub(super) const LATE_NS_MAX: u64 = 400 * MILLISECOND_NS;
const LOSSY_LATE_NS_MAX: u64 = 3 * SECOND_NS;

/// Who has a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Station {
    Node(NodeId),
    IoNode(PsetId),
}

/// A link of one station.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// When all that its station has sent until now is through, and all that others have sent it, ns.
    sent_ns: u64,
    received_ns: u64,
    /// It carries less until then: ns, and ns per byte.
    slow: (u64, u64),
    /// It loses much until then, ns.
    lossy_until_ns: u64,
}

impl Link {
    fn ns_per_byte(&self, usual: u64, now_ns: u64) -> u64 {
        let (until_ns, slow) = self.slow;
        if until_ns > now_ns { slow.max(usual) } else { usual }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Links {
    ns_per_byte: u64,
    nodes: Vec<Link>,
    io_nodes: Vec<Link>,
}

impl Links {
    pub(super) fn draw(random: &mut Random, nodes: u32, psets: u32) -> Self {
        let ns_per_byte = NS_PER_BYTE[random.length(0, NS_PER_BYTE.len() - 1)];
        let links = |count: u32| vec![Link::default(); count as usize];
        Self { ns_per_byte, nodes: links(nodes), io_nodes: links(psets) }
    }

    fn of(&mut self, station: Station) -> Option<&mut Link> {
        match station {
            Station::Node(node) => self.nodes.get_mut(node.0 as usize),
            Station::IoNode(pset) => self.io_nodes.get_mut(pset.0 as usize),
        }
    }

    /// A node's link carries less until then.
    pub(super) fn slow(&mut self, node: NodeId, until_ns: u64, ns_per_byte: u64) {
        if let Some(link) = self.of(Station::Node(node)) {
            link.slow = (link.slow.0.max(until_ns), ns_per_byte);
        }
    }

    /// A node's link loses much until then.
    pub(super) fn lose(&mut self, node: NodeId, until_ns: u64) {
        if let Some(link) = self.of(Station::Node(node)) {
            link.lossy_until_ns = link.lossy_until_ns.max(until_ns);
        }
    }

    /// When something that is sent now arrives, ns. Frames are lost only as long as things go wrong.
    pub(super) fn carry(
        &mut self,
        (from, to): (Station, Station),
        bytes: usize,
        now_ns: u64,
        is_faulty: bool,
        random: &mut Random,
    ) -> u64 {
        let (usual, bytes) = (self.ns_per_byte, bytes as u64 + OVERHEAD_BYTES);
        let mut is_lossy = false;
        let mut at_ns = now_ns;
        if let Some(link) = self.of(from) {
            is_lossy |= link.lossy_until_ns > now_ns;
            at_ns = at_ns.max(link.sent_ns) + bytes * link.ns_per_byte(usual, now_ns);
            link.sent_ns = at_ns;
        }
        at_ns += SWITCH_NS;
        if let Some(link) = self.of(to) {
            is_lossy |= link.lossy_until_ns > now_ns;
            at_ns = at_ns.max(link.received_ns) + bytes * link.ns_per_byte(usual, now_ns);
            link.received_ns = at_ns;
        }
        let (per_mille, late_ns_max) =
            if is_lossy { (LOSSY_PER_MILLE, LOSSY_LATE_NS_MAX) } else { (LATE_PER_MILLE, LATE_NS_MAX) };
        let late_ns = if is_faulty && random.chance(per_mille) { random.delay(late_ns_max) } else { 0 };
        at_ns + late_ns + random.delay(JITTER_NS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::{NodeId, PsetId};

    use super::{JITTER_NS_MAX, Links, OVERHEAD_BYTES, SWITCH_NS, Station};
    use crate::random::Random;

    const SENT: usize = 1_000_000;

    fn links() -> Links {
        Links { ns_per_byte: 8, ..Links::draw(&mut Random::new(1), 4, 1) }
    }

    /// How long after another it came, and what is to be expected, in times that one takes on a link, and some jitter.
    fn assert_times(arrived_ns: &[u64], expected: &[u64]) {
        let one_ns = (SENT as u64 + OVERHEAD_BYTES) * 8;
        for (at_ns, times) in arrived_ns.iter().zip(expected) {
            let at_least = SWITCH_NS + times * one_ns;
            assert!((at_least..=at_least + JITTER_NS_MAX).contains(at_ns), "{arrived_ns:?} for {expected:?}");
        }
    }

    #[test]
    fn who_sends_to_one_waits_for_the_others_who_do() {
        let (mut links, mut random) = (links(), Random::new(2));
        let to = Station::IoNode(PsetId(0));
        let mut send = |node, to| {
            let from = Station::Node(NodeId(node));
            links.carry((from, to), SENT, 0, false, &mut random)
        };
        let arrived_ns = [send(0, to), send(1, to), send(2, to), send(3, Station::Node(NodeId(0)))];
        assert_times(&arrived_ns, &[2, 3, 4, 2]);
    }

    #[test]
    fn a_slow_link_is_slow_until_it_is_well() {
        let (mut links, mut random) = (links(), Random::new(3));
        let (from, to) = (Station::Node(NodeId(1)), Station::IoNode(PsetId(0)));
        links.slow(NodeId(1), 10, 80);
        let slow_ns = links.carry((from, to), SENT, 0, false, &mut random);
        assert_times(&[slow_ns], &[11]);
        // What was under way then is there before what is sent later.
        let later_ns = links.carry((from, to), SENT, 10, false, &mut random);
        assert_times(&[later_ns], &[12]);
    }

    #[test]
    fn links_that_lose_make_pauses() {
        let (mut links, mut random) = (links(), Random::new(4));
        links.lose(NodeId(2), u64::MAX);
        let mut late = |node: u32| {
            let ends = (Station::Node(NodeId(node)), Station::IoNode(PsetId(0)));
            let limit_ns = 10 * JITTER_NS_MAX;
            (0..1000_u64)
                .filter(|number| {
                    let now_ns = number * 1_000_000_000;
                    links.carry(ends, 100, now_ns, true, &mut random) > now_ns + limit_ns
                })
                .count()
        };
        let (usually, lossy) = (late(1), late(2));
        assert!(usually < 20 && lossy > 200, "{usually}, {lossy}");
    }
}
