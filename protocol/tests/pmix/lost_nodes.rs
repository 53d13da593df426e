//! Jobs that go on without a node and all of its ranks.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS};
use coppice_protocol::pmi::{Conversation, Event, Failure};
use coppice_protocol::pmix::{Dialect, Status, Value};

use crate::nodes::{Nodes, SECOND_NS};

const REMOTE: u8 = 2;

fn outliving(counts: &[u32]) -> Nodes {
    let mut nodes = Nodes::new(counts, Dialect::Short);
    nodes.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
    nodes
}

/// The ranks on a node.
fn ranks_of(nodes: &Nodes, node: usize) -> Vec<u32> {
    nodes.clients.iter().filter(|(_, (on, _))| *on == node).map(|(rank, _)| *rank).collect()
}

/// A node is gone, and those that are left hear of it, one after the other.
fn lose(nodes: &mut Nodes, gone: usize) {
    let ranks: Vec<Rank> = ranks_of(nodes, gone).into_iter().map(Rank).collect();
    for node in (0..nodes.servers.len()).filter(|node| *node != gone) {
        let now_ns = nodes.now_ns;
        nodes.servers[node].node_lost(NodeId(gone as u32), &ranks, now_ns);
        assert!(!nodes.servers[node].has_output(gone as u32), "nobody calls it");
        nodes.pass(0);
        nodes.settle_without(gone);
    }
}

/// The statuses that a rank hears, and how much it is told unasked.
fn hears(nodes: &mut Nodes, rank: u32) -> (Vec<Status>, Vec<i32>) {
    let (told, answers): (Vec<_>, Vec<_>) = nodes.hear(rank).into_iter().partition(|(tag, _)| *tag == 0);
    let statuses = answers.iter().map(|(_, answer)| nodes.status(answer)).collect();
    (statuses, told.iter().map(|(_, body)| nodes.understand(body).code).collect())
}

#[test]
fn whoever_waits_for_its_ranks_hears_so_at_once_and_the_others_go_on() {
    for counts in [&[1, 1][..], &[2, 2], &[1; 4], &[1, 3], &[2; 5], &[1; 8]] {
        for gone in 0..counts.len() {
            let mut nodes = outliving(counts);
            let lost = ranks_of(&nodes, gone);
            let others: Vec<u32> = nodes.ranks().into_iter().filter(|rank| !lost.contains(rank)).collect();
            let asked = nodes.register(&[Status::PROC_ABORTED.0]);
            for rank in &others {
                assert_eq!(nodes.ask_status(*rank, &asked), Status::SUCCESS);
            }
            // Each waits for it in another way, and the lowest in none.
            let (all, get) = (nodes.fence(&[]), nodes.get(lost[0], Some("later"), &[]));
            let members: Vec<u32> = nodes.ranks().into_iter().filter(|rank| *rank != others[0]).collect();
            let some = nodes.fence_of(&members, &[]);
            let waits = [&all, &get, &some];
            for (rank, call) in others[1..].iter().zip(waits.iter().cycle()) {
                nodes.call(*rank, call);
                nodes.settle();
            }
            // What they ask for again is for it, or goes over it, and has not gone.
            nodes.pass(PMI_ASK_NS);
            lose(&mut nodes, gone);
            for rank in &others {
                let wanted = if *rank == others[0] { vec![] } else { vec![Status::UNREACHABLE] };
                let codes = vec![Status::PROC_ABORTED.0; lost.len()];
                assert_eq!(hears(&mut nodes, *rank), (wanted, codes), "{counts:?} without {gone}: {rank}");
                for call in [&all, &get] {
                    assert_eq!(nodes.ask_status(*rank, call), Status::UNREACHABLE, "{counts:?} without {gone}");
                }
            }
            for rank in others.iter().filter(|rank| **rank != others[0]) {
                assert_eq!(nodes.ask_status(*rank, &some), Status::UNREACHABLE);
            }
            // Those that are left do all that they could do before, with nobody waiting for a clock.
            let rest = nodes.fence_of(&others, &[("pmix.collect", Value::Truth(false))]);
            for rank in &others {
                let card = nodes.commit(REMOTE, &[("card", Value::Number(*rank))]);
                assert_eq!(nodes.ask_status(*rank, &card), Status::SUCCESS);
                nodes.call(*rank, &rest);
            }
            nodes.settle_without(gone);
            for rank in &others {
                assert_eq!(hears(&mut nodes, *rank), (vec![Status::SUCCESS], vec![]), "{counts:?} without {gone}");
            }
            for (of, by) in others.iter().flat_map(|of| others.iter().map(move |by| (*of, *by))) {
                if nodes.clients[&of].0 == nodes.clients[&by].0 {
                    continue;
                }
                let get = nodes.get(of, Some("card"), &[]);
                nodes.call(by, &get);
                nodes.settle_without(gone);
                let heard = nodes.hear(by);
                assert_eq!(heard.len(), 1, "{counts:?} without {gone}: {by} gets the card of {of}");
                assert_eq!(nodes.card(&heard[0].1)["card"].last(), Some(&(of as u8)));
            }
            for _ in 0..3 {
                nodes.pass(PMI_SILENCE_NS);
                nodes.settle_without(gone);
            }
            let finalize = nodes.command(5);
            for rank in &others {
                assert_eq!(nodes.ask_status(*rank, &finalize), Status::SUCCESS);
                let (node, now_ns) = (nodes.clients[rank].0, nodes.now_ns);
                nodes.servers[node].rank_ended(Rank(*rank), Exit::Status(0), now_ns);
            }
            nodes.settle_without(gone);
            nodes.pass(0);
            assert!(nodes.events.is_empty(), "{:?}", nodes.events);
            let left = nodes.servers.iter().zip(0..).filter(|(_, node)| *node != gone).map(|(server, _)| server);
            assert!(left.clone().all(|server| server.poll_timeout().is_none()), "nothing is left behind");
            assert!(left.clone().all(|server| server.is_settled()), "nobody waits for it");
        }
    }
}

