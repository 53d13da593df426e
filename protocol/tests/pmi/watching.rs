//! Jobs whose nodes watch each other, over a network on which everything takes a while, and some of which dies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coppice_protocol::pmi::PeerFrames;

use crate::barriers::{Flight, Random};
use crate::cluster::Cluster;

/// What a frame takes from node to node.
pub(crate) const HOP_NS: u64 = 1_000_000;

/// Nodes that watch each other.
pub(crate) struct Watching {
    pub(crate) cluster: Cluster,
    /// Nodes that neither say nor hear anything.
    pub(crate) dead: BTreeSet<usize>,
    /// Nodes that were not told of the job.
    absent: BTreeSet<usize>,
    flights: VecDeque<(u64, Flight)>,
    /// Those that talk to each other.
    pairs: Vec<(usize, usize)>,
    /// Frames that each has sent.
    pub(crate) sent: Vec<u64>,
    /// Of a hundred frames so many are lost.
    lost_percent: usize,
    random: Random,
    /// When a node has heard something of another.
    pub(crate) heard: BTreeMap<(usize, usize), u64>,
    /// When a node knew that another is gone, and in which order.
    pub(crate) known: Vec<(usize, usize, u64)>,
}

impl Watching {
    pub(crate) fn new(nodes: usize) -> Self {
        let cluster = Cluster::watching(&vec![1; nodes]);
        let peers = cluster.servers.iter().map(|server| server.peers());
        let pairs = peers.enumerate().flat_map(|(from, peers)| peers.into_iter().map(move |to| (from, to as usize)));
        Self {
            pairs: pairs.collect(),
            cluster,
            dead: BTreeSet::new(),
            absent: BTreeSet::new(),
            flights: VecDeque::new(),
            sent: vec![0; nodes],
            lost_percent: 0,
            random: Random(1),
            heard: BTreeMap::new(),
            known: Vec::new(),
        }
    }

    /// One that goes on without those that die.
    pub(crate) fn outliving(nodes: usize) -> Self {
        let mut watching = Self::new(nodes);
        watching.cluster.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
        watching
    }

    /// One on a network that loses something.
    pub(crate) fn losing(nodes: usize, lost_percent: usize, seed: u64) -> Self {
        let mut watching = Self::outliving(nodes);
        watching.lose(lost_percent, seed);
        watching
    }

    /// From now on so much is lost.
    pub(crate) fn lose(&mut self, lost_percent: usize, seed: u64) {
        (self.lost_percent, self.random) = (lost_percent, Random(seed | 1 << 40));
        // The first numbers of small seeds are much alike.
        assert!((0..20).all(|_| self.random.below(2) < 2));
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.cluster.now_ns
    }

    /// A node dies.
    pub(crate) fn kill(&mut self, node: usize) {
        self.dead.insert(node);
        self.cluster.servers[node].trust_nodes();
    }

    /// A node is not told of the job yet.
    pub(crate) fn hold_up(&mut self, node: usize) {
        self.absent.insert(node);
        self.cluster.servers[node].trust_nodes();
    }

    /// It is told.
    pub(crate) fn launch(&mut self, node: usize) {
        self.absent.remove(&node);
        self.cluster.start_again(node);
        self.step(self.now_ns());
    }

    /// Those that live.
    pub(crate) fn living(&self) -> Vec<usize> {
        (0..self.sent.len()).filter(|node| !self.dead.contains(node)).collect()
    }

    /// Time passes, and nobody hears anything but at its end.
    pub(crate) fn stall(&mut self, ns: u64) {
        self.flights.clear();
        self.cluster.now_ns += ns;
        self.step(self.now_ns());
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, ns: u64) {
        let end_ns = self.now_ns() + ns;
        self.step(self.now_ns());
        while self.step_before(end_ns) {}
        self.step(end_ns);
    }

    /// Until all that live know of all that do not, and for how long, at most; then how long it was.
    pub(crate) fn until_known(&mut self, ns: u64) -> Option<u64> {
        let begin_ns = self.now_ns();
        self.step(begin_ns);
        while !self.all_know() {
            if !self.step_before(begin_ns + ns) {
                return None;
            }
        }
        Some(self.now_ns() - begin_ns)
    }

    /// The next thing happens, if it does before that.
    fn step_before(&mut self, end_ns: u64) -> bool {
        let timeouts = self.cluster.servers.iter().filter_map(|server| server.poll_timeout());
        let next_ns = timeouts.chain(self.flights.front().map(|(at_ns, _)| *at_ns)).min();
        let next_ns = next_ns.filter(|next_ns| *next_ns <= end_ns);
        next_ns.inspect(|next_ns| self.step((*next_ns).max(self.now_ns()))).is_some()
    }

    pub(crate) fn all_know(&self) -> bool {
        self.living().iter().all(|node| self.dead.iter().all(|dead| self.knows(*node, *dead)))
    }

    pub(crate) fn knows(&self, node: usize, dead: usize) -> bool {
        self.cluster.servers[node].is_gone(dead as u32)
    }

    /// Whether news can come from each of those that live to each other.
    pub(crate) fn is_in_one_piece(&self) -> bool {
        let living = self.living();
        let mut reached: BTreeSet<usize> = living.first().copied().into_iter().collect();
        while let Some((_, to)) =
            self.pairs.iter().find(|(from, to)| reached.contains(from) && living.contains(to) && !reached.contains(to))
        {
            reached.insert(*to);
        }
        reached.len() == living.len()
    }

    /// Nobody who lives is taken for dead, but by those that can hear from nobody.
    pub(crate) fn is_calm(&self) -> bool {
        let living = self.living();
        let hears = |node: &usize| self.pairs.iter().any(|(from, to)| to == node && living.contains(from));
        let hearing = living.iter().filter(|node| hears(node));
        hearing.into_iter().all(|node| living.iter().all(|other| !self.knows(*node, *other)))
    }

    fn step(&mut self, now_ns: u64) {
        self.cluster.now_ns = now_ns;
        self.cluster.pass(0);
        while let Some((_, Flight { from, to, bytes })) = self.flights.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            if self.dead.contains(&to) || self.dead.contains(&from) {
                continue;
            }
            if self.absent.contains(&to) {
                let frame = PeerFrames::default().advance(&mut &bytes[..]).expect("a frame").expect("a whole one");
                let bytes = frame.absence();
                self.flights.push_back((now_ns + HOP_NS, Flight { from: to, to: from, bytes }));
                continue;
            }
            self.cluster.deliver(to, &bytes);
            self.heard.insert((to, from), now_ns);
        }
        for (from, to) in self.pairs.clone() {
            while let Some(bytes) = self.cluster.frame(from, to) {
                self.sent[from] += 1;
                if self.random.below(100) >= self.lost_percent {
                    self.flights.push_back((now_ns + HOP_NS, Flight { from, to, bytes }));
                }
            }
        }
        for node in self.living() {
            for other in 0..self.sent.len() {
                if self.knows(node, other) && !self.known.iter().any(|known| (known.0, known.1) == (node, other)) {
                    self.known.push((node, other, now_ns));
                }
            }
        }
    }
}
