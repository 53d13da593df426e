//! Having nodes keep files.

mod support;

use std::path::Path;

use coppice_api::keep::{KeepOrder, KeepReport, NotKept};
use coppice_api::program::ProgramView;
use coppice_api::retain::ForgetOrder;
use coppice_api::stream::StagingProgress;
use coppice_protocol::ids::{NodeId, ProgramId, PsetId};
use coppice_protocol::keep::{KeepFile, KeepOutcome, KeepProgress, Kept};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_service_node::controller::{Event, Refused, Request};
use coppice_service_node::database::{Database, ProgramRow};
use coppice_service_node::limits::KEEPS_MAX;
use coppice_service_node::plant::HelperEvent;
use coppice_service_node::store::Held;
use support::memory::{PAGES, bytes, file};
use support::{Cluster, PROGRAM, job, program};
use tokio::sync::oneshot::Receiver;
use tokio::sync::watch;

const BYTES: u64 = 500_000;

fn order(nodes: &[u32]) -> KeepOrder {
    KeepOrder { file: "/data/table".into(), nodes: nodes.to_vec() }
}

/// What is in the file: no program, and in the store as long as somebody needs it.
fn data(cluster: &Cluster, content: u8) -> Held {
    cluster.store.hold(ProgramRow { bytes: BYTES, memory_bytes: 0, ..program(content) })
}

/// Where it is said how far a file is, if nobody wants to know.
fn unseen() -> watch::Sender<StagingProgress> {
    watch::channel(StagingProgress::default()).0
}

/// Gives an order, with nodes that take their time.
fn begin(cluster: &mut Cluster, request: u64, nodes: &[u32]) -> Receiver<Result<KeepReport, Refused>> {
    begin_seen(cluster, request, nodes, unseen())
}

/// The same, and it is said there how far the file is.
fn begin_seen(
    cluster: &mut Cluster,
    request: u64,
    nodes: &[u32],
    said: watch::Sender<StagingProgress>,
) -> Receiver<Result<KeepReport, Refused>> {
    let (file, order) = (data(cluster, 7), order(nodes));
    cluster.ask_and_wait(|answer| Request::Keep(request, order, file, said, answer))
}

/// The same with nodes that are quick.
fn keep(cluster: &mut Cluster, request: u64, nodes: &[u32]) -> Result<KeepReport, Refused> {
    begin(cluster, request, nodes).try_recv().expect("answered at once")
}

fn says(cluster: &mut Cluster, node: u32, request: u64, outcome: KeepOutcome) {
    let answer = Kept { request, outcome, held: vec![] };
    cluster.said(node, FromPset::Kept { node: NodeId(node), answer });
}

fn report(nodes: u32, had: u32, failed: &[(u32, &str)]) -> KeepReport {
    let failed = failed.iter().map(|(node, reason)| NotKept { node: *node, reason: (*reason).into() }).collect();
    KeepReport { hash: program(7).id.to_string(), bytes: BYTES, nodes, had, failed, took_ns: 0 }
}

/// Whom the I/O nodes were told to have keep a file.
fn told(cluster: &Cluster) -> Vec<(u32, KeepFile)> {
    let told = cluster.told().filter_map(|(pset, message)| match message {
        ToPset::Keep(order) => Some((pset.0, order.clone())),
        _ => None,
    });
    told.collect()
}

/// The orders that the I/O nodes were told to end.
fn ended(cluster: &Cluster) -> Vec<(u32, u64)> {
    let ended = cluster.told().filter_map(|(pset, message)| match message {
        ToPset::EndKeep { request } => Some((pset.0, *request)),
        _ => None,
    });
    ended.collect()
}

fn listed(cluster: &mut Cluster) -> Vec<ProgramView> {
    cluster.ask(Request::Programs).expect("listed")
}

