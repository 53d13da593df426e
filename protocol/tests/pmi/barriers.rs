//! Barriers between nodes over a network that loses, repeats and reorders: nobody leaves before all have entered, and
//! every get behind a barrier sees every put before it.

use coppice_protocol::limits::PMI_ASK_NS;
use coppice_protocol::pmi::{Fence, HEADER_BYTES, unpack};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::proptest;
use proptest::sample::select;

use crate::cluster::Cluster;

/// Numbers that look random and follow from a seed (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("64 bits") % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())).copied() }
    }
}

/// A frame on its way.
pub(crate) struct Flight {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: Vec<u8>,
}

/// A job on a bad network.
struct Run {
    cluster: Cluster,
    /// Steps that a node keeps at most.
    kept_max: usize,
    counts: Vec<u32>,
    barriers: usize,
    random: Random,
    flights: Vec<Flight>,
    /// Barriers that each rank has entered.
    entered: Vec<usize>,
    /// Barriers that each rank has left.
    left: Vec<usize>,
}

impl Run {
    fn new(fences: &[Fence], counts: &[u32], barriers: usize, seed: u64) -> Self {
        let size = counts.iter().sum::<u32>() as usize;
        Self {
            cluster: Cluster::walking(fences, counts),
            kept_max: kept_max(fences, counts.len()),
            counts: counts.to_vec(),
            barriers,
            random: Random(seed | 1),
            flights: Vec::new(),
            entered: vec![0; size],
            left: vec![0; size],
        }
    }

    /// Ranks that have more to do and are not in a barrier.
    fn busy(&self) -> Vec<u32> {
        let busy = |rank: &u32| {
            let rank = *rank as usize;
            self.entered[rank] == self.left[rank] && self.left[rank] < self.barriers
        };
        (0..self.entered.len() as u32).filter(busy).collect()
    }

    /// A rank puts a key and enters the next barrier.
    fn enter(&mut self, rank: u32) {
        let barrier = self.entered[rank as usize];
        let put = format!("cmd=put kvsname=k0 key={rank}-{barrier} value={}", rank * 1000 + barrier as u32);
        assert_eq!(self.cluster.ask(rank, &put), "cmd=put_result rc=0 msg=success\n");
        self.entered[rank as usize] += 1;
        self.cluster.say(rank, b"cmd=barrier_in\n");
        self.listen(self.cluster.node_of(rank));
    }

    /// What the ranks of a node hear.
    fn listen(&mut self, node: usize) {
        let first: u32 = self.counts[..node].iter().sum();
        for rank in first..first + self.counts[node] {
            match self.cluster.hear(rank).as_str() {
                "" => {}
                "cmd=barrier_out\n" => self.leave(rank),
                other => panic!("{other}"),
            }
        }
    }

    /// A rank leaves a barrier: all have entered it, and what they put before is there.
    fn leave(&mut self, rank: u32) {
        let barrier = self.left[rank as usize];
        self.left[rank as usize] += 1;
        assert!(self.entered.iter().all(|entered| *entered > barrier), "rank {rank} leaves {barrier} too early");
        let size = self.entered.len();
        // All of them for a few ranks, some for the others: there are many.
        let looks = if size <= 16 { size } else { 8 };
        for look in 0..looks {
            let other = if size <= 16 { look } else { self.random.below(size) };
            let of = self.random.below(barrier + 1);
            let answer = self.cluster.ask(rank, &format!("cmd=get kvsname=k0 key={other}-{of}"));
            assert_eq!(answer, format!("cmd=get_result rc=0 msg=success value={}\n", other * 1000 + of));
        }
    }

    fn transmit(&mut self, (from, to): (usize, usize)) {
        if let Some(bytes) = self.cluster.frame(from, to) {
            self.flights.push(Flight { from, to, bytes });
        }
    }

    fn arrive(&mut self, flight: usize) {
        let Flight { to, bytes, .. } = self.flights.swap_remove(flight);
        self.cluster.deliver(to, &bytes);
        assert!(self.cluster.servers[to].kept_steps() <= self.kept_max);
        self.listen(to);
    }

