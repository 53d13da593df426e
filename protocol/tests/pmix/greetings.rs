//! How clients begin and end.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::pmi::{Event, Failure};
use coppice_protocol::pmix::{Dialect, Kind, Reader, Status};

use crate::nodes::{Nodes, SPACE, greeting};

/// What a client hears that is refused: a status, and that is all.
fn refused(counts: &[u32], rank: u32, bytes: &[u8]) -> Status {
    let mut nodes = Nodes::silent(counts, Dialect::Short);
    assert_eq!(nodes.say(rank, bytes), None);
    let heard = nodes.hear_bytes(rank);
    assert!(nodes.clients[&rank].1.is_over());
    Status(i32::from_be_bytes(heard.try_into().expect("a status alone")))
}

#[test]
fn clients_of_four_versions_are_greeted() {
    for module in ["v21", "v3", "v4", "v41"] {
        let mut nodes = Nodes::silent(&[2], Dialect::Short);
        assert_eq!(nodes.say(1, &greeting(SPACE, 1, module)), None);
        assert_eq!(nodes.hear_bytes(1), [0, 0, 0, 0, 0, 0, 0, 1], "{module}");
    }
}

#[test]
fn who_is_not_who_it_says_is_turned_away() {
    assert_eq!(refused(&[2], 0, &greeting(SPACE, 1, "v41")), Status::NOT_FOUND);
    assert_eq!(refused(&[2], 0, &greeting(b"k1", 0, "v41")), Status::NOT_FOUND);
    assert_eq!(refused(&[2], 0, &greeting(SPACE, 0, "v9")), Status::NOT_SUPPORTED);
    assert_eq!(refused(&[2], 0, &greeting(SPACE, 0, "v12")), Status::NOT_SUPPORTED);
}

#[test]
fn tools_and_described_buffers_are_refused() {
    let whole = greeting(SPACE, 0, "v41");
    let flag = 16 + 7 + 4 + 8;
    let mut tool = whole.clone();
    tool[flag] = 4;
    assert_eq!(refused(&[1], 0, &tool), Status::NOT_SUPPORTED);
    let described = whole.len() - 6;
    let mut other = whole.clone();
    assert_eq!(core::mem::replace(&mut other[described], 2), 1);
    assert_eq!(refused(&[1], 0, &other), Status::NOT_SUPPORTED);
    for length in 0..whole.len() - 16 - 6 {
        let mut short = whole.clone();
        short[8..16].copy_from_slice(&(length as u64).to_le_bytes());
        assert_eq!(refused(&[1], 0, &short), Status::UNPACK_FAILURE, "{length}");
    }
}

#[test]
fn a_rank_begins_once_at_a_time() {
    let mut nodes = Nodes::new(&[1], Dialect::Short);
    let (node, mut other) = (0, coppice_protocol::pmix::Client::new(Rank(0)));
    let bytes = greeting(SPACE, 0, "v41");
    other.handle_bytes(&bytes, &mut nodes.servers[node], 0);
    assert_eq!(other.transmit(), Status::EXISTS.0.to_be_bytes());
    let finalize = nodes.command(5);
    assert_eq!(nodes.ask_status(0, &finalize), Status::SUCCESS);
    let mut third = coppice_protocol::pmix::Client::new(Rank(0));
    third.handle_bytes(&bytes, &mut nodes.servers[node], 0);
    assert_eq!(third.transmit(), [0; 8]);
}

#[test]
fn who_ends_unfinalized_ends_the_job() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let finalize = nodes.command(5);
    assert_eq!(nodes.ask_status(0, &finalize), Status::SUCCESS);
    nodes.servers[0].rank_ended(Rank(0), Exit::Status(0), 0);
    nodes.servers[0].rank_ended(Rank(1), Exit::Status(0), 0);
    nodes.pass(0);
    assert!(matches!(nodes.events[..], [Event::Failed(Failure::NotFinalized { rank: Rank(1), .. })]));
}

#[test]
fn an_abort_has_its_status_and_its_words() {
    let mut nodes = Nodes::new(&[1], Dialect::Wide);
    let mut abort = nodes.command(1);
    abort.packed(1).i32(7).packed(1).text(b"no\tway").packed(1).size(0);
    assert_eq!(nodes.ask_status(0, &abort), Status::SUCCESS);
    assert_eq!(nodes.events, [Event::Abort { rank: Rank(0), code: 7, message: "no way".into() }]);
}

#[test]
fn a_client_is_told_of_its_job() {
    for dialect in [Dialect::Short, Dialect::Wide] {
        let mut nodes = Nodes::new(&[2, 1], dialect);
        let command = nodes.command(0);
        let answer = nodes.ask(2, &command);
        let mut reader = Reader::new(&answer, dialect);
        reader.packed(1).expect("a name");
        assert_eq!(reader.text(), Ok(SPACE));
        let pairs: Vec<_> = coppice_protocol::pmix::Pairs::of(reader).map(|pair| pair.expect("a pair")).collect();
        let of = |key: &str| {
            let all = pairs.iter().filter(|(name, _)| *name == key.as_bytes());
            all.map(|(_, pair)| Reader::new(&pair[pair.len() - Reader::new(pair, dialect).rest().len()..], dialect))
                .map(|mut pair| {
                    pair.text().expect("a key");
                    (Kind(pair.u16().expect("a type")), pair)
                })
                .collect::<Vec<_>>()
        };
        let number = |key: &str| {
            let [(Kind::UINT32, mut value)] = of(key)[..] else { panic!("{key}") };
            value.u32().expect("a number")
        };
        assert_eq!((number("pmix.job.size"), number("pmix.num.nodes"), number("pmix.univ.size")), (3, 2, 3));
        assert_eq!(of("pmix.node.arr").len(), 2);
        let blobs: Vec<_> = of("pmix.pblob").into_iter().map(|(_, mut blob)| blob.object().expect("bytes")).collect();
        let ranks = blobs.iter().map(|blob| {
            let mut blob = Reader::new(blob, dialect);
            blob.packed(1).expect("a rank");
            let rank = blob.u32().expect("a rank");
            let keys = coppice_protocol::pmix::Pairs::of(blob).map(|pair| pair.expect("a pair").0);
            assert!(keys.into_iter().any(|key| key == b"pmix.hname"));
            rank
        });
        assert_eq!(ranks.collect::<Vec<_>>(), [0, 1, 2]);
    }
}
