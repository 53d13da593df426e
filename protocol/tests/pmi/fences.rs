//! Barriers by each algorithm: of every number of nodes, when a node is lost in the middle, and when the algorithm
//! changes from one to the next or is another one than a node walks.

use std::collections::BTreeMap;

use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS};
use coppice_protocol::pmi::{Conditions, Event, Failure, Fence, PeerError, PeerFrames};

use crate::barriers::run;
use crate::cluster::Cluster;

const RELEASED: &str = "cmd=barrier_out\n";

fn enter(cluster: &mut Cluster, rank: u32) {
    cluster.ask(rank, &format!("cmd=put kvsname=k0 key={rank} value=of_{rank}"));
    assert_eq!(cluster.say(rank, b"cmd=barrier_in\n"), 15);
}

/// What comes of a frame.
fn handle(cluster: &mut Cluster, to: usize, mut bytes: &[u8]) -> Result<(), PeerError> {
    let frame = PeerFrames::default().advance(&mut bytes).expect("a frame").expect("a whole frame");
    cluster.servers[to].handle_frame(&frame, cluster.now_ns)
}

#[test]
fn every_number_of_nodes_on_a_bad_network() {
    for nodes in (1..=33_u32).chain([64, 100]) {
        for (number, fence) in (0..).zip(Fence::ALL) {
            let silent_loss = (nodes + number) % 2 == 0;
            let seed = u64::from(nodes) << 8 | u64::from(silent_loss) | 0x5_0000;
            run(&[fence], &vec![1; nodes as usize], 2, seed, 40 * nodes as usize, silent_loss);
        }
    }
}

#[test]
fn each_barrier_may_have_another() {
    for (seed, first) in (1..).zip(Fence::ALL.into_iter().cycle().take(12)) {
        let fences: Vec<Fence> = Fence::ALL.into_iter().cycle().skip_while(|fence| *fence != first).take(4).collect();
        for nodes in [2, 3, 7, 16] {
            run(&fences, &vec![1; nodes], 9, seed * 0x9e37, 400 * nodes, seed % 2 == 0);
        }
    }
}

/// A node that is there until it has sent so many frames, in a barrier that all have entered.
struct Dying {
    cluster: Cluster,
    node: usize,
    sends: usize,
    /// Whether it could not send all.
    is_dead: bool,
}

impl Dying {
    fn new(fence: Fence, nodes: u32, node: usize, sends: usize) -> Self {
        let mut cluster = Cluster::walking(&[fence], &vec![1; nodes as usize]);
        cluster.servers.iter_mut().for_each(coppice_protocol::pmi::Server::set_outlives_ranks);
        (0..nodes).for_each(|rank| enter(&mut cluster, rank));
        Self { cluster, node, sends, is_dead: false }
    }

    fn settle(&mut self) {
        loop {
            let pairs = self.cluster.pairs_with_output();
            let sent: Vec<_> = pairs
                .into_iter()
                .filter(|(from, _)| !self.is_dead || *from != self.node)
                .flat_map(|(from, to)| {
                    core::iter::from_fn(|| self.cluster.frame(from, to))
                        .map(move |it| (from, to, it))
                        .collect::<Vec<_>>()
                })
                .collect();
            if sent.is_empty() {
                return;
            }
            for (from, to, bytes) in sent {
                self.is_dead |= from == self.node && self.sends == 0;
                if self.is_dead && [from, to].contains(&self.node) {
                    continue;
                }
                self.sends -= usize::from(from == self.node);
                self.cluster.deliver(to, &bytes);
            }
        }
    }

    fn waits(&self) -> Vec<usize> {
        let waits = |node: &usize| *node != self.node && self.cluster.servers[*node].barriers() == 0;
        (0..self.cluster.servers.len()).filter(waits).collect()
    }
}