#[test]
fn who_gave_the_order_is_told_how_far_it_is() {
    let mut cluster = Cluster::up(4, 2);
    cluster.behaviour.keeps = false;
    let (said, mut seen) = watch::channel(StagingProgress::default());
    let mut answer = begin_seen(&mut cluster, 1, &[2, 3, 0], said);
    assert!(!seen.has_changed().expect("it is under way"));
    let goes_on = |request, bytes, whole| FromPset::Keeping(KeepProgress { request, bytes, whole });
    // Neither of another order, nor by somebody who does not have the file.
    cluster.said(2, goes_on(2, 1000, 1));
    cluster.said(0, goes_on(1, 1000, 1));
    assert!(!seen.has_changed().expect("it is under way"));
    cluster.said(2, goes_on(1, 1000, 1));
    let expected = StagingProgress { bytes: 1000, total: BYTES, whole: 1, nodes: 3 };
    assert_eq!(*seen.borrow_and_update(), expected);
    cluster.said(2, goes_on(1, u64::MAX, u32::MAX));
    assert_eq!(*seen.borrow_and_update(), StagingProgress { bytes: BYTES, whole: 3, ..expected });
    for node in [0, 2, 3] {
        says(&mut cluster, node, 1, KeepOutcome::Whole { was_here: false });
    }
    assert_eq!(answer.try_recv().expect("answered").expect("kept"), report(3, 0, &[]));
    assert!(seen.has_changed().is_err(), "nothing more is said");
    cluster.said(2, goes_on(1, 1000, 1));
}

#[test]
fn all_nodes_are_told_and_what_they_have_is_listed() {
    let mut cluster = Cluster::up(4, 2);
    assert_eq!(keep(&mut cluster, 1, &[]).expect("kept"), report(4, 0, &[]));
    let orders = told(&cluster);
    assert_eq!(orders.iter().map(|(pset, order)| (*pset, order.nodes.len())).collect::<Vec<_>>(), [(0, 2), (1, 2)]);
    let (_, first) = &orders[0];
    assert_eq!((first.transfer.world.node_count(), first.transfer.staging.home), (4, PsetId(0)));
    assert!(orders.iter().all(|(_, order)| order.transfer == first.transfer && order.file == first.file));
    assert_eq!(ended(&cluster), [(0, 1), (1, 1)], "it is over when all have it");
    let files = listed(&mut cluster);
    let [ProgramView { hash, path, kept_nodes, kept_bytes, nodes, memory_bytes, stored, .. }] = &files[..] else {
        panic!("{files:?}")
    };
    assert_eq!((hash.as_str(), path.to_str()), (program(7).id.to_string().as_str(), Some("/data/table")));
    assert_eq!((kept_nodes.as_slice(), *kept_bytes), (&[0, 1, 2, 3][..], 4 * bytes(PAGES)));
    assert_eq!((nodes.len(), *memory_bytes, *stored), (0, 0, false));
    assert!(cluster.nodes().iter().all(|node| node.retained.len() == 1 && node.retained[0].is_file));
    // Once more, on some of them, another sends it.
    assert_eq!(keep(&mut cluster, 2, &[3, 2]).expect("kept"), report(2, 2, &[]));
    let (pset, last) = told(&cluster).pop().expect("told");
    assert_eq!((pset, last.transfer.staging.home, last.nodes), (1, PsetId(1), vec![NodeId(3), NodeId(2)]));
}

