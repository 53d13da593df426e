//! What ranks do together beside fences.

use coppice_protocol::pmix::{Dialect, Process, Reader, Status, Value, Writer, rank};

use crate::nodes::{Nodes, SPACE};

const CONNECT: u8 = 10;
const DISCONNECT: u8 = 11;
const CONSTRUCT: u8 = 24;
const DESTRUCT: u8 = 28;

fn infos(call: &mut Writer, infos: &[(&str, Value<'_>)]) {
    call.packed(1).size(infos.len());
    if !infos.is_empty() {
        call.packed(infos.len());
    }
    for (key, value) in infos {
        call.info(key, value);
    }
}

/// A call of these ranks; of all, if none is named.
fn together(nodes: &Nodes, number: u8, name: Option<&str>, ranks: &[u32], directives: &[(&str, Value<'_>)]) -> Writer {
    let mut call = nodes.command(number);
    if let Some(name) = name {
        call.packed(1).text(name.as_bytes());
    }
    if number != DESTRUCT {
        let ranks = if ranks.is_empty() { &[rank::WILDCARD] } else { ranks };
        call.packed(1).size(ranks.len()).packed(ranks.len());
        for rank in ranks {
            call.process(Process { space: SPACE, rank: *rank });
        }
    }
    infos(&mut call, directives);
    call
}

fn statuses(nodes: &mut Nodes, rank: u32) -> Vec<Status> {
    nodes.hear(rank).into_iter().map(|(_, answer)| nodes.status(&answer)).collect()
}

#[test]
fn a_group_is_made_has_a_number_and_is_taken_apart() {
    let mut nodes = Nodes::new(&[2, 1, 1], Dialect::Short);
    let wants = [("pmix.grp.actxid", Value::Truth(true))];
    let mut numbers = Vec::new();
    for name in ["odd", "even"] {
        let make = together(&nodes, CONSTRUCT, Some(name), &[0, 2, 3], &wants);
        for rank in [3, 0, 2] {
            nodes.settle();
            assert_eq!(nodes.hear(rank), []);
            nodes.call(rank, &make);
        }
        nodes.settle();
        let mut of_group = Vec::new();
        for rank in [0, 2, 3] {
            let heard = nodes.hear(rank);
            let mut answer = Reader::new(&heard[0].1, Dialect::Short);
            assert_eq!((answer.packed(1), answer.i32(), answer.packed(1)), (Ok(()), Ok(0), Ok(())));
            of_group.push(answer.size().expect("a number"));
        }
        of_group.dedup();
        assert_eq!(of_group.len(), 1);
        numbers.extend(of_group);
    }
    assert_ne!(numbers[0], numbers[1]);
    // A fence may name it, whole or one by one.
    let mut fence = nodes.command(3);
    fence.packed(1).size(1).packed(1).process(Process { space: b"odd", rank: rank::WILDCARD });
    infos(&mut fence, &[]);
    let mut by_place = nodes.command(3);
    by_place.packed(1).size(2).packed(2);
    by_place.process(Process { space: b"odd", rank: 0 }).process(Process { space: b"odd", rank: 2 });
    infos(&mut by_place, &[]);
    nodes.call(0, &by_place);
    nodes.call(3, &by_place);
    nodes.settle();
    assert_eq!((statuses(&mut nodes, 0).len(), statuses(&mut nodes, 3).len()), (1, 1));
    for rank in [0, 2, 3] {
        nodes.call(rank, &fence);
    }
    nodes.settle();
    assert!([0, 2, 3].into_iter().all(|rank| statuses(&mut nodes, rank) == [Status::SUCCESS]));
    let end = together(&nodes, DESTRUCT, Some("odd"), &[], &[]);
    assert_eq!(nodes.ask_status(1, &end), Status::BAD_PARAM);
    for rank in [2, 3, 0] {
        nodes.call(rank, &end);
    }
    nodes.settle();
    assert!([0, 2, 3].into_iter().all(|rank| statuses(&mut nodes, rank) == [Status::SUCCESS]));
    assert_eq!((nodes.ask_status(0, &fence), nodes.ask_status(0, &end)), (Status::NOT_FOUND, Status::NOT_FOUND));
}

#[test]
fn a_group_has_a_name() {
    let mut nodes = Nodes::new(&[1], Dialect::Wide);
    for name in [String::new(), "x".repeat(600)] {
        let make = together(&nodes, CONSTRUCT, Some(&name), &[0], &[]);
        assert_eq!(nodes.ask_status(0, &make), Status::BAD_PARAM);
    }
}

#[test]
fn ranks_of_a_job_are_connected() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    for number in [CONNECT, DISCONNECT] {
        let (all, apart) = (together(&nodes, number, None, &[], &[]), together(&nodes, number, None, &[0], &[]));
        assert_eq!(nodes.ask_status(0, &apart), Status::SUCCESS);
        nodes.call(0, &all);
        nodes.settle();
        assert_eq!(nodes.hear(0), []);
        nodes.call(1, &all);
        nodes.settle();
        assert_eq!((statuses(&mut nodes, 0), statuses(&mut nodes, 1)), (vec![Status::SUCCESS], vec![Status::SUCCESS]));
    }
}