/// Whoever needs nothing more of it leaves, as it had entered. The others wait, and those that wait for it itself find
/// that it is silent, and of no other that.
#[test]
fn a_node_that_is_lost_in_a_step_is_found_by_those_who_wait_for_it() {
    for (fence, nodes) in Fence::ALL.into_iter().flat_map(|fence| [2, 3, 6, 8, 11].map(|nodes| (fence, nodes))) {
        for node in 0..nodes as usize {
            for sends in 0.. {
                let mut dying = Dying::new(fence, nodes, node, sends);
                dying.settle();
                if !dying.is_dead {
                    assert_eq!((dying.waits().as_slice(), sends > 0), (&[][..], true), "it was there for all of it");
                    break;
                }
                let lost = dying.cluster.servers[node].placement().place(node as u32).expect("a place");
                for _ in 0..=2 * PMI_SILENCE_NS / PMI_ASK_NS {
                    dying.cluster.pass(PMI_ASK_NS);
                    dying.settle();
                }
                let waits = dying.waits();
                assert!(sends > 0 || waits.len() + 1 == nodes as usize, "{fence}: released without {node}");
                let mut found = 0;
                for event in std::mem::take(&mut dying.cluster.events) {
                    let Event::Failed(Failure::Silent { rank, silent, .. }) = event else { panic!("{event:?}") };
                    // The lost node itself hears nobody either.
                    if rank != lost.first {
                        assert_eq!(silent, lost.node, "{fence}, {nodes} nodes: {rank:?} takes another for silent");
                        found += 1;
                    }
                }
                assert_eq!(found > 0, !waits.is_empty(), "{fence}, {nodes} nodes: {node} after {sends} frames");
            }
        }
    }
}

/// All nodes are told when one is lost: nobody waits any longer, whatever was walked.
#[test]
fn a_node_that_is_lost_in_a_step_is_waited_for_by_nobody_who_is_told() {
    for (fence, node) in Fence::ALL.into_iter().flat_map(|fence| (0..6).map(move |node| (fence, node))) {
        for sends in 0..12 {
            let mut dying = Dying::new(fence, 6, node, sends);
            dying.settle();
            let lost = dying.cluster.servers[node].placement().place(node as u32).expect("a place");
            let waits = dying.waits();
            for other in (0..6).filter(|other| *other != node) {
                dying.cluster.servers[other].node_lost(lost.node, &[lost.first], 0);
            }
            dying.cluster.pass(0);
            let missed =
                |event: &Event| matches!(event, Event::Failed(Failure::Missing { rank, .. }) if *rank == lost.first);
            assert!(dying.cluster.events.iter().all(missed), "{:?}", dying.cluster.events);
            assert_eq!(dying.cluster.events.len(), waits.len(), "{fence}: {node} after {sends} frames");
        }
    }
}

/// Somebody waits without a deadline: the node of whoever is missing hears of it, by whatever way.
#[test]
fn a_rank_that_cannot_come_is_missed_by_all_algorithms() {
    for (fence, missing) in Fence::ALL.into_iter().flat_map(|fence| (0..9).map(move |missing| (fence, missing))) {
        let mut cluster = Cluster::walking(&[fence], &[1; 9]);
        cluster.ask(missing, "cmd=init pmi_version=1 pmi_subversion=1");
        cluster.ask(missing, "cmd=finalize");
        for rank in (0..9).filter(|rank| *rank != missing) {
            enter(&mut cluster, rank);
        }
        for _ in 0..2 {
            cluster.settle();
            cluster.pass(PMI_ASK_NS);
        }
        cluster.settle();
        let is_it =
            |event: &Event| matches!(event, Event::Failed(Failure::Missing { rank, .. }) if *rank == Rank(missing));
        assert!(cluster.events.len() == 1 && is_it(&cluster.events[0]), "{fence} {missing}: {:?}", cluster.events);
    }
}

#[test]
fn frames_of_another_algorithm_are_refused() {
    for (theirs, ours) in Fence::ALL.into_iter().flat_map(|theirs| Fence::ALL.map(|ours| (theirs, ours))) {
        let mut other = Cluster::walking(&[theirs], &[1, 1]);
        enter(&mut other, 1);
        let frame = other.frame(1, 0).expect("a step");
        for is_entered in [false, true] {
            let mut cluster = Cluster::walking(&[ours], &[1, 1]);
            if is_entered {
                enter(&mut cluster, 0);
            }
            let taken = handle(&mut cluster, 0, &frame);
            let refused = PeerError::Nonsense("of a barrier that is walked by another algorithm");
            assert_eq!(taken, if theirs == ours { Ok(()) } else { Err(refused) }, "{theirs} {ours}");
            // What came, or what it has sent: in a tree it waits before that.
            let is_kept = theirs == ours || is_entered && ours != Fence::Tree;
            assert_eq!(cluster.servers[0].kept_steps(), usize::from(is_kept), "{theirs} {ours}");
        }
    }
}