#[test]
fn what_nodes_keep_is_recorded_and_void_after_a_boot() {
    let mut cluster = Cluster::up(2, 2);
    keep(&mut cluster, 1, &[]).expect("kept");
    let recorded = |cluster: &Cluster, node| {
        let database = Database::open(&support::paths(cluster.home.path()).database()).expect("database");
        database.node(NodeId(node)).expect("node").retained
    };
    assert_eq!(recorded(&cluster, 0), [file(program(7).id)]);
    // A program that runs there is listed before it, and does not touch it.
    cluster.run_on(PROGRAM, &[0]);
    cluster.run_on(PROGRAM, &[0]);
    let held: Vec<bool> = cluster.nodes()[0].retained.iter().map(|held| held.is_file).collect();
    assert_eq!(held, [false, true]);
    cluster.ask(|answer| Request::Reboot(NodeId(0), answer)).expect("rebooted");
    assert_eq!((recorded(&cluster, 0), recorded(&cluster, 1)), (vec![], vec![file(program(7).id)]));
    let kept: Vec<_> = listed(&mut cluster).into_iter().map(|program| program.kept_nodes).collect();
    assert_eq!(kept, [vec![1], vec![]]);
    cluster.lose_machine(1);
    assert!(listed(&mut cluster).iter().all(|program| program.memory_bytes > 0), "nobody has it any more");
}

#[test]
fn files_are_forgotten_as_programs_are() {
    let mut cluster = Cluster::up(3, 3);
    let forget = |cluster: &mut Cluster, program: Option<&str>| {
        let order = ForgetOrder { program: program.map(Into::into) };
        cluster.ask(|answer| Request::Forget(order, answer)).expect("forgotten")
    };
    for meant in [Some("/data/table"), Some("0707"), None] {
        keep(&mut cluster, 1, &[0, 2]).expect("kept");
        cluster.run_on(PROGRAM, &[1]);
        let forgotten = forget(&mut cluster, meant);
        let nodes = if meant.is_none() { 3 } else { 2 };
        assert_eq!((forgotten.nodes, forgotten.pages), (nodes, u64::from(nodes) * PAGES), "{meant:?}");
        assert!(listed(&mut cluster).iter().all(|program| program.kept_nodes.is_empty()));
    }
}

#[test]
fn nodes_without_it_are_told_with_the_reason() {
    let mut cluster = Cluster::up(5, 5);
    cluster.behaviour.keeps = false;
    let mut answer = begin(&mut cluster, 9, &[4, 0, 1, 2, 3]);
    says(&mut cluster, 0, 9, KeepOutcome::Whole { was_here: true });
    says(&mut cluster, 1, 9, KeepOutcome::Refused("no memory".into()));
    // What was not asked, or was answered, changes nothing.
    for (node, request) in [(1, 9), (0, 9), (2, 8)] {
        says(&mut cluster, node, request, KeepOutcome::Whole { was_here: false });
    }
    cluster.lose_machine(2);
    says(&mut cluster, 3, 9, KeepOutcome::OtherBoot(coppice_protocol::ids::Generation(1)));
    assert!(answer.try_recv().is_err() && ended(&cluster).is_empty(), "one has not answered");
    says(&mut cluster, 4, 9, KeepOutcome::Whole { was_here: false });
    let said = answer.try_recv().expect("answered").expect("done");
    let failed = [(1, "no memory"), (2, "it was lost"), (3, "it was booted anew")];
    assert_eq!(said, report(2, 1, &failed));
    assert_eq!(ended(&cluster), [(0, 9)]);
}

#[test]
fn a_pset_that_cannot_send_it_or_is_gone_ends_it() {
    let mut cluster = Cluster::up(4, 2);
    cluster.behaviour.keeps = false;
    let failed = |reason: &str| FromPset::KeepFailed { request: 1, reason: reason.into() };
    let mut answer = begin(&mut cluster, 1, &[]);
    // It was told of some of the nodes only.
    cluster.said(3, failed("full"));
    says(&mut cluster, 0, 1, KeepOutcome::Whole { was_here: false });
    cluster.said(0, failed("cannot read it"));
    let said = answer.try_recv().expect("answered").expect("done");
    assert_eq!(said, report(1, 0, &[(1, "cannot read it"), (2, "full"), (3, "full")]));
    // Its I/O node is gone, and its nodes with it.
    let mut answer = begin(&mut cluster, 2, &[0, 1]);
    let event = cluster.behaviour.pset(PsetId(0), HelperEvent::Ended("killed".into()));
    cluster.event(event);
    let said = answer.try_recv().expect("answered").expect("done");
    assert_eq!(said, report(0, 0, &[(0, "it was lost"), (1, "it was lost")]));
}

