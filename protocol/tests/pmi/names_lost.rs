//! Names on a bad network, and while jobs are written down and go on elsewhere: each rank hears what must be.

use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS};
use proptest::prelude::any;
use proptest::{proptest, test_runner::Config};

use crate::barriers::{Flight, Random};
use crate::cluster::Cluster;

/// Names that all ranks fight for.
const SHARED: usize = 3;

/// What a rank may do with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Publish,
    Unpublish,
    LookUp,
}

/// What a rank waits for.
#[derive(Clone, Debug)]
struct Wish {
    deed: Deed,
    /// One of those that all fight for, or its own, of which it knows what must come.
    shared: Option<usize>,
    line: String,
    port: String,
    since_ns: u64,
}

/// A rank.
#[derive(Default)]
struct Player {
    /// The port under its own name.
    own: Option<String>,
    wish: Option<Wish>,
    deeds: usize,
}

struct Run {
    cluster: Cluster,
    random: Random,
    flights: Vec<Flight>,
    players: Vec<Player>,
    deeds: usize,
    /// How often each of those that all fight for was published, less how often unpublished.
    published: [i32; SHARED],
}

impl Run {
    fn new(nodes: usize, per_node: u32, deeds: usize, seed: u64) -> Self {
        let ranks = nodes * per_node as usize;
        Self {
            cluster: Cluster::new(&vec![per_node; nodes]),
            random: Random(seed | 1),
            flights: Vec::new(),
            players: (0..ranks).map(|_| Player::default()).collect(),
            deeds,
            published: [0; SHARED],
        }
    }

    fn idle(&self) -> Vec<usize> {
        let is_idle = |rank: &usize| self.players[*rank].wish.is_none() && self.players[*rank].deeds < self.deeds;
        (0..self.players.len()).filter(is_idle).collect()
    }

    /// A rank wants something.
    fn want(&mut self, rank: usize) {
        let deed = [Deed::Publish, Deed::Unpublish, Deed::LookUp][self.random.below(3)];
        let shared = Some(self.random.below(2 * SHARED)).filter(|name| *name < SHARED);
        let name = shared.map_or_else(|| format!("own {rank}"), |name| format!("shared-{name}"));
        let port = format!("{rank}#{}", self.players[rank].deeds);
        let line = match deed {
            Deed::Publish => format!("cmd=publish_name service={name} port={port}\n"),
            Deed::Unpublish => format!("cmd=unpublish_name service={name}\n"),
            Deed::LookUp => format!("cmd=lookup_name service={name}\n"),
        };
        assert_eq!(self.cluster.say(rank as u32, line.as_bytes()), line.len());
        self.players[rank].wish = Some(Wish { deed, shared, line, port, since_ns: self.cluster.now_ns });
        self.listen();
    }

    /// What ranks hear, who cannot leave before that.
    fn listen(&mut self) {
        for rank in 0..self.players.len() {
            let heard = self.cluster.hear(rank as u32);
            if heard.is_empty() {
                continue;
            }
            let player = &mut self.players[rank];
            let wish = player.wish.take().unwrap_or_else(|| panic!("rank {rank} hears {heard}"));
            player.deeds += 1;
            let is_done = heard.contains(" rc=0 ");
            assert!(is_done || heard.contains("is_published") || heard.contains("is_not_published"), "{heard}");
            match wish.shared {
                Some(name) => {
                    self.published[name] += match wish.deed {
                        Deed::Publish => i32::from(is_done),
                        Deed::Unpublish => -i32::from(is_done),
                        Deed::LookUp => 0,
                    };
                }
                None => {
                    let must = player.own.is_some() != (wish.deed == Deed::Publish);
                    assert_eq!(is_done, must, "{}{heard}", wish.line);
                    match wish.deed {
                        Deed::LookUp => {
                            let port = player.own.as_ref().map_or(String::new(), |own| format!(" port={own} "));
                            assert!(heard.contains(&port), "{heard}");
                        }
                        Deed::Publish if is_done => player.own = Some(wish.port),
                        Deed::Unpublish => player.own = None,
                        Deed::Publish => {}
                    }
                }
            }
        }
    }

    fn arrive(&mut self) {
        if !self.flights.is_empty() {
            let flight = self.random.below(self.flights.len());
            let Flight { to, bytes, .. } = self.flights.swap_remove(flight);
            self.cluster.deliver(to, &bytes);
        }
    }

