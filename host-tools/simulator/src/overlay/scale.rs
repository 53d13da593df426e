//! The overlay of a job on very many nodes, on which nothing goes wrong: how long it takes to start, when the front end
//! has an epoch, and how many bytes come there. The machines are the real ones; what the nodes' processors and the
//! links take is reckoned.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::{
    self, Above, Down, Event, FrontEnd, Gathered, Layout, METRICS, NODE_METRICS, NodeValues, Subject, Tallies, Up,
    Values,
};
use coppice_protocol::ranks::Ranks;

use crate::random::Random;

/// What things cost.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Bandwidth of every link, each way, bytes per second.
    pub link_bytes_per_second: u64,
    /// Latency between any two, ns.
    pub latency_ns: u64,
    /// A node, for a message of an overlay that it sends or gets, its packets included, ns.
    pub message_ns: u64,
    /// A node, for each byte of that: made or read, merged, checked, ns.
    pub byte_ns: f64,
    /// The service node, for a message that it sends or gets, ns; an I/O node between takes no longer.
    pub front_end_ns: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            link_bytes_per_second: 1_250_000_000,
            latency_ns: 2_000,
            message_ns: 6_000,
            byte_ns: 4.0,
            front_end_ns: 3_000,
        }
    }
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Nodes of the job.
    pub nodes: u32,
    /// Ranks on each.
    pub ranks_per_node: u32,
    /// Epochs.
    pub epochs: u64,
    /// What things cost.
    pub costs: Costs,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Communication processes.
    pub processes: u32,
    /// Of these on the longest way.
    pub depth: u32,
    /// From asking for it to the first part that may flow, ns.
    pub start_ns: u64,
    /// Bytes that the front end said until then.
    pub start_bytes: u64,
    /// From the end of an epoch until the front end has all of it, the longest, ns.
    pub lag_ns: u64,
    /// Bytes that come to the front end in an epoch, the most.
    pub front_end_bytes: u64,
    /// Bytes that all nodes send in an epoch, the most.
    pub all_bytes: u64,
    /// Epochs with all ranks in them.
    pub whole: u64,
    /// What the host's processor worked for it, ns.
    pub worked_ns: u64,
}

/// Who sends or gets something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    FrontEnd,
    Node(u32),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Down(u32, Vec<u8>),
    Up { node: u32, index: u32, from: u32, bytes: Vec<u8> },
    Home(u32, Vec<u8>),
    EpochEnds(u32, u64),
}

/// When each is done with what it has to do.
#[derive(Debug, Default)]
struct Busy {
    sends_ns: BTreeMap<Party, u64>,
    works_ns: BTreeMap<Party, u64>,
}

struct World {
    scale: Scale,
    front_end: FrontEnd,
    nodes: Vec<overlay::Node>,
    random: Random,
    queue: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    number: u64,
    now_ns: u64,
    busy: Busy,
    /// By epoch: bytes to the front end, and all.
    bytes: BTreeMap<u64, (u64, u64)>,
    ended_ns: BTreeMap<u64, u64>,
    gathered: Outcome,
}

fn ranks_of(scale: &Scale, node: u32) -> Ranks {
    Ranks::range(Rank(node * scale.ranks_per_node), scale.ranks_per_node)
}

/// What a rank does in an epoch: most of it much alike, and some not at all.
fn values(random: &mut Random) -> Values {
    let mut values = [0; METRICS];
    for (metric, value) in values.iter_mut().enumerate() {
        let about = 1_000 * 7_u64.pow(metric as u32 % 6);
        *value = match metric % 3 {
            0 => random.between(about, about + about / 20),
            1 => random.between(0, about),
            _ => 0,
        };
    }
    values
}

/// How a node is: each a little different.
fn node_values(random: &mut Random) -> NodeValues {
    [(); NODE_METRICS].map(|()| random.between(10_000_000, 11_000_000))
}

/// Calls that a rank makes, by number: reads and writes, polls and waits, clocks and messages.
const CALLS: [u16; 8] = [0, 1, 7, 20, 45, 202, 228, 232];

