//! What ranks ask about their job.

use std::collections::BTreeMap;

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::PMIX_QUERIES_MAX;
use coppice_protocol::pmix::{Dialect, Kind, Process, Reader, Status, Value, Writer};

use crate::nodes::{Nodes, SPACE};

/// `PMIx_Query_info` for some keys, each with these qualifiers.
fn query(nodes: &Nodes, keys: &[&[&str]], qualifiers: &[(&str, Value<'_>)]) -> Writer {
    let mut call = nodes.command(15);
    call.packed(1).size(keys.len());
    if !keys.is_empty() {
        call.packed(keys.len());
    }
    for keys in keys {
        call.i32(keys.len() as i32);
        for key in *keys {
            call.text(key.as_bytes());
        }
        call.size(qualifiers.len());
        for (key, value) in qualifiers {
            call.info(key, value);
        }
    }
    call
}

/// The status and what else there is of an answer.
fn understand(nodes: &Nodes, answer: &[u8]) -> (Status, BTreeMap<String, (Kind, Vec<u8>)>) {
    let mut reader = Reader::new(answer, nodes.dialect);
    reader.packed(1).expect("a status");
    let status = Status(reader.i32().expect("a status"));
    reader.packed(1).expect("a count");
    let count = reader.size().expect("a count");
    if count > 0 {
        reader.packed(count).expect("as many");
    }
    let infos = (0..count).map(|_| {
        let info = reader.info().expect("an info");
        (String::from_utf8_lossy(info.key).into_owned(), (info.kind, info.value.to_vec()))
    });
    let infos = infos.collect();
    assert!(reader.is_empty());
    (status, infos)
}

/// A table of processes: rank, host, program, process id, state.
fn table(nodes: &Nodes, (kind, value): &(Kind, Vec<u8>)) -> Vec<(u32, String, String, u32, u8)> {
    assert_eq!(*kind, Kind::DATA_ARRAY);
    let mut reader = Reader::new(value, nodes.dialect);
    assert_eq!(reader.u16().map(Kind), Ok(Kind::PROC_INFO));
    let count = reader.size().expect("a count");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rows = (0..count).map(|_| {
        let process = reader.process().expect("a process");
        assert_eq!(process.space, SPACE);
        let (host, program) = (text(reader.text().expect("a host")), text(reader.text().expect("a program")));
        assert_eq!(reader.u16().map(Kind), Ok(Kind::UINT32));
        (process.rank, host, program, reader.u32().expect("an id"), reader.byte().expect("a state"))
    });
    rows.collect()
}

#[test]
fn what_is_known_of_the_job_is_answered() {
    for dialect in [Dialect::Short, Dialect::Wide] {
        let mut nodes = Nodes::new(&[1, 2], dialect);
        let call = query(&nodes, &[&["pmix.qry.ns", "pmix.qry.psetnum"], &["pmix.qry.jst"]], &[]);
        let answer = nodes.ask(1, &call);
        let (status, infos) = understand(&nodes, &answer);
        assert_eq!((status, infos.len()), (Status::SUCCESS, 3));
        let of = |key: &str| Reader::new(&infos[key].1, dialect);
        assert_eq!((of("pmix.qry.ns").text(), of("pmix.qry.psetnum").size()), (Ok(SPACE), Ok(0)));
        assert_eq!((infos["pmix.qry.jst"].0, of("pmix.qry.jst").i32()), (Kind::STATUS, Ok(0)));
    }
}

#[test]
fn a_table_has_all_processes_and_what_became_of_those_of_the_node() {
    for dialect in [Dialect::Short, Dialect::Wide] {
        let mut nodes = Nodes::new(&[1, 3], dialect);
        nodes.servers[1].set_program(b"/bin/meets", (1000, 1002));
        let finalize = nodes.command(5);
        assert_eq!(nodes.ask_status(2, &finalize), Status::SUCCESS);
        nodes.servers[1].rank_ended(Rank(2), Exit::Status(0), 0);
        nodes.servers[1].rank_ended(Rank(3), Exit::Signal(11), 0);
        let ours = [("pmix.nspace", Value::Text("k0"))];
        let call = query(&nodes, &[&["pmix.qry.ptable", "pmix.qry.lptable"]], &ours);
        let answer = nodes.ask(1, &call);
        let (status, infos) = understand(&nodes, &answer);
        assert_eq!(status, Status::SUCCESS);
        let row = |rank: u32, state| {
            let (node, id) = (u32::from(rank > 0), (1000 + rank).min(1002));
            (rank, format!("node{node}"), String::from("/bin/meets"), id, state)
        };
        let all = [row(0, 0), row(1, 6), row(2, 20), row(3, 54)];
        assert_eq!(table(&nodes, &infos["pmix.qry.ptable"]), all);
        assert_eq!(table(&nodes, &infos["pmix.qry.lptable"]), all[1..]);
    }
}

#[test]
fn a_group_has_members() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let mut make = nodes.command(24);
    make.packed(1).text(b"both").packed(1).size(2).packed(2);
    make.process(Process { space: SPACE, rank: 0 }).process(Process { space: SPACE, rank: 1 }).packed(1).size(0);
    for rank in [0, 1] {
        nodes.call(rank, &make);
    }
    nodes.hear(0);
    let named = |name| [("pmix.grp.id", Value::Text(name))];
    let (both, other) = (
        query(&nodes, &[&["pmix.qry.pgrpmems"]], &named("both")),
        query(&nodes, &[&["pmix.qry.pgrpmems"]], &named("other")),
    );
    let answer = nodes.ask(0, &both);
    let (status, infos) = understand(&nodes, &answer);
    let mut members = Reader::new(&infos["pmix.qry.pgrpmems"].1, Dialect::Short);
    assert_eq!((status, members.u16().map(Kind), members.size()), (Status::SUCCESS, Ok(Kind::PROC), Ok(2)));
    let answer = nodes.ask(0, &other);
    assert_eq!(understand(&nodes, &answer).0, Status::NOT_FOUND);
}

#[test]
fn what_is_not_known_is_said_to_be_so() {
    let mut nodes = Nodes::new(&[1], Dialect::Short);
    let other = [("pmix.nspace", Value::Text("k9"))];
    let many = vec!["pmix.qry.ns"; PMIX_QUERIES_MAX];
    let more = [&many[..], &["pmix.qry.ns"]];
    for (keys, qualifiers, wanted) in [
        (&[&["pmix.qry.qlst"][..]][..], &[][..], Status::NOT_SUPPORTED),
        (&[&["pmix.qry.lptable"]], &other, Status::NOT_FOUND),
        (&[&["pmix.qry.jst", "pmix.qry.ns"]], &other, Status::QUERY_PARTIAL_SUCCESS),
        (&[&["pmix.qry.pgrpmems"]], &[], Status::BAD_PARAM),
        (&[&[]], &[], Status::BAD_PARAM),
        (&[], &[], Status::BAD_PARAM),
        (&[&many], &[], Status::SUCCESS),
        (&more, &[], Status::OUT_OF_RESOURCE),
    ] {
        let call = query(&nodes, keys, qualifiers);
        let answer = nodes.ask(0, &call);
        let (status, infos) = understand(&nodes, &answer);
        assert_eq!(status, wanted, "{keys:?}");
        assert_eq!(!infos.is_empty(), [Status::SUCCESS, Status::QUERY_PARTIAL_SUCCESS].contains(&status), "{keys:?}");
    }
    // What is said to be answered is.
    let call = query(&nodes, &[&["pmix.qry.keys"]], &[]);
    let answer = nodes.ask(0, &call);
    let (_, infos) = understand(&nodes, &answer);
    let keys = Reader::new(&infos["pmix.qry.keys"].1, Dialect::Short).text().map(<[u8]>::to_vec).expect("a text");
    let keys = String::from_utf8(keys).expect("text");
    for key in keys.split(',') {
        let call = query(&nodes, &[&[key]], &[]);
        let answer = nodes.ask(0, &call);
        assert_ne!(understand(&nodes, &answer).0, Status::NOT_SUPPORTED, "{key}");
    }
}
