//! Orders about what lies in regions of nodes: which I/O node gets them, and what those hear whose I/O node does not
//! answer.

mod support;

use std::time::Duration;

use coppice_protocol::checkpoint::PartOf;
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::{FromPset, Pulled, ToPset};
use coppice_protocol::region::SlotKey;
use coppice_service_node::controller::{Event, Objects, Refused, Request};
use coppice_service_node::limits::{PULL_SILENCE_MAX, REGION_ORDERS_MAX, WIPE_TIME_MAX};
use coppice_service_node::plant::HelperEvent;
use support::Cluster;
use support::cutting::part;
use tokio::sync::{oneshot, watch};

const FROM: SlotKey = SlotKey { slot: 1, key: 77 };

const SECOND: Duration = Duration::from_secs(1);

type Answered<T> = oneshot::Receiver<Result<T, Refused>>;

/// Two psets of two nodes each, whose I/O nodes do nothing by themselves.
fn cluster() -> Cluster {
    let cluster = Cluster::up(4, 2);
    cluster.behaviour.cutting.pull(None);
    cluster
}

fn pull(cluster: &mut Cluster, node: u32) -> (Answered<Pulled>, watch::Receiver<Objects>) {
    let (progress, shown) = watch::channel((0, 0));
    (cluster.ask_and_wait(|answer| Request::Pull(NodeId(node), FROM, progress, answer)), shown)
}

fn wipe_only(cluster: &mut Cluster, node: u32) -> Answered<()> {
    let (answer, answered) = oneshot::channel();
    let wipe = Request::Wipe(NodeId(node), Some(JobId(3)), Some(FROM), answer);
    cluster.controller.handle(Event::Request(wipe), cluster.now());
    answered
}

fn refusal<T: std::fmt::Debug>(answered: &mut Answered<T>) -> String {
    let message = answered.try_recv().expect("answered").expect_err("refused").message;
    assert!(!message.contains('\n'), "{message}");
    message
}

/// The orders so far: pset, number, and of which node.
fn orders(cluster: &Cluster) -> Vec<(PsetId, u64, NodeId)> {
    let of = |(pset, message): (PsetId, &ToPset)| match message {
        ToPset::Pull { request, node, from: FROM } => Some((pset, *request, *node)),
        ToPset::Wipe { request, node, job: Some(JobId(3)), but: Some(FROM) } => Some((pset, *request, *node)),
        _ => None,
    };
    cluster.told().filter_map(of).collect()
}

#[test]
fn the_io_node_of_the_node_is_told_and_answers() {
    let mut cluster = cluster();
    let (mut pulled, shown) = pull(&mut cluster, 3);
    let mut wiped = cluster.ask_and_wait(|answer| Request::Wipe(NodeId(3), Some(JobId(3)), Some(FROM), answer));
    assert_eq!(orders(&cluster), [(PsetId(1), 1, NodeId(3)), (PsetId(1), 2, NodeId(3))]);
    assert_eq!(wiped.try_recv().expect("answered"), Ok(()));
    // Another I/O node, another number, another kind of answer: nobody asked for these.
    let whole = Pulled { parts: vec![part(PartOf::Rank(Rank(6)))], hash_ns: 5 };
    cluster.said(0, FromPset::Pulled { request: 1, pulled: Ok(Pulled::default()) });
    cluster.said(0, FromPset::Pulling { request: 1, objects: (9, 9) });
    cluster.said(3, FromPset::Pulled { request: 7, pulled: Ok(Pulled::default()) });
    cluster.said(3, FromPset::Wiped { request: 1, failed: None });
    assert!(pulled.try_recv().is_err());
    cluster.said(3, FromPset::Pulling { request: 1, objects: (2, 5) });
    assert_eq!(*shown.borrow(), (2, 5));
    // What becomes of the node does not matter.
    cluster.lose_machine(3);
    cluster.said(2, FromPset::Pulled { request: 1, pulled: Ok(whole.clone()) });
    assert_eq!(pulled.try_recv().expect("answered"), Ok(whole));
    // What goes wrong is said.
    let (mut pulled, _) = pull(&mut cluster, 1);
    cluster.said(1, FromPset::Pulled { request: 3, pulled: Err("object 5 is not what was written".into()) });
    let message = "what node 1 has in its region cannot be stored: object 5 is not what was written";
    assert_eq!(refusal(&mut pulled), message);
    cluster.behaviour.cutting.not_wiped = [(NodeId(0), "cannot open '0': No such file or directory".into())].into();
    let mut wiped = cluster.ask_and_wait(|answer| Request::Wipe(NodeId(0), None, None, answer));
    assert_eq!(refusal(&mut wiped), "cannot open '0': No such file or directory");
    let (mut pulled, _) = pull(&mut cluster, 4);
    assert_eq!(refusal(&mut pulled), "there is no node 4");
}