    /// The connection between two nodes breaks with all that is on it.
    fn disconnect(&mut self, one: usize, other: usize) {
        let is_lost = |flight: &Flight| [(one, other), (other, one)].contains(&(flight.from, flight.to));
        self.flights.retain(|flight| !is_lost(flight));
        self.cluster.servers[one].disconnected(other as u32);
        self.cluster.servers[other].disconnected(one as u32);
    }

    /// Something happens, good or bad.
    fn something(&mut self, silent_loss: bool) {
        match self.random.below(100) {
            0..25 => {
                let busy = self.busy();
                if let Some(rank) = self.random.pick(&busy) {
                    self.enter(rank);
                }
            }
            25..60 => {
                let from = self.random.below(self.counts.len());
                let server = &self.cluster.servers[from];
                let peers: Vec<u32> = server.peers().into_iter().filter(|peer| server.has_output(*peer)).collect();
                if let Some(to) = self.random.pick(&peers) {
                    self.transmit((from, to as usize));
                }
            }
            60..90 if !self.flights.is_empty() => {
                let flight = self.random.below(self.flights.len());
                self.arrive(flight);
            }
            90..94 if !self.flights.is_empty() => {
                let Flight { from, to, ref bytes } = self.flights[self.random.below(self.flights.len())];
                self.flights.push(Flight { from, to, bytes: bytes.clone() });
            }
            94..98 if !self.flights.is_empty() => {
                let flight = self.random.below(self.flights.len());
                let Flight { from, to, .. } = self.flights[flight];
                if silent_loss {
                    self.flights.swap_remove(flight);
                } else {
                    self.disconnect(from, to);
                }
            }
            98..100 => self.cluster.pass(1_000_000),
            _ => {}
        }
    }

    /// From now on all that is sent arrives. Returns how many rounds that took.
    fn finish(&mut self) -> usize {
        for round in 0.. {
            for rank in self.busy() {
                self.enter(rank);
            }
            for pair in self.cluster.pairs_with_output() {
                self.transmit(pair);
            }
            if self.flights.is_empty() {
                if self.left.iter().all(|left| *left == self.barriers) {
                    return round;
                }
                self.cluster.pass(PMI_ASK_NS);
            }
            while !self.flights.is_empty() {
                let flight = self.random.below(self.flights.len());
                self.arrive(flight);
            }
            assert!(round < 10_000, "no progress: {:?} {:?}", self.entered, self.left);
        }
        0
    }
}

/// Ranks on each of up to `nodes` nodes.
fn counts(nodes: usize) -> impl Strategy<Value = Vec<u32>> {
    (1..=nodes, 1..=8_u32, 1..=8_u32).prop_map(|(nodes, ranks, last)| {
        let mut counts = vec![ranks; nodes];
        *counts.last_mut().expect("at least one") = last.min(ranks);
        counts
    })
}

/// Algorithms of barriers: as nodes choose, or what comes in turn.
fn fences() -> impl Strategy<Value = Vec<Fence>> {
    vec(select(&Fence::ALL[..]), 0..4)
}

/// Steps that a node keeps at most, sent or received, of two barriers each.
fn kept_max(fences: &[Fence], nodes: usize) -> usize {
    let steps = nodes.next_power_of_two().ilog2() as usize;
    4 * if fences.contains(&Fence::Ring) { nodes - 1 } else { steps }
}

