//! Clients that say anything.

use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMIX_CARDS_BYTES_MAX, PMIX_MESSAGE_BYTES_MAX};
use coppice_protocol::pmi::Event;
use coppice_protocol::pmix::{Dialect, Process, Status, Value, Writer};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::nodes::{Nodes, SPACE, message};

#[test]
fn a_message_that_is_too_long_is_the_last_one() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let mut header = message(100, &[]);
    header[8..12].copy_from_slice(&(PMIX_MESSAGE_BYTES_MAX as u32 + 1).to_be_bytes());
    nodes.say(0, &header);
    assert!(nodes.clients[&0].1.is_over());
    // Its neighbour notices nothing.
    let get = nodes.get(1, Some("key"), &[("pmix.immediate", Value::Truth(true))]);
    assert_eq!(nodes.ask_status(1, &get), Status::NOT_FOUND);
}

#[test]
fn half_a_message_keeps_what_it_has() {
    let mut nodes = Nodes::new(&[1], Dialect::Short);
    let mut whole = message(100, &vec![0; PMIX_MESSAGE_BYTES_MAX]);
    whole.pop();
    nodes.say(0, &whole);
    assert!(nodes.clients[&0].1.memory_bytes() <= 2 * PMIX_MESSAGE_BYTES_MAX);
    assert_eq!(nodes.hear(0), []);
}

#[test]
fn what_is_no_call_is_answered() {
    let mut nodes = Nodes::new(&[1], Dialect::Short);
    for number in [9, 16, 17, 18, 19, 20, 21, 22, 23, 25, 26, 27, 29, 30, 31, 32, 33, 255] {
        let call = nodes.command(number);
        assert_eq!(nodes.ask_status(0, &call), Status::NOT_SUPPORTED, "{number}");
    }
    assert_eq!(nodes.ask_status(0, &Writer::new(Dialect::Short)), Status::UNPACK_FAILURE);
    for number in [12, 13, 15] {
        let half = nodes.command(number);
        assert_eq!(nodes.ask_status(0, &half), Status::UNPACK_FAILURE, "{number}");
    }
}

/// Something that a client may say: whole messages of whatever kind, or anything.
fn said() -> impl Strategy<Value = Vec<u8>> {
    let nodes = Nodes::silent(&[1], Dialect::Short);
    let calls = [
        nodes.command(0),
        nodes.commit(3, &[("key", Value::Number(1))]),
        nodes.fence(&[("pmix.collect", Value::Truth(true))]),
        nodes.get(1, Some("key"), &[]),
        nodes.get(0, None, &[("pmix.immediate", Value::Truth(true))]),
        nodes.register(&[-3001, -7]),
        nodes.deregister(&[-3001]),
        nodes.notify(-3001, 5, &[("text", Value::Text("what"))]),
        nodes.notify(-7, 6, &[("pmix.evrange", Value::Processes(&[Process { space: SPACE, rank: 1 }]))]),
    ]
    .map(Writer::into_bytes);
    let call = proptest::sample::select(calls.to_vec());
    prop_oneof![
        4 => call.clone().prop_map(|body| message(100, &body)),
        2 => (call, any::<proptest::sample::Index>(), any::<u8>()).prop_map(|(mut body, at, byte)| {
            let at = at.index(body.len());
            body[at] = byte;
            message(101, &body)
        }),
        1 => vec(any::<u8>(), 0..60).prop_map(|body| message(102, &body)),
        1 => vec(any::<u8>(), 0..40),
        1 => Just(message(1, b"beat")),
    ]
}

proptest! {
    #[test]
    fn nothing_a_client_says_harms_its_neighbour(all in vec(said(), 1..12), cut in 1_usize..50) {
        let mut nodes = Nodes::new(&[2], Dialect::Short);
        for bytes in all.concat().chunks(cut) {
            nodes.say(0, bytes);
            let (_, client) = &nodes.clients[&0];
            prop_assert!(client.is_within_limits());
            prop_assert!(client.transmit().len() <= PMI_ANSWER_BYTES_MAX + PMIX_CARDS_BYTES_MAX);
            nodes.hear_bytes(0);
        }
        let commit = nodes.commit(1, &[("mine", Value::Number(1))]);
        prop_assert_eq!(nodes.ask_status(1, &commit), Status::SUCCESS);
        let is_abort = |event: &Event| matches!(event, Event::Abort { .. });
        prop_assert!(nodes.events.iter().all(is_abort));
    }
}