#[test]
fn whoever_goes_away_ends_it() {
    let mut cluster = Cluster::up(2, 1);
    cluster.behaviour.keeps = false;
    let answer = begin(&mut cluster, 5, &[]);
    drop(answer);
    cluster.event(Event::Request(Request::EndKeep(5)));
    assert_eq!(ended(&cluster), [(0, 5), (1, 5)]);
    // Once is enough, and what nodes say then is nobody's business.
    cluster.event(Event::Request(Request::EndKeep(5)));
    says(&mut cluster, 0, 5, KeepOutcome::Whole { was_here: false });
    assert_eq!(ended(&cluster).len(), 2);
    let mut answer = begin(&mut cluster, 6, &[]);
    cluster.event(Event::Request(Request::Down));
    let refused = answer.try_recv().expect("answered").expect_err("the cluster goes down");
    assert!(refused.message.contains("going down"), "{}", refused.message);
}

#[test]
fn what_cannot_be_kept_is_refused_in_one_line() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.keeps = false;
    for (nodes, status, words) in [(&[2][..], 400, "has no node 2; it has 2"), (&[1, 0, 1], 400, "node 1 twice")] {
        let refused = keep(&mut cluster, 1, nodes).expect_err(words);
        assert_eq!(refused.status, status, "{}", refused.message);
        assert!(refused.message.contains(words) && !refused.message.contains('\n'), "{}", refused.message);
    }
    let long = cluster.store.hold(ProgramRow { bytes: 100 << 20, ..program(7) });
    let refused = cluster.ask(|answer| Request::Keep(1, order(&[]), long, unseen(), answer)).expect_err("too long");
    assert!(refused.message.contains("104857600 bytes: a node has 62914560 bytes"), "{}", refused.message);
    let _open: Vec<_> = (0..KEEPS_MAX as u64).map(|request| begin(&mut cluster, request, &[0])).collect();
    let refused = keep(&mut cluster, 99, &[0]).expect_err("too many");
    assert_eq!(refused.status, 409);
    assert!(refused.message.contains("on their way"), "{}", refused.message);
    cluster.event(Event::Request(Request::EndKeep(3)));
    cluster.behaviour.keeps = true;
    assert_eq!(keep(&mut cluster, 99, &[0]).expect("there is room"), report(1, 0, &[]));
    assert!(!told(&cluster).iter().any(|(_, order)| order.content() != Some(ProgramId([7; 32]))));
    // Nodes that are not up have nothing.
    let mut cluster = Cluster::new(2, 2);
    cluster.behaviour.boots = false;
    cluster.settle();
    for (nodes, words) in [(&[][..], "no node is up"), (&[1], "node 1 is not up")] {
        let refused = keep(&mut cluster, 1, nodes).expect_err(words);
        assert!(refused.status == 409 && refused.message.contains(words), "{}", refused.message);
    }
}

#[test]
fn a_copy_stays_in_the_store_as_long_as_it_is_sent() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.keeps = false;
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("data");
    std::fs::write(&path, "some data").expect("written");
    let (held, _) =
        cluster.store.import_as(coppice_service_node::store::Kind::Data, Path::new(&path)).expect("imported");
    let copy = cluster.store.path(held.id);
    let mut answer = cluster.ask_and_wait(|answer| Request::Keep(1, order(&[]), held, unseen(), answer));
    assert!(copy.exists());
    says(&mut cluster, 0, 1, KeepOutcome::Whole { was_here: false });
    assert!(answer.try_recv().expect("answered").is_ok());
    assert!(!copy.exists(), "nobody needs it any more");
    let id = cluster.submit_program(PROGRAM, job(1)).expect("accepted");
    cluster.end(id);
}