/// What it has told of its ranks, and others of theirs, is known.
#[test]
fn what_was_brought_from_it_before_stays() {
    let mut nodes = outliving(&[1; 3]);
    let card = nodes.commit(REMOTE, &[("card", Value::Number(7))]);
    assert_eq!(nodes.ask_status(0, &card), Status::SUCCESS);
    let get = nodes.get(0, Some("card"), &[]);
    nodes.call(1, &get);
    nodes.settle();
    assert_eq!(nodes.hear(1).len(), 1);
    lose(&mut nodes, 0);
    let answer = nodes.ask(1, &get);
    assert_eq!(nodes.card(&answer)["card"].last(), Some(&7));
    assert_eq!(nodes.ask_status(2, &get), Status::UNREACHABLE);
}

/// Two at once, each of which all hear of in another order than of the other.
#[test]
fn several_are_lost() {
    let mut nodes = outliving(&[1; 8]);
    let (all, asked) = (nodes.fence(&[]), nodes.register(&[Status::NODE_DOWN.0]));
    for rank in 2..8 {
        assert_eq!(nodes.ask_status(rank, &asked), Status::SUCCESS);
        nodes.call(rank, &all);
    }
    let now_ns = nodes.now_ns;
    for node in 2..8_usize {
        for gone in if node % 2 == 0 { [0, 1] } else { [1, 0] } {
            nodes.servers[node].node_lost(NodeId(gone), &[Rank(gone)], now_ns);
            // Said again over another connection, it changes nothing.
            nodes.servers[node].node_lost(NodeId(gone), &[Rank(gone)], now_ns);
        }
    }
    nodes.pass(0);
    for rank in 2..8 {
        assert_eq!(hears(&mut nodes, rank), (vec![Status::UNREACHABLE], vec![Status::NODE_DOWN.0; 2]), "once of each");
    }
    let rest = nodes.fence_of(&[2, 3, 4, 5, 6, 7], &[]);
    for rank in 2..8 {
        nodes.call(rank, &rest);
    }
    nodes.settle_without(0);
    for rank in 2..8 {
        assert_eq!(hears(&mut nodes, rank), (vec![Status::SUCCESS], vec![]));
    }
    assert_eq!(nodes.events, []);
}

#[test]
fn who_cannot_be_told_ends_the_job_with_a_reason() {
    let mut nodes = Nodes::silent(&[1, 1], Dialect::Short);
    nodes.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
    let mut other = Conversation::on_descriptor(Rank(1));
    for line in [&b"cmd=init pmi_version=1 pmi_subversion=1\n"[..], b"cmd=barrier_in\n"] {
        assert_eq!(other.handle_bytes(line, &mut nodes.servers[1], 0), line.len());
    }
    lose(&mut nodes, 0);
    let [Event::Failed(failure @ Failure::Missing { .. })] = &nodes.events[..] else { panic!("{:?}", nodes.events) };
    let reason = "rank 0 on node 0 was lost with its node, and other ranks wait for it in a PMI barrier";
    assert_eq!((failure.to_string().as_str(), failure.code()), (reason, 1));
}

/// A job that ends with its ranks is ended by whoever knows of the node; and nobody says that this node is lost, or one
/// of another job.
#[test]
fn nothing_else_is_lost() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    lose(&mut nodes, 0);
    let now_ns = nodes.now_ns;
    nodes.servers.iter_mut().for_each(|server| server.set_outlives_ranks());
    nodes.servers[1].node_lost(NodeId(1), &[Rank(1)], now_ns);
    nodes.servers[1].node_lost(NodeId(7), &[Rank(0)], now_ns);
    let all = nodes.fence(&[]);
    for rank in [0, 1] {
        nodes.call(rank, &all);
    }
    nodes.settle();
    for rank in [0, 1] {
        assert_eq!(hears(&mut nodes, rank), (vec![Status::SUCCESS], vec![]));
    }
    nodes.pass(SECOND_NS);
    assert_eq!(nodes.events, []);
}

/// Nobody knows yet that it is gone, and what it was to hand on is lost with it.
#[test]
fn a_card_comes_round_a_silent_node_on_the_way() {
    for (count, silent) in [(5, 4), (8, 4), (8, 6), (16, 8), (16, 12)] {
        for owner in (1..count as u32).filter(|owner| *owner != silent as u32) {
            let mut nodes = Nodes::new(&vec![1; count], Dialect::Short);
            let commit = nodes.commit(REMOTE, &[("here", Value::Number(owner))]);
            assert_eq!(nodes.ask_status(owner, &commit), Status::SUCCESS);
            let get = nodes.get(owner, Some("here"), &[]);
            nodes.call(0, &get);
            let mut heard = Vec::new();
            for _ in 0..4 {
                nodes.settle_without(silent);
                heard = nodes.hear(0);
                if !heard.is_empty() {
                    break;
                }
                nodes.pass(PMI_ASK_NS);
            }
            let [(_, answer)] = &heard[..] else { panic!("node {owner} of {count}: nothing") };
            assert!(nodes.card(answer).contains_key("here"), "node {owner} of {count}");
        }
    }
}
