//! Values that ranks publish.

use coppice_protocol::limits::PMI_ASK_NS;
use coppice_protocol::pmix::{Dialect, Kind, Reader, Status, Value, Writer};

use crate::nodes::{Nodes, SECOND_NS};

const PUBLISH: u8 = 6;
const LOOK_UP: u8 = 7;
const UNPUBLISH: u8 = 8;

fn infos(call: &mut Writer, infos: &[(&str, Value<'_>)]) {
    call.packed(1).size(infos.len());
    if !infos.is_empty() {
        call.packed(infos.len());
    }
    for (key, value) in infos {
        call.info(key, value);
    }
}

fn publish(nodes: &Nodes, what: &[(&str, Value<'_>)]) -> Writer {
    let mut call = nodes.command(PUBLISH);
    call.packed(1).u32(0);
    infos(&mut call, what);
    call
}

fn about(nodes: &Nodes, number: u8, keys: &[&str], directives: &[(&str, Value<'_>)]) -> Writer {
    let mut call = nodes.command(number);
    call.packed(1).u32(0).packed(1).size(keys.len());
    for key in keys {
        call.packed(1).text(key.as_bytes());
    }
    infos(&mut call, directives);
    call
}

/// What the only answer that a rank hears has: who has published each, and its number.
fn found(nodes: &mut Nodes, rank: u32) -> Vec<(u32, String, u32)> {
    let heard = nodes.hear(rank);
    let mut answer = Reader::new(&heard[0].1, nodes.dialect);
    assert_eq!((heard.len(), answer.packed(1), answer.i32(), answer.packed(1)), (1, Ok(()), Ok(0), Ok(())));
    let count = answer.size().expect("a count");
    if count > 0 {
        answer.packed(count).expect("as many");
    }
    let all = (0..count).map(|_| {
        let process = answer.process().expect("who");
        let key = String::from_utf8_lossy(answer.text().expect("a key")).into_owned();
        assert_eq!(answer.u16().map(Kind), Ok(Kind::UINT32));
        (process.rank, key, answer.u32().expect("a number"))
    });
    all.collect()
}

fn ask(nodes: &mut Nodes, rank: u32, call: &Writer) -> Status {
    nodes.call(rank, call);
    nodes.settle();
    let heard = nodes.hear(rank);
    nodes.status(&heard[0].1)
}

#[test]
fn what_is_published_is_found_wherever_it_is_kept() {
    for dialect in [Dialect::Short, Dialect::Wide] {
        let mut nodes = Nodes::new(&[1, 1, 1], dialect);
        let range = ("pmix.range", Value::Number(4));
        for rank in 0..3 {
            let (one, other) = (format!("one{rank}"), format!("other{rank}"));
            let call = publish(&nodes, &[(&one, Value::Number(rank)), range, (&other, Value::Number(rank + 70))]);
            assert_eq!(ask(&mut nodes, rank, &call), Status::SUCCESS);
        }
        let call = about(&nodes, LOOK_UP, &["one2", "other0", "none", "one1"], &[]);
        nodes.call(1, &call);
        nodes.settle();
        let wanted = [(2, "one2", 2), (0, "other0", 70), (1, "one1", 1)];
        assert_eq!(found(&mut nodes, 1), wanted.map(|(rank, key, number)| (rank, String::from(key), number)));
    }
}

#[test]
fn a_name_is_published_once_until_it_is_not() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let (call, end) = (publish(&nodes, &[("name", Value::Number(1))]), about(&nodes, UNPUBLISH, &["name"], &[]));
    assert_eq!(ask(&mut nodes, 0, &call), Status::SUCCESS);
    assert_eq!(ask(&mut nodes, 1, &call), Status::DUPLICATE_KEY);
    assert_eq!(ask(&mut nodes, 0, &end), Status::SUCCESS);
    assert_eq!(ask(&mut nodes, 0, &end), Status::NOT_FOUND);
    assert_eq!(ask(&mut nodes, 1, &call), Status::SUCCESS);
}

#[test]
fn what_is_not_there_yet_may_be_waited_for() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let (now, later) = (
        about(&nodes, LOOK_UP, &["name"], &[]),
        about(&nodes, LOOK_UP, &["name"], &[("pmix.wait", Value::Number(0)), ("pmix.timeout", Value::Number(9))]),
    );
    assert_eq!(ask(&mut nodes, 0, &now), Status::NOT_FOUND);
    nodes.call(0, &later);
    for _ in 0..10 {
        nodes.settle();
        assert_eq!(nodes.hear(0), []);
        nodes.pass(PMI_ASK_NS / 8);
    }
    let call = publish(&nodes, &[("name", Value::Number(5))]);
    assert_eq!(ask(&mut nodes, 1, &call), Status::SUCCESS);
    for _ in 0..2 {
        nodes.pass(PMI_ASK_NS / 8);
        assert_eq!(nodes.hear(0), []);
        nodes.settle();
    }
    assert_eq!(found(&mut nodes, 0), [(1, "name".into(), 5)]);
}

#[test]
fn nobody_waits_longer_than_he_wants() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let call =
        about(&nodes, LOOK_UP, &["name"], &[("pmix.wait", Value::Number(0)), ("pmix.timeout", Value::Number(2))]);
    nodes.call(0, &call);
    let mut heard = Vec::new();
    for _ in 0..12 {
        nodes.settle();
        heard.extend(nodes.hear(0));
        nodes.pass(SECOND_NS / 4);
    }
    assert_eq!((heard.len(), nodes.status(&heard[0].1)), (1, Status::TIMEOUT));
}