#[test]
fn pulls_are_waited_for_as_long_as_those_of_their_pset_come_further() {
    let mut cluster = cluster();
    let (mut first, _) = pull(&mut cluster, 0);
    let (mut second, _) = pull(&mut cluster, 1);
    let (mut other, _) = pull(&mut cluster, 2);
    for stored in 1..=3 {
        cluster.pass(PULL_SILENCE_MAX - SECOND);
        cluster.said(0, FromPset::Pulling { request: 1, objects: (stored, 100) });
    }
    assert!(first.try_recv().is_err() && second.try_recv().is_err());
    let message = "the I/O node of pset 1 has stored nothing more of what node 2 has in its region for 60 s; is what \
                   the checkpoints lie on still there?";
    assert_eq!(refusal(&mut other), message);
    // The next one begins when this one is done.
    cluster.pass(PULL_SILENCE_MAX - SECOND);
    cluster.said(0, FromPset::Pulled { request: 1, pulled: Ok(Pulled::default()) });
    assert_eq!(first.try_recv().expect("answered"), Ok(Pulled::default()));
    // That it says the same again is no progress.
    cluster.said(0, FromPset::Pulling { request: 2, objects: (1, 9) });
    cluster.pass(PULL_SILENCE_MAX - SECOND);
    cluster.said(0, FromPset::Pulling { request: 2, objects: (1, 9) });
    assert!(second.try_recv().is_err());
    cluster.pass(SECOND);
    assert!(refusal(&mut second).contains("of what node 1 has"));
    // An answer that comes now is nobody's.
    cluster.said(0, FromPset::Pulled { request: 2, pulled: Ok(Pulled::default()) });
}

#[test]
fn a_wipe_is_waited_for_a_while_and_orders_end_with_their_io_node() {
    let mut cluster = cluster();
    cluster.behaviour.cutting.wipes = false;
    let mut wiped = wipe_only(&mut cluster, 0);
    cluster.pass(WIPE_TIME_MAX - SECOND);
    assert!(wiped.try_recv().is_err());
    cluster.pass(SECOND);
    assert_eq!(refusal(&mut wiped), "the I/O node of pset 0 did not wipe the region of node 0 within 10 s");
    let (mut pulled, _) = pull(&mut cluster, 0);
    let (mut other, _) = pull(&mut cluster, 2);
    let ended = cluster.behaviour.pset(PsetId(0), HelperEvent::Ended("it was killed by signal 9".into()));
    cluster.event(ended);
    assert_eq!(refusal(&mut pulled), "the I/O node of pset 0 ended: it was killed by signal 9");
    assert!(other.try_recv().is_err());
    // The next one has nothing to do with what the last one was told.
    cluster.said(0, FromPset::Pulled { request: 2, pulled: Ok(Pulled::default()) });
    let (mut pulled, _) = pull(&mut cluster, 0);
    cluster.said(0, FromPset::Pulled { request: 4, pulled: Ok(Pulled::default()) });
    assert_eq!(pulled.try_recv().expect("answered"), Ok(Pulled::default()));
    cluster.event(Event::Request(Request::Down));
    assert_eq!(refusal(&mut other), "the cluster is going down");
    let (mut pulled, _) = pull(&mut cluster, 0);
    assert_eq!(refusal(&mut pulled), "the cluster is going down");
}

#[test]
fn no_more_orders_wait_than_may() {
    let mut cluster = cluster();
    let mut open: Vec<_> = (0..REGION_ORDERS_MAX).map(|_| pull(&mut cluster, 0).0).collect();
    let (mut over, _) = pull(&mut cluster, 2);
    assert_eq!(over.try_recv().expect("answered").expect_err("refused").status, 503);
    cluster.said(0, FromPset::Pulled { request: 1, pulled: Ok(Pulled::default()) });
    assert!(open[0].try_recv().expect("answered").is_ok());
    let (mut next, _) = pull(&mut cluster, 2);
    assert!(next.try_recv().is_err());
}

#[test]
fn an_io_node_that_is_not_there_is_told_nothing() {
    let mut cluster = Cluster::new(2, 2);
    let mut wiped = wipe_only(&mut cluster, 1);
    assert_eq!(refusal(&mut wiped), "the I/O node of pset 0 does not run; try again when it does");
    assert!(orders(&cluster).is_empty());
}