/// Ranks go through so many barriers while so many things happen, and then to the end.
pub(crate) fn run(fences: &[Fence], counts: &[u32], barriers: usize, seed: u64, bad: usize, silent_loss: bool) {
    let mut run = Run::new(fences, counts, barriers, seed);
    for _ in 0..bad {
        run.something(silent_loss);
    }
    run.finish();
    assert_eq!(run.cluster.events, []);
    for server in &run.cluster.servers {
        assert_eq!(server.barriers(), barriers as u64);
        // What only the network knows that it lost is not sent again once nobody waits for it. Of others' steps nothing
        // is kept, of this node's those of two barriers at most.
        let own_max = kept_max(fences, counts.len()) / 2;
        assert!(server.is_settled() && server.kept_steps() <= own_max || silent_loss);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn few_nodes(
        fences in fences(), counts in counts(9), barriers in 1..6_usize, seed in any::<u64>(),
        silent_loss in any::<bool>(),
    ) {
        run(&fences, &counts, barriers, seed, 600 * barriers, silent_loss);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn many_nodes(
        fences in fences(), counts in counts(64), seed in any::<u64>(), silent_loss in any::<bool>(),
    ) {
        run(&fences, &counts, 3, seed, 20_000, silent_loss);
    }
}

/// On a good network nobody has to ask, and nodes send as many steps as their algorithm has, each confirmed once.
#[test]
fn every_number_of_nodes_takes_the_least_messages() {
    for (nodes, fence) in (1..=33).chain([64]).flat_map(|nodes| Fence::ALL.map(|fence| (nodes, fence))) {
        let mut cluster = Cluster::walking(&[fence], &vec![1; nodes as usize]);
        for rank in 0..nodes {
            cluster.ask(rank, &format!("cmd=put kvsname=k0 key={rank} value={rank}"));
            cluster.say(rank, b"cmd=barrier_in\n");
        }
        let (mut frames, mut puts) = (0, 0_u32);
        loop {
            let pairs = cluster.pairs_with_output();
            if pairs.is_empty() {
                break;
            }
            for (from, to) in pairs {
                while let Some(frame) = cluster.frame(from, to) {
                    frames += 1;
                    puts += unpack(&frame[HEADER_BYTES..]).expect("a body").len() as u32;
                    cluster.deliver(to, &frame);
                }
            }
        }
        let steps = match fence {
            Fence::Dissemination => nodes * nodes.next_power_of_two().ilog2(),
            Fence::Tree => 2 * (nodes - 1),
            Fence::Ring => nodes * (nodes - 1),
        };
        assert_eq!(frames, steps, "{fence}, {nodes} nodes: short steps are not confirmed");
        assert_eq!(puts, nodes * (nodes - 1), "{fence}, {nodes} nodes: each put comes to each other node once");
        for rank in 0..nodes {
            assert_eq!(cluster.hear(rank), "cmd=barrier_out\n", "{nodes} nodes");
            for other in 0..nodes {
                let answer = cluster.ask(rank, &format!("cmd=get kvsname=k0 key={other}"));
                assert_eq!(answer, format!("cmd=get_result rc=0 msg=success value={other}\n"));
            }
        }
    }
}

/// A node that is far ahead has left one barrier more than the others at most: what it says is kept.
#[test]
fn a_node_that_is_one_barrier_ahead_is_heard() {
    let mut run = Run::new(&[], &[1, 1, 1], 2, 1);
    for rank in 0..3 {
        run.enter(rank);
    }
    let mut held = Vec::new();
    loop {
        let pairs = run.cluster.pairs_with_output();
        if pairs.is_empty() {
            break;
        }
        for (from, to) in pairs {
            while let Some(frame) = run.cluster.frame(from, to) {
                // Of the first barrier's steps, the one from node 0 to node 1 is slow.
                if (from, to) == (0, 1) && frame[6] == 1 && held.is_empty() {
                    held.push(frame);
                } else {
                    run.cluster.deliver(to, &frame);
                    run.listen(to);
                }
            }
        }
    }
    assert_eq!(run.left, [0, 0, 1], "node 1 waits for node 0, and node 0 for what node 1 says then");
    run.enter(2);
    for pair in run.cluster.pairs_with_output() {
        run.transmit(pair);
    }
    assert_eq!(run.flights.len(), 1, "node 2 tells node 0 of the next barrier");
    while !run.flights.is_empty() {
        run.arrive(0);
    }
    assert_eq!(run.left, [0, 0, 1]);
    run.cluster.deliver(1, &held[0]);
    run.listen(1);
    run.finish();
    assert_eq!(run.left, [2, 2, 2]);
}
