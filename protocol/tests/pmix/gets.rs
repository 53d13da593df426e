//! What ranks put, and who gets it.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMIX_CARDS_BYTES_MAX};
use coppice_protocol::pmix::{Dialect, Status, Value};

use crate::nodes::{Nodes, SECOND_NS, message};

const LOCAL: u8 = 1;
const REMOTE: u8 = 2;
const GLOBAL: u8 = 3;
const COLLECT: &[(&str, Value<'_>)] = &[("pmix.collect", Value::Truth(true))];
const IMMEDIATE: &[(&str, Value<'_>)] = &[("pmix.immediate", Value::Truth(true))];

/// All ranks wait in a fence and leave it.
fn fence(nodes: &mut Nodes, infos: &[(&str, Value<'_>)]) {
    let call = nodes.fence(infos);
    let ranks: Vec<_> = nodes.clients.keys().copied().collect();
    for rank in &ranks {
        nodes.call(*rank, &call);
    }
    nodes.settle();
    for rank in &ranks {
        let heard = nodes.hear(*rank);
        assert_eq!((heard.len(), nodes.status(&heard[0].1)), (1, Status::SUCCESS));
    }
    nodes.settle();
}

fn commit(nodes: &mut Nodes, rank: u32, scope: u8, pairs: &[(&str, Value<'_>)]) {
    let call = nodes.commit(scope, pairs);
    assert_eq!(nodes.ask_status(rank, &call), Status::SUCCESS);
}

#[test]
fn what_is_put_reaches_those_who_may_see_it() {
    for dialect in [Dialect::Short, Dialect::Wide] {
        let mut nodes = Nodes::new(&[2, 1], dialect);
        commit(&mut nodes, 0, LOCAL, &[("near", Value::Text("here"))]);
        commit(&mut nodes, 0, REMOTE, &[("far", Value::Number(77))]);
        commit(&mut nodes, 0, GLOBAL, &[("wide", Value::Bytes(&[0, 1, 2]))]);
        fence(&mut nodes, COLLECT);
        let call = nodes.get(0, Some("wide"), &[]);
        let (beside, elsewhere) = (nodes.ask(1, &call), nodes.ask(2, &call));
        let keys = |answer: &[u8]| nodes.card(answer).into_keys().collect::<Vec<_>>();
        assert_eq!(
            (keys(&beside), keys(&elsewhere)),
            (vec!["near".into(), "wide".into()], vec!["far".into(), "wide".into()])
        );
        for (rank, key) in [(1, "far"), (2, "near"), (2, "none")] {
            let call = nodes.get(0, Some(key), IMMEDIATE);
            assert_eq!(nodes.ask_status(rank, &call), Status::NOT_FOUND, "{key}");
        }
    }
}

#[test]
fn a_key_that_is_put_again_has_its_new_value() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    for value in [1, 2, 2, 3] {
        commit(&mut nodes, 0, REMOTE, &[("old", Value::Number(9)), ("key", Value::Number(value))]);
        fence(&mut nodes, COLLECT);
        let call = nodes.get(0, Some("key"), &[]);
        let answer = nodes.ask(1, &call);
        let card = nodes.card(&answer);
        assert_eq!((card.len(), card["key"].last()), (2, Some(&(value as u8))));
    }
}

#[test]
fn a_fence_without_data_brings_none() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    commit(&mut nodes, 0, GLOBAL, &[("key", Value::Number(1))]);
    fence(&mut nodes, &[]);
    let call = nodes.get(0, Some("key"), IMMEDIATE);
    assert_eq!(nodes.ask_status(1, &call), Status::NOT_FOUND);
    fence(&mut nodes, COLLECT);
    let answer = nodes.ask(1, &call);
    assert_eq!(nodes.card(&answer).len(), 1);
}

#[test]
fn what_is_not_there_yet_is_waited_for() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let call = nodes.get(0, Some("later"), &[]);
    let tag = nodes.call(1, &call);
    nodes.pass(5 * SECOND_NS);
    assert_eq!(nodes.hear(1), []);
    commit(&mut nodes, 0, LOCAL, &[("other", Value::Number(0))]);
    assert_eq!(nodes.hear(1), []);
    commit(&mut nodes, 0, LOCAL, &[("later", Value::Number(1))]);
    let heard = nodes.hear(1);
    assert_eq!((heard.len(), heard[0].0, nodes.card(&heard[0].1).len()), (1, tag, 2));
}

/// Nobody beside it waits for what a rank has put for others elsewhere, unless it puts it for them as well.
#[test]
fn what_is_put_for_others_is_not_waited_for() {
    let mut nodes = Nodes::new(&[2, 1], Dialect::Short);
    let call = nodes.get(0, Some("key"), &[]);
    let tag = nodes.call(1, &call);
    commit(&mut nodes, 0, REMOTE, &[("key", Value::Number(1))]);
    let heard = nodes.hear(1);
    assert_eq!((heard.len(), heard[0].0, nodes.status(&heard[0].1)), (1, tag, Status::NOT_FOUND));
    assert_eq!(nodes.ask_status(1, &call), Status::NOT_FOUND);
    commit(&mut nodes, 0, LOCAL, &[("key", Value::Number(1))]);
    let answer = nodes.ask(1, &call);
    assert_eq!(nodes.card(&answer).len(), 1);
}

#[test]
fn nobody_waits_for_who_is_gone_or_longer_than_wanted() {
    let mut nodes = Nodes::new(&[2], Dialect::Wide);
    let (hasty, patient) =
        (nodes.get(0, Some("later"), &[("pmix.timeout", Value::Number(2))]), nodes.get(0, None, &[]));
    let tags = (nodes.call(1, &hasty), nodes.call(1, &patient));
    nodes.pass(2 * SECOND_NS);
    let heard = nodes.hear(1);
    assert_eq!((heard[0].0, nodes.status(&heard[0].1)), (tags.0, Status::TIMEOUT));
    let finalize = nodes.command(5);
    assert_eq!(nodes.ask_status(0, &finalize), Status::SUCCESS);
    nodes.servers[0].rank_ended(Rank(0), Exit::Status(0), nodes.now_ns);
    let heard = nodes.hear(1);
    assert_eq!((heard[0].0, nodes.status(&heard[0].1)), (tags.1, Status::NOT_FOUND));
}

#[test]
fn who_does_not_exist_has_put_nothing() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    for of in [2, u32::MAX, u32::MAX - 1] {
        let call = nodes.get(of, Some("key"), &[]);
        assert_eq!(nodes.ask_status(0, &call), Status::NOT_FOUND);
    }
    let call = nodes.get(1, Some("pmix.nothing"), &[]);
    assert_eq!(nodes.ask_status(0, &call), Status::NOT_FOUND);
}

#[test]
fn large_values_come_in_pieces_and_whole() {
    let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
    let large: Vec<u8> = (0..20_000_u32).map(|each| (each % 251) as u8).collect();
    commit(&mut nodes, 2, GLOBAL, &[("large", Value::Bytes(&large)), ("small", Value::Truth(true))]);
    fence(&mut nodes, COLLECT);
    let call = nodes.get(2, Some("large"), &[]);
    let answer = nodes.ask(0, &call);
    assert!(nodes.card(&answer)["large"].ends_with(&large));
}

#[test]
fn there_is_a_limit_to_what_a_node_keeps() {
    let mut nodes = Nodes::new(&[1], Dialect::Short);
    let large = vec![7; PMIX_CARDS_BYTES_MAX / 8];
    for each in 0..8 {
        let name = format!("large{each}");
        let call = nodes.commit(LOCAL, &[(&name, Value::Bytes(&large))]);
        let wanted = if each < 7 { Status::SUCCESS } else { Status::OUT_OF_RESOURCE };
        assert_eq!(nodes.ask_status(0, &call), wanted, "{each}");
    }
    assert!(nodes.servers[0].memory_bytes() <= PMIX_CARDS_BYTES_MAX);
}

#[test]
fn answers_that_are_not_read_do_not_pile_up() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let large = vec![7; 100_000];
    let call = nodes.get(0, Some("large"), &[]);
    for _ in 0..20 {
        nodes.call(1, &call);
    }
    commit(&mut nodes, 0, LOCAL, &[("large", Value::Bytes(&large))]);
    let (node, client) = nodes.clients.get_mut(&1).expect("a rank");
    client.poll(&mut nodes.servers[*node], 0);
    assert!(client.transmit().len() < PMI_ANSWER_BYTES_MAX + 2 * large.len());
    // Nor is more heard.
    let more = message(99_999, call.bytes());
    assert_eq!(client.handle_bytes(&more, &mut nodes.servers[*node], 0), 0);
    assert_eq!(nodes.hear(1).len(), 20);
}
