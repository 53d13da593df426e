//! What ranks get from other nodes without a fence.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ASK_NS, PMI_SILENCE_NS, PMIX_CARDS_BYTES_MAX};
use coppice_protocol::pmi::{Modex, Server, Startup};
use coppice_protocol::pmix::{Dialect, Status, Value};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::nodes::{Nodes, SECOND_NS};

const REMOTE: u8 = 2;

fn commit(nodes: &mut Nodes, rank: u32, pairs: &[(&str, Value<'_>)]) {
    let call = nodes.commit(REMOTE, pairs);
    assert_eq!(nodes.ask_status(rank, &call), Status::SUCCESS);
}

#[test]
fn what_is_put_elsewhere_is_fetched() {
    for dialect in [Dialect::Short, Dialect::Wide] {
        let mut nodes = Nodes::new(&[1, 2, 1, 1, 1], dialect);
        for of in 0..6 {
            commit(&mut nodes, of, &[("card", Value::Number(of + 40)), ("other", Value::Truth(true))]);
        }
        for (of, by) in (0..6).flat_map(|of| (0..6).map(move |by| (of, by))) {
            if nodes.clients[&of].0 == nodes.clients[&by].0 {
                continue;
            }
            let call = nodes.get(of, Some("card"), &[]);
            let tag = nodes.call(by, &call);
            nodes.settle();
            let heard = nodes.hear(by);
            assert_eq!((heard.len(), heard[0].0), (1, tag));
            let card = nodes.card(&heard[0].1);
            assert_eq!((card.len(), card["card"].last()), (2, Some(&(of as u8 + 40))));
        }
    }
}

#[test]
fn what_was_fetched_is_there_at_once_for_all_of_the_node() {
    let mut nodes = Nodes::new(&[1, 2], Dialect::Short);
    commit(&mut nodes, 0, &[("card", Value::Number(1))]);
    let (get, now) =
        (nodes.get(0, Some("card"), &[]), nodes.get(0, Some("card"), &[("pmix.immediate", Value::Truth(true))]));
    assert_eq!(nodes.ask_status(2, &now), Status::NOT_FOUND);
    nodes.call(1, &get);
    nodes.settle();
    assert_eq!(nodes.hear(1).len(), 1);
    let answer = nodes.ask(2, &now);
    assert_eq!(nodes.card(&answer).len(), 1);
}

#[test]
fn what_is_put_later_comes_when_it_is_put() {
    let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
    let get = nodes.get(0, Some("later"), &[]);
    let tag = nodes.call(2, &get);
    nodes.settle();
    commit(&mut nodes, 0, &[("first", Value::Number(1))]);
    nodes.settle();
    for _ in 0..5 {
        nodes.pass(SECOND_NS);
        assert_eq!(nodes.hear(2), []);
        nodes.settle();
    }
    commit(&mut nodes, 0, &[("later", Value::Number(2))]);
    nodes.settle();
    let heard = nodes.hear(2);
    assert_eq!((heard.len(), heard[0].0, nodes.card(&heard[0].1).len()), (1, tag, 2));
}

#[test]
fn nobody_waits_for_a_rank_that_puts_nothing_more() {
    for has_put in [false, true] {
        for asks_first in [false, true] {
            let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
            if has_put {
                commit(&mut nodes, 0, &[("some", Value::Number(1))]);
            }
            let (get, finalize) = (nodes.get(0, Some("other"), &[]), nodes.command(5));
            if asks_first {
                nodes.call(1, &get);
                nodes.settle();
                assert_eq!(nodes.hear(1), []);
            }
            assert_eq!(nodes.ask_status(0, &finalize), Status::SUCCESS);
            nodes.servers[0].rank_ended(Rank(0), Exit::Status(0), 0);
            if !asks_first {
                nodes.call(1, &get);
            }
            nodes.settle();
            let heard = nodes.hear(1);
            assert_eq!((heard.len(), nodes.status(&heard[0].1)), (1, Status::NOT_FOUND));
        }
    }
}

/// What is committed right before the end is heard by those who had asked before.
#[test]
fn what_is_put_at_last_is_heard() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let (get, finalize) = (nodes.get(0, Some("last"), &[]), nodes.command(5));
    nodes.call(1, &get);
    nodes.settle();
    commit(&mut nodes, 0, &[("last", Value::Number(1))]);
    assert_eq!(nodes.ask_status(0, &finalize), Status::SUCCESS);
    nodes.settle();
    let heard = nodes.hear(1);
    assert_eq!((heard.len(), nodes.card(&heard[0].1).len()), (1, 1));
}

#[test]
fn nobody_waits_for_a_node_that_is_silent() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let get = nodes.get(0, Some("card"), &[]);
    nodes.call(1, &get);
    let mut passed = 0;
    while passed < PMI_SILENCE_NS {
        assert_eq!(nodes.hear(1), [], "{passed}");
        passed += PMI_ASK_NS / 2;
        nodes.pass(PMI_ASK_NS / 2);
    }
    let heard = nodes.hear(1);
    assert_eq!(nodes.status(&heard[0].1), Status::UNREACHABLE);
}

/// That a node was silent for a while is no reason to say so for ever.
#[test]
fn a_node_that_was_silent_is_asked_again() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    commit(&mut nodes, 0, &[("card", Value::Number(1))]);
    let get = nodes.get(0, Some("card"), &[]);
    nodes.call(1, &get);
    nodes.pass(PMI_SILENCE_NS);
    let heard = nodes.hear(1);
    assert_eq!(nodes.status(&heard[0].1), Status::UNREACHABLE);
    nodes.call(1, &get);
    nodes.settle();
    let heard = nodes.hear(1);
    assert_eq!((heard.len(), nodes.card(&heard[0].1).len()), (1, 1));
}