/// The first step of the second barrier, from node 0, and node 1 that is in the first.
fn ahead(second: Fence) -> (Cluster, Vec<u8>, Vec<u8>) {
    let mut cluster = Cluster::walking(&[Fence::Dissemination, second], &[1, 1]);
    (0..2).for_each(|rank| enter(&mut cluster, rank));
    let held = cluster.frame(0, 1).expect("a step");
    let frame = cluster.frame(1, 0).expect("a step");
    cluster.deliver(0, &frame);
    assert_eq!(cluster.hear(0), RELEASED);
    cluster.say(0, b"cmd=barrier_in\n");
    let frames: Vec<_> = core::iter::from_fn(|| cluster.frame(0, 1)).collect();
    let step = frames.into_iter().find(|frame| frame[6] == 1).expect("a step of the next barrier");
    (cluster, held, step)
}

#[test]
fn what_comes_of_the_next_barrier_is_of_one_algorithm() {
    let (mut cluster, held, ring) = ahead(Fence::Ring);
    let (_, _, dissemination) = ahead(Fence::Dissemination);
    let refused = Err(PeerError::Nonsense("of a barrier that is walked by another algorithm"));
    // Node 1 does not know yet which it will be, and believes the first.
    assert_eq!(handle(&mut cluster, 1, &dissemination), Ok(()));
    assert_eq!(handle(&mut cluster, 1, &ring), refused);
    cluster.deliver(1, &held);
    assert_eq!((cluster.hear(1).as_str(), cluster.servers[1].fence()), (RELEASED, Fence::Ring));
    // Now it does.
    assert_eq!(handle(&mut cluster, 1, &dissemination), refused);
    assert_eq!(handle(&mut cluster, 1, &ring), Ok(()));
    assert_eq!(cluster.ask(1, "cmd=barrier_in"), RELEASED, "by what came of the right one");
    assert_eq!(cluster.servers[1].kept_steps(), 1, "its own step");
    let said: Vec<_> = core::iter::from_fn(|| cluster.frame(1, 0)).collect();
    let heard: Vec<_> = said.iter().map(|frame| handle(&mut cluster, 0, frame)).collect();
    assert!(heard.iter().all(Result::is_ok), "{heard:?}");
    assert_eq!(cluster.hear(0), RELEASED);
}

/// Keys that a rank puts before a barrier that brings much, of 1,000 bytes each.
const KEYS: u64 = 4;

fn sharing(nodes_per_core: u32) -> Conditions {
    Conditions { nodes_per_core, ..Conditions::default() }
}

/// Numbers of nodes on a core with which it depends on the bytes of the last barrier what is chosen.
fn undecided(nodes: u32) -> (u32, BTreeMap<bool, Fence>) {
    let choices = |per_core| {
        BTreeMap::from([false, true].map(|many| {
            let bytes = if many { u64::from(nodes) * 1000 * KEYS } else { 0 };
            (many, Fence::choose(nodes, sharing(per_core), Some(bytes), None))
        }))
    };
    let differs = |choices: &BTreeMap<bool, Fence>| choices[&false] != choices[&true];
    (1..100).map(|per_core| (per_core, choices(per_core))).find(|(_, of)| differs(of)).expect("it depends on them")
}

/// All choose alike from what the last barrier brought, also after they were written down.
#[test]
fn nodes_choose_from_what_the_last_barrier_brought() {
    // As many as make the root of a tree send all bytes more often than a core works for others.
    const NODES: u32 = 33;
    let (per_core, choices) = undecided(NODES);
    let mut cluster = Cluster::new(&[1; NODES as usize]);
    for (barrier, many) in [true, false, false, true, true, false].into_iter().enumerate() {
        cluster.servers.iter_mut().for_each(|server| server.walk_under(sharing(per_core)));
        for rank in 0..NODES {
            for key in 0..if many { KEYS } else { 0 } {
                let put = format!("cmd=put kvsname=k0 key={rank}-{barrier}-{key} value={}", "v".repeat(1000));
                cluster.ask(rank, &put);
            }
            assert_eq!(cluster.say(rank, b"cmd=barrier_in\n"), 15);
        }
        cluster.settle();
        assert!((0..NODES).all(|rank| cluster.hear(rank) == RELEASED));
        assert!(cluster.servers.iter().all(|server| server.fence() == choices[&many]), "{barrier}");
        if barrier % 2 == 0 {
            cluster = cluster.again();
            cluster.servers.iter_mut().for_each(|server| server.walk_under(sharing(per_core)));
            assert!(cluster.servers.iter().all(|server| server.fence() == choices[&many]), "{barrier}");
        }
    }
}
