//! Nodes find out themselves that one of them is dead: whoever waits for it hears so then, and not when he gives up.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::{PMI_SILENCE_NS, PMI_WATCH_NS};
use coppice_protocol::pmix::{Dialect, Status};

use crate::nodes::{Nodes, SECOND_NS};

const GLOBAL: u8 = 5;

fn outliving(counts: &[u32]) -> Nodes {
    let mut nodes = Nodes::watching(counts, Dialect::Short);
    nodes.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
    nodes
}

/// Time passes without a node, until the others know that it is dead; how long that was, at most.
fn until_known(nodes: &mut Nodes, dead: usize) -> u64 {
    let begin_ns = nodes.now_ns;
    let living: Vec<usize> = (0..nodes.servers.len()).filter(|node| *node != dead).collect();
    nodes.servers[dead].trust_nodes();
    while !living.iter().all(|node| nodes.servers[*node].is_gone(dead as u32)) {
        assert!(nodes.now_ns < begin_ns + PMI_SILENCE_NS, "it is not found");
        nodes.pass(SECOND_NS / 4);
        nodes.settle_without(dead);
    }
    nodes.now_ns - begin_ns
}

fn statuses(nodes: &mut Nodes, rank: u32) -> (Vec<Status>, Vec<i32>) {
    let (told, answers): (Vec<_>, Vec<_>) = nodes.hear(rank).into_iter().partition(|(tag, _)| *tag == 0);
    let answers = answers.iter().map(|(_, answer)| nodes.status(answer)).collect();
    (answers, told.iter().map(|(_, body)| nodes.understand(body).code).collect())
}

#[test]
fn whoever_waits_for_the_dead_is_told_when_that_is_known() {
    for (counts, dead) in [(&[1, 1][..], 0), (&[1; 4], 2), (&[2; 5], 4), (&[1; 8], 3)] {
        let mut nodes = outliving(counts);
        nodes.pass(0);
        let lost: Vec<u32> = nodes.clients.iter().filter(|(_, (on, _))| *on == dead).map(|(rank, _)| *rank).collect();
        let others: Vec<u32> = nodes.ranks().into_iter().filter(|rank| !lost.contains(rank)).collect();
        let asked = nodes.register(&[Status::NODE_DOWN.0]);
        // In all ways in which one can wait for it, but for a connect, which is a fence of a part.
        let (all, get) = (nodes.fence(&[]), nodes.get(lost[0], Some("later"), &[]));
        let some = nodes.fence_of(&nodes.ranks(), &[]);
        let calls = [&all, &get, &some];
        for (rank, call) in others.iter().zip(calls.iter().cycle()) {
            assert_eq!(nodes.ask_status(*rank, &asked), Status::SUCCESS);
            nodes.call(*rank, call);
        }
        nodes.settle_without(dead);
        let took_ns = until_known(&mut nodes, dead);
        assert!(took_ns <= 2 * PMI_WATCH_NS + SECOND_NS / 2, "{took_ns}");
        for rank in &others {
            let codes = vec![Status::NODE_DOWN.0; lost.len()];
            assert_eq!(statuses(&mut nodes, *rank), (vec![Status::UNREACHABLE], codes), "{counts:?}: {rank}");
        }
        // Who may say so says it later: nobody is told twice.
        let ranks: Vec<Rank> = lost.iter().copied().map(Rank).collect();
        for node in (0..counts.len()).filter(|node| *node != dead) {
            let now_ns = nodes.now_ns;
            nodes.servers[node].node_lost(NodeId(dead as u32), &ranks, now_ns);
        }
        // Those that are left go on.
        let rest = nodes.fence_of(&others, &[]);
        for rank in &others {
            nodes.call(*rank, &rest);
        }
        nodes.settle_without(dead);
        for rank in &others {
            assert_eq!(statuses(&mut nodes, *rank), (vec![Status::SUCCESS], vec![]), "{counts:?}: {rank}");
        }
        assert_eq!(nodes.events, []);
    }
}

/// A rank that has ended is told of once: that its node is dead says nothing new of it, and what its node says of
/// another one, which was taken for dead with it, comes too late.
#[test]
fn nobody_is_told_twice_of_an_end() {
    let mut nodes = outliving(&[2; 3]);
    nodes.pass(0);
    let asked = nodes.register(&[Status::NODE_DOWN.0, Status::PROC_TERM_WO_SYNC.0]);
    for rank in 0..6 {
        assert_eq!(nodes.ask_status(rank, &asked), Status::SUCCESS);
    }
    let end = |nodes: &mut Nodes, rank| {
        nodes.servers[1].rank_ended(Rank(rank), Exit::Status(3), nodes.now_ns);
        nodes.pass(0);
        nodes.settle();
    };
    end(&mut nodes, 2);
    for rank in [0, 1, 4, 5] {
        assert_eq!(statuses(&mut nodes, rank), (vec![], vec![Status::PROC_TERM_WO_SYNC.0]), "{rank}");
    }
    until_known(&mut nodes, 1);
    for rank in [0, 1, 4, 5] {
        assert_eq!(statuses(&mut nodes, rank), (vec![], vec![Status::NODE_DOWN.0]), "of rank 3, told to {rank}");
    }
    // It was only cut off.
    end(&mut nodes, 3);
    for rank in [0, 1, 4, 5] {
        assert_eq!(statuses(&mut nodes, rank), (vec![], vec![]), "{rank}");
    }
}

/// What is told to all others waits for the dead no longer.
#[test]
fn an_event_does_not_wait_for_the_dead() {
    let mut nodes = outliving(&[1; 4]);
    nodes.pass(0);
    let event = nodes.notify(-5000, GLOBAL, &[]);
    nodes.call(0, &event);
    nodes.settle_without(2);
    assert!(!nodes.servers[0].is_settled());
    until_known(&mut nodes, 2);
    assert!(nodes.servers[0].is_settled());
}

/// What is written down has nothing of who watches whom; whoever goes on from it begins anew.
#[test]
fn a_death_is_found_after_a_checkpoint_too() {
    let mut nodes = outliving(&[1; 4]);
    nodes.pass(0);
    nodes.pass(PMI_WATCH_NS);
    nodes.settle();
    let mut again = nodes.again_watching();
    again.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
    again.pass(0);
    again.run_again();
    let get = again.get(3, Some("later"), &[]);
    again.call(0, &get);
    again.settle_without(3);
    until_known(&mut again, 3);
    // Nobody had the rank look in the meantime, so that nothing was asked for any more: it asks once more.
    assert_eq!(statuses(&mut again, 0).0, []);
    assert_eq!(statuses(&mut again, 0).0, [Status::UNREACHABLE]);
}

/// Found before what a node goes on from was read, it is not forgotten by that.
#[test]
fn a_death_before_a_restart_is_known_after_it() {
    let mut nodes = outliving(&[1; 4]);
    let record = postcard::to_allocvec(&nodes.servers[0].record()).expect("plain data");
    let mut late = outliving(&[1; 4]);
    late.pass(0);
    until_known(&mut late, 3);
    let mut fresh = Nodes::silent(&[1; 4], Dialect::Short);
    fresh.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
    fresh.pass(0);
    until_known(&mut fresh, 3);
    fresh.servers[0].restore(postcard::from_bytes(&record).expect("as written"), fresh.now_ns).expect("fits");
    let get = fresh.get(3, Some("later"), &[]);
    fresh.clients.insert(0, (0, nodes.clients.remove(&0).expect("a rank").1));
    assert_eq!(fresh.ask_status(0, &get), Status::UNREACHABLE);
}
