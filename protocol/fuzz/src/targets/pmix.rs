//! What PMIx clients say. The first byte chooses whether they have begun, and how they write; the second how the rest
//! is cut.

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMIX_CARDS_BYTES_MAX};
use coppice_protocol::pmi::{NodeRanks, Placement, Server};
use coppice_protocol::pmix::{Client, Dialect, Process, Value, Writer};

use super::shape;

const SPACE: &[u8] = b"k0";

fn greeting(module: &[u8]) -> Vec<u8> {
    let body = [b"none\0\0\0\0\0\0k0\0\0\0\0\x004.2.2\0", module, b"\0\x01hash\0"].concat();
    [&[0xff; 8], &(body.len() as u64).to_le_bytes()[..], &body].concat()
}

fn message(body: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, 0, 0, 0, 100], &(body.len() as u32).to_be_bytes()[..], &[0; 4], body].concat()
}

pub(super) fn run(data: &[u8]) -> u64 {
    let Some((&[choice, cut], stream)) = data.split_first_chunk::<2>() else { return 0 };
    let place = |node| NodeRanks { node: NodeId(node), first: Rank(2 * node), count: 2 };
    let placement = Placement::new((0..2).map(place).collect()).expect("in order");
    let mut server = Server::new(JobId(0), &[7; 32], placement, NodeId(0)).expect("a place");
    let mut client = Client::new(Rank(0));
    if choice & 1 == 0 {
        let first = greeting(if choice & 2 == 0 { b"v41" } else { b"v3" });
        assert_eq!(client.handle_bytes(&first, &mut server, 0), first.len());
        assert_eq!(client.transmit(), [0; 8]);
        client.consume(8);
    }
    let mut said = String::new();
    for piece in stream.chunks(usize::from(cut) + 1) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = &rest[client.handle_bytes(rest, &mut server, 0)..];
            client.poll(&mut server, 0);
            assert!(client.is_within_limits());
            assert!(client.transmit().len() <= PMI_ANSWER_BYTES_MAX + PMIX_CARDS_BYTES_MAX);
            said.extend(client.transmit().iter().map(|byte| char::from(*byte)));
            client.consume(client.transmit().len());
        }
    }
    while let Some(event) = server.poll_event() {
        said.push_str(&format!("{event:?}"));
    }
    shape(&said)
}

/// A rank's whole conversation, in either way of writing, and its calls one by one.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let mut examples = Vec::new();
    for (choice, dialect) in [(0, Dialect::Short), (2, Dialect::Wide)] {
        let call = |number: u8| {
            let mut writer = Writer::new(dialect);
            writer.packed(1).byte(number);
            writer
        };
        let mut bucket = Writer::new(dialect);
        let inner = [("rank", Value::Rank(3)), ("name", Value::Text("node0"))];
        bucket.pair("card", &Value::Bytes(&[1, 2, 3])).pair("more", &Value::Infos(&inner));
        let mut commit = call(2);
        commit.packed(1).byte(3).packed(1).byte(1).object(bucket.bytes());
        let mut fence = call(3);
        fence.packed(1).size(1).packed(1).process(Process { space: SPACE, rank: u32::MAX - 1 });
        fence.packed(1).size(1).packed(1).info("pmix.collect", &Value::Truth(true));
        let mut get = call(4);
        get.packed(1).text(SPACE).packed(1).u32(0).packed(1).size(0).packed(1).text(b"card");
        let mut abort = call(1);
        abort.packed(1).i32(3).packed(1).text(b"words").packed(1).size(0);
        let mut ask = call(13);
        ask.packed(1).size(2).packed(2).i32(-3001).i32(-7).packed(1).size(0);
        let mut tell = call(12);
        let targets = [Process { space: SPACE, rank: 1 }];
        tell.packed(1).i32(-3001).packed(1).byte(6).packed(1).size(2).packed(2);
        tell.info("pmix.evrange", &Value::Processes(&targets)).info("pmix.evnondef", &Value::Truth(true));
        let mut ask_no_more = call(14);
        ask_no_more.packed(1).i32(-3001);
        let mut query = call(15);
        query.packed(1).size(1).packed(1).i32(2).text(b"pmix.qry.ptable").text(b"pmix.qry.ns");
        query.size(1).info("pmix.nspace", &Value::Text("k0"));
        let calls = [call(0), commit, get, fence, ask, tell, ask_no_more, query, abort, call(5)]
            .map(|writer| message(writer.bytes()));
        examples.push([&[choice, 200], &calls.concat()[..]].concat());
        examples.extend(calls.iter().map(|call| [&[choice, 7], &call[..]].concat()));
        let module: &[u8] = if choice == 0 { b"v4" } else { b"v21" };
        examples.push([&[1, 3], &greeting(module)[..], &calls.concat()].concat());
    }
    examples
}