/// Of what fences of all, fences of some and asking have brought the newest is told, in whatever order they did.
#[test]
fn what_is_known_is_the_newest_of_what_came() {
    const COLLECT: &[(&str, Value<'_>)] = &[("pmix.collect", Value::Truth(true))];
    for ways in (0..27).map(|number| [number / 9, number / 3 % 3, number % 3]) {
        let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
        for (way, value) in ways.into_iter().zip(1..) {
            let new = format!("new{value}");
            commit(&mut nodes, 0, &[("card", Value::Number(value)), (&new, Value::Truth(true))]);
            let all = [0, 1, 2];
            let (members, call) = match way {
                0 => (&all[..], nodes.fence(COLLECT)),
                1 => (&all[..2], nodes.fence_of(&[0, 1], COLLECT)),
                _ => (&all[1..2], nodes.get(0, Some(&new), &[])),
            };
            for rank in members {
                nodes.call(*rank, &call);
            }
            nodes.settle();
            for rank in members {
                assert_eq!(nodes.hear(*rank).len(), 1);
            }
            // Long enough that nobody waits for news any more.
            for _ in 0..3 {
                nodes.pass(PMI_ASK_NS);
                nodes.settle();
            }
            let get = nodes.get(0, Some("card"), &[]);
            let answer = nodes.ask(1, &get);
            assert_eq!(nodes.card(&answer)["card"].last(), Some(&(value as u8)), "{ways:?}");
        }
    }
}

#[test]
fn what_is_asked_for_is_asked_for_no_longer_than_somebody_waits() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let get = nodes.get(0, Some("card"), &[("pmix.timeout", Value::Number(1))]);
    nodes.call(1, &get);
    nodes.settle();
    nodes.pass(SECOND_NS);
    assert_eq!(nodes.hear(1).len(), 1);
    for _ in 0..4 {
        nodes.pass(PMI_ASK_NS);
        nodes.settle();
    }
    assert_eq!(nodes.servers[1].poll_timeout(), None);
}

#[test]
fn large_cards_come_whole() {
    let mut nodes = Nodes::new(&[1, 1, 1, 1], Dialect::Short);
    let large: Vec<u8> = (0..PMIX_CARDS_BYTES_MAX / 5).map(|each| (each % 251) as u8).collect();
    for name in ["a", "b", "c", "d"] {
        commit(&mut nodes, 0, &[(name, Value::Bytes(&large))]);
    }
    let get = nodes.get(0, Some("d"), &[]);
    nodes.call(3, &get);
    nodes.settle();
    let heard = nodes.hear(3);
    assert!(nodes.card(&heard[0].1).into_values().all(|pair| pair.ends_with(&large)));
}

proptest! {
    #[test]
    fn whatever_is_lost_is_asked_for_again(lost in vec(any::<bool>(), 1..8), size in 1_usize..60_000) {
        let mut nodes = Nodes::new(&[1, 1, 1, 1], Dialect::Short);
        let bytes = vec![3; size];
        commit(&mut nodes, 0, &[("card", Value::Bytes(&bytes))]);
        let get = nodes.get(0, Some("card"), &[]);
        nodes.call(3, &get);
        let mut lost = lost.into_iter();
        let mut heard = Vec::new();
        for _ in 0..60 {
            nodes.settle_but(|| lost.next().unwrap_or(false));
            heard = nodes.hear(3);
            if !heard.is_empty() {
                break;
            }
            nodes.pass(PMI_ASK_NS / 2);
        }
        prop_assert_eq!(heard.len(), 1);
        prop_assert!(nodes.card(&heard[0].1)["card"].ends_with(&bytes));
    }
}

#[test]
fn where_keys_are_asked_for_a_fence_collects_nothing_and_all_is_got_all_the_same() {
    for modex in [Modex::Full, Modex::Direct] {
        let mut nodes = Nodes::new(&[2, 1, 1], Dialect::Short);
        nodes
            .servers
            .iter_mut()
            .for_each(|server| server.set_startup(Startup { modex: Some(modex), ..Startup::default() }));
        let blob = [7; 3000];
        for rank in 0..4 {
            commit(&mut nodes, rank, &[("card", Value::Bytes(&blob))]);
        }
        let before: Vec<usize> = nodes.servers.iter().map(Server::memory_bytes).collect();
        let fence = nodes.fence(&[("pmix.collect", Value::Truth(true))]);
        for rank in 0..4 {
            nodes.call(rank, &fence);
        }
        nodes.settle();
        for rank in 0..4 {
            let heard = nodes.hear(rank);
            assert_eq!(heard.iter().map(|(_, answer)| nodes.status(answer)).collect::<Vec<_>>(), [Status::SUCCESS]);
        }
        let more = nodes.servers.iter().zip(before).map(|(server, before)| server.memory_bytes() - before);
        // Cards of two or three ranks of others, or of none.
        assert!(more.into_iter().all(|more| (more > 6000) == (modex == Modex::Full)), "{modex}");
        for (of, by) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
            let call = nodes.get(of, Some("card"), &[]);
            nodes.call(by, &call);
            nodes.settle();
            let heard = nodes.hear(by);
            assert_eq!(nodes.card(&heard[0].1).len(), 1, "{modex}");
        }
    }
}