/// Where a rank sends to: six neighbours, as in a cube; and what it calls.
fn tallies(node: u32, random: &mut Random) -> Tallies {
    let mut tallies = Tallies::default();
    for away in [1, 32, 1024] {
        for other in [node.wrapping_sub(away), node + away] {
            tallies.sent_to.add(Some(NodeId(other % (1 << 14))), random.between(1_000_000, 1_010_000));
        }
    }
    for number in CALLS {
        tallies.calls.add(Some(number), random.between(100, 10_000));
    }
    tallies
}

/// Runs it.
#[must_use]
pub fn run(scale: &Scale) -> Outcome {
    let begin = Instant::now();
    let nodes: BTreeMap<NodeId, Ranks> = (0..scale.nodes).map(|node| (NodeId(node), ranks_of(scale, node))).collect();
    let size = scale.nodes.saturating_mul(scale.ranks_per_node);
    let subject = Subject { size, nodes, layout: Layout::Average, period_ns: 1_000_000_000, sample_period_ns: 0 };
    let mut world = World {
        scale: *scale,
        front_end: FrontEnd::new(1, subject, 0),
        nodes: (0..scale.nodes).map(|node| overlay::Node::new(NodeId(node))).collect(),
        random: Random::new(1),
        queue: BinaryHeap::new(),
        number: 0,
        now_ns: 0,
        busy: Busy::default(),
        bytes: BTreeMap::new(),
        ended_ns: BTreeMap::new(),
        gathered: Outcome::default(),
    };
    world.settle();
    world.go();
    for epoch in 0..scale.epochs {
        let ends_ns = (world.now_ns / 1_000_000_000 + 1) * 1_000_000_000;
        world.ended_ns.insert(epoch, ends_ns);
        for node in 0..scale.nodes {
            world.at(ends_ns, Happens::EpochEnds(node, epoch));
        }
        world.go();
    }
    let of_epochs = |what: fn(&(u64, u64)) -> u64| world.bytes.values().map(what).max().unwrap_or_default();
    Outcome {
        front_end_bytes: of_epochs(|(home, _)| *home),
        all_bytes: of_epochs(|(_, all)| *all),
        worked_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ..world.gathered
    }
}

impl World {
    fn at(&mut self, at_ns: u64, what: Happens) {
        self.number += 1;
        self.queue.push(Reverse((at_ns, self.number, what)));
    }

    fn go(&mut self) {
        while let Some(Reverse((at_ns, _, what))) = self.queue.pop() {
            self.now_ns = at_ns;
            self.happen(what);
            self.settle();
        }
    }

    /// Nothing is wrong with any of it: it was said by the machines themselves.
    fn happen(&mut self, what: Happens) {
        let now_ns = self.now_ns;
        match what {
            Happens::Down(node, bytes) => {
                let ranks = ranks_of(&self.scale, node);
                let Ok(order) = Down::decode(&bytes) else { return };
                if let Some(answer) = self.nodes[node as usize].handle_down(order, &ranks, now_ns) {
                    self.send(node, Above::FrontEnd, &answer);
                }
                self.flush(node);
            }
            Happens::Up { node, index, from, bytes } => {
                let Ok(message) = Up::decode(&bytes) else { return };
                self.nodes[node as usize].handle_up(NodeId(from), index, message, now_ns);
                self.flush(node);
            }
            Happens::Home(node, bytes) => {
                if let Ok(message) = Up::decode(&bytes) {
                    self.front_end.handle(NodeId(node), message, now_ns);
                }
            }
            Happens::EpochEnds(node, epoch) => {
                let ranks: Vec<Rank> = ranks_of(&self.scale, node).of_job(u32::MAX).collect();
                let gathered = Gathered {
                    tallies: ranks.iter().map(|rank| (*rank, tallies(node, &mut self.random))).collect(),
                    ranks: ranks.into_iter().map(|rank| (rank, values(&mut self.random))).collect(),
                    node: Some(node_values(&mut self.random)),
                    ..Gathered::default()
                };
                self.nodes[node as usize].submit(epoch, &gathered);
                self.flush(node);
            }
        }
    }