    fn transmit(&mut self) {
        let pairs = self.cluster.pairs_with_output();
        if let Some((from, to)) = self.random.pick(&pairs)
            && let Some(bytes) = self.cluster.frame(from, to)
        {
            self.flights.push(Flight { from, to, bytes });
        }
    }

    /// Time passes, but not so much that anybody gives up.
    fn pass(&mut self, ns: u64) {
        let longest = self.players.iter().filter_map(|player| player.wish.as_ref()).map(|wish| wish.since_ns).min();
        if longest.is_none_or(|since_ns| self.cluster.now_ns + ns < since_ns + PMI_SILENCE_NS / 2) {
            self.cluster.pass(ns);
        }
    }

    /// All nodes are written down, one after the other in any order, among letters that arrive. Then the job goes on,
    /// here or elsewhere.
    fn write_down(&mut self) {
        let nodes = self.cluster.servers.len();
        let mut written = vec![Vec::new(); nodes];
        let first = self.random.below(nodes);
        for node in (first..nodes).chain(0..first) {
            written[node] = self.cluster.write_down(node);
            for _ in 0..self.random.below(8) {
                self.transmit();
                self.arrive();
                self.pass(PMI_ASK_NS / 4);
            }
        }
        if self.random.below(2) == 0 {
            self.cluster = self.cluster.again_from(&written);
            self.flights.clear();
        } else {
            self.cluster.go_on();
        }
        self.listen();
    }

    fn something(&mut self) {
        match self.random.below(100) {
            0..25 => {
                let idle = self.idle();
                if let Some(rank) = self.random.pick(&idle) {
                    self.want(rank);
                }
            }
            25..55 => self.transmit(),
            55..88 => {
                self.arrive();
                self.listen();
            }
            88..92 if !self.flights.is_empty() => {
                let Flight { from, to, ref bytes } = self.flights[self.random.below(self.flights.len())];
                self.flights.push(Flight { from, to, bytes: bytes.clone() });
            }
            92..96 if !self.flights.is_empty() => {
                let flight = self.random.below(self.flights.len());
                self.flights.swap_remove(flight);
            }
            96..99 => self.pass(PMI_ASK_NS / 10),
            99 => self.write_down(),
            _ => {}
        }
    }

    /// From now on all that is sent arrives.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            for rank in self.idle() {
                self.want(rank);
            }
            while !self.cluster.pairs_with_output().is_empty() {
                self.transmit();
            }
            if self.flights.is_empty() {
                if self.players.iter().all(|player| player.wish.is_none() && player.deeds == self.deeds) {
                    return;
                }
                self.cluster.pass(PMI_ASK_NS);
            }
            while !self.flights.is_empty() {
                self.arrive();
            }
            self.listen();
        }
        panic!("no progress");
    }
}

fn run(nodes: usize, per_node: u32, deeds: usize, seed: u64) {
    let mut run = Run::new(nodes, per_node, deeds, seed);
    for _ in 0..200 * deeds {
        run.something();
    }
    run.finish();
    // Of what all fight for there is what was done, and everybody sees the same.
    for (name, published) in run.published.into_iter().enumerate() {
        let look = format!("cmd=lookup_name service=shared-{name}\n");
        let found = |cluster: &mut Cluster, rank: u32| {
            cluster.say(rank, look.as_bytes());
            cluster.settle();
            cluster.hear(rank)
        };
        let first = found(&mut run.cluster, 0);
        assert_eq!(i32::from(first.contains(" rc=0 ")), published, "{first}");
        assert!((1..run.players.len() as u32).all(|rank| found(&mut run.cluster, rank) == first));
    }
    assert_eq!(run.cluster.events, []);
}

proptest! {
    #![proptest_config(Config::with_cases(32))]

    #[test]
    fn few_nodes(nodes in 1..9_usize, per_node in 1..4_u32, deeds in 1..6_usize, seed in any::<u64>()) {
        run(nodes, per_node, deeds, seed);
    }
}

proptest! {
    #![proptest_config(Config::with_cases(3))]

    #[test]
    fn many_nodes(nodes in 9..40_usize, seed in any::<u64>()) {
        run(nodes, 1, 20, seed);
    }
}