    fn flush(&mut self, node: u32) {
        while let Some((above, message)) = self.nodes[node as usize].poll_transmit(self.now_ns) {
            self.send(node, above, &message);
        }
    }

    fn send(&mut self, from: u32, to: Above, message: &Up) {
        let bytes = message.encode();
        let length = bytes.len() as u64;
        if let Up::Part { part, .. } = message {
            let (home, all) = self.bytes.entry(part.epoch()).or_default();
            *all += length;
            *home += if to == Above::FrontEnd { length } else { 0 };
        }
        match to {
            Above::FrontEnd => {
                let at_ns = self.arrival_ns(Party::Node(from), Party::FrontEnd, length);
                self.at(at_ns, Happens::Home(from, bytes));
            }
            Above::Process { index, node } => {
                let at_ns = self.arrival_ns(Party::Node(from), Party::Node(node.0), length);
                self.at(at_ns, Happens::Up { node: node.0, index, from, bytes });
            }
        }
    }

    /// When what one sends now is taken by the other: each does one thing at a time, and so does its link.
    fn arrival_ns(&mut self, from: Party, to: Party, bytes: u64) -> u64 {
        let Costs { link_bytes_per_second, latency_ns, message_ns, byte_ns, front_end_ns } = self.scale.costs;
        let works_ns = |party: Party| match party {
            Party::FrontEnd => front_end_ns,
            Party::Node(_) => message_ns + (bytes as f64 * byte_ns) as u64,
        };
        let made_ns = self.works_until(from, self.now_ns, works_ns(from));
        let wire_ns = bytes * 1_000_000_000 / link_bytes_per_second.max(1);
        let sent = self.busy.sends_ns.entry(from).or_default();
        *sent = made_ns.max(*sent) + wire_ns;
        let came_ns = *sent + latency_ns;
        self.works_until(to, came_ns, works_ns(to))
    }

    fn works_until(&mut self, party: Party, from_ns: u64, for_ns: u64) -> u64 {
        let until = self.busy.works_ns.entry(party).or_default();
        *until = from_ns.max(*until) + for_ns;
        *until
    }

    fn settle(&mut self) {
        while let Some((NodeId(node), order)) = self.front_end.poll_transmit() {
            let bytes = order.encode();
            let length = bytes.len() as u64;
            self.gathered.start_bytes += length;
            let at_ns = self.arrival_ns(Party::FrontEnd, Party::Node(node), length);
            self.at(at_ns, Happens::Down(node, bytes));
            // It has flowed when all have heard of it.
            self.gathered.start_ns = self.gathered.start_ns.max(at_ns);
        }
        while let Some(event) = self.front_end.poll_event() {
            match event {
                Event::Started { processes, depth } => {
                    (self.gathered.processes, self.gathered.depth) = (processes, depth);
                }
                Event::Epoch(part) => {
                    let all = u64::from(self.scale.nodes) * u64::from(self.scale.ranks_per_node);
                    self.gathered.whole += u64::from(part.ranks().count() == all);
                    let ended_ns = self.ended_ns.get(&part.epoch()).copied().unwrap_or(self.now_ns);
                    self.gathered.lag_ns = self.gathered.lag_ns.max(self.now_ns.saturating_sub(ended_ns));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Costs, Scale, run};

    #[test]
    fn all_of_a_large_job_comes_together_through_a_narrow_tree() {
        let scale = Scale { nodes: 500, ranks_per_node: 4, epochs: 3, costs: Costs::default() };
        let gathered = run(&scale);
        assert_eq!(gathered.whole, 3, "{gathered:?}");
        assert!(gathered.depth >= 2 && gathered.processes > 20, "{gathered:?}");
        assert!(gathered.front_end_bytes * 5 < gathered.all_bytes, "{gathered:?}");
        let slower = Costs { link_bytes_per_second: 1_000_000, ..Costs::default() };
        assert!(run(&Scale { costs: slower, ..scale }).lag_ns > gathered.lag_ns);
    }
}
