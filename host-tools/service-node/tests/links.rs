//! Links that are shown and changed: what is kept over a new fabric and a reboot, what is recorded, what is refused,
//! and how long a fabric that does not answer is waited for.

mod support;

use std::path::PathBuf;

use coppice_api::job::{EXIT_COPPICE, Submission};
use coppice_api::link::{
    Bandwidth, Direction, LinkChange, LinkOrder, LinkShape, LinkShapes, LinkView, LinksQuery, LinksView,
    RecordingOrder, Station,
};
use coppice_api::node::NodeState;
use coppice_api::ras::{RasQuery, RasView};
use coppice_protocol::ids::NodeId;
use coppice_protocol::pset::{FromPset, StartJob, ToPset};
use coppice_service_node::controller::{Refused, Request};
use coppice_service_node::limits::{BOOT_TIME_MAX, LINK_ORDERS_MAX, LINK_TIME_MAX};
use coppice_service_node::plant::{FromFabric, HelperEvent};
use coppice_service_node::store::Kind;
use support::{Cluster, FILE, Order, PROGRAM, job};
use tokio::sync::oneshot::Receiver;

fn order(links: &str, change: LinkChange) -> LinkOrder {
    LinkOrder { links: links.parse().expect("links"), change, recording: None }
}

fn recording(links: &str, recording: RecordingOrder) -> LinkOrder {
    LinkOrder { recording: Some(recording), ..order(links, LinkChange::default()) }
}

fn start(file: &str) -> RecordingOrder {
    RecordingOrder::Start { file: file.into() }
}

fn cut(is_cut: bool) -> LinkChange {
    LinkChange { cut: Some(is_cut), ..LinkChange::default() }
}

/// Changes links, which the fabric must do at once.
fn change(cluster: &mut Cluster, order: LinkOrder) -> Result<LinksView, Refused> {
    cluster.ask(|answer| Request::ChangeLinks(order, answer))
}

/// Changes links with a fabric that takes its time.
fn begin(cluster: &mut Cluster, order: LinkOrder) -> Receiver<Result<LinksView, Refused>> {
    cluster.ask_and_wait(|answer| Request::ChangeLinks(order, answer))
}

fn refused(answered: &mut Receiver<Result<LinksView, Refused>>) -> Refused {
    answered.try_recv().expect("answered by now").expect_err("refused")
}

fn show(cluster: &mut Cluster) -> LinksView {
    cluster.ask(|answer| Request::Links(LinksQuery::default(), answer)).expect("shown")
}

fn link(cluster: &mut Cluster, station: Station) -> LinkView {
    show(cluster).links.into_iter().find(|view| view.link == station).expect("a link")
}

/// What the fabric has made of a link.
fn made(cluster: &Cluster, station: Station) -> LinkShapes {
    cluster.behaviour.links.links[&station]
}

fn events(cluster: &mut Cluster, kind: &str) -> Vec<RasView> {
    let events = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    events.into_iter().filter(|event| event.kind == kind).collect()
}

fn end_fabric(cluster: &mut Cluster) {
    let ended = cluster.behaviour.fabric(HelperEvent::Ended("it was killed".into()));
    cluster.event(ended);
}

#[test]
fn all_links_are_shown_with_what_passed_on_them() {
    let mut cluster = Cluster::up(3, 2);
    let view = show(&mut cluster);
    let stations: Vec<_> = view.links.iter().map(|link| link.link.to_string()).collect();
    assert_eq!(stations, ["0", "1", "2", "io0", "io1"]);
    assert!(view.links.iter().all(|link| link.up && link.to.shape == LinkShape::default() && link.recording.is_none()));
    let (again, of_one) = (show(&mut cluster), link(&mut cluster, Station::IoNode(1)));
    assert_eq!((view.counted_at_ns, again.counted_at_ns, view.fabric, again.fabric), (1000, 2000, 1, 1));
    assert_eq!((of_one.to.counters.frames, of_one.from.counters.bytes), (3, 300));
    let query = LinksQuery { links: Some("2,io0".parse().expect("links")) };
    let some = cluster.ask(|answer| Request::Links(query, answer)).expect("shown");
    assert_eq!(some.links.iter().map(|link| link.link).collect::<Vec<_>>(), [Station::Node(2), Station::IoNode(0)]);
}

#[test]
fn what_is_not_named_stays_over_a_new_fabric_and_a_reboot() {
    let mut cluster = Cluster::up(2, 2);
    let slow = LinkChange { bandwidth: Some(Bandwidth::BitsPerSecond(10_000_000)), ..LinkChange::default() };
    let far = LinkChange { direction: Direction::To, latency_ns: Some(5_000_000), ..LinkChange::default() };
    change(&mut cluster, order("0,io0", slow)).expect("changed");
    let view = change(&mut cluster, order("0", far)).expect("changed");
    let from = LinkShape { bandwidth_bits_per_s: Some(10_000_000), ..LinkShape::default() };
    let expected = LinkShapes { to: LinkShape { latency_ns: 5_000_000, ..from }, from };
    assert_eq!((view.links.len(), view.links[0].to.shape, view.links[0].from.shape), (1, expected.to, expected.from));
    let is_kept = |cluster: &mut Cluster| {
        assert_eq!(made(cluster, Station::Node(0)), expected);
        assert_eq!(made(cluster, Station::Node(1)), LinkShapes::default());
        assert_eq!(made(cluster, Station::IoNode(0)), LinkShapes::both(from));
        let shown = link(cluster, Station::Node(0));
        assert_eq!((shown.to.shape, shown.from.shape), (expected.to, expected.from));
    };
    is_kept(&mut cluster);
    cluster.ask(|answer| Request::Reboot(NodeId(0), answer)).expect("rebooted");
    assert_eq!(cluster.nodes()[0].generation, 2);
    is_kept(&mut cluster);
    end_fabric(&mut cluster);
    assert_eq!(cluster.orders.iter().filter(|order| matches!(order, Order::StartFabric(..))).count(), 2);
    is_kept(&mut cluster);
    assert_eq!(show(&mut cluster).fabric, 2);
    let fast = LinkChange { bandwidth: Some(Bandwidth::Unlimited), latency_ns: Some(0), ..LinkChange::default() };
    change(&mut cluster, order("0", fast)).expect("changed");
    assert_eq!(made(&cluster, Station::Node(0)), LinkShapes::default());
    // What a cluster is like is its own: the next one begins as it is told to.
    let mut cluster = cluster.restarted();
    cluster.settle();
    assert_eq!(made(&cluster, Station::IoNode(0)), LinkShapes::default());
}

#[test]
fn a_cut_is_recorded_and_a_node_lost_by_it_says_so() {
    let mut cluster = Cluster::up(3, 2);
    let id = cluster.submit(Submission { nodes: vec![1, 2], ..job(2) }).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    change(&mut cluster, order("1", LinkChange { direction: Direction::From, ..cut(true) })).expect("cut");
    let found = events(&mut cluster, "link-cut");
    assert_eq!((found.len(), found[0].node, found[0].severity.as_str()), (1, Some(1), "warn"));
    assert_eq!(found[0].text, "the link of node 1 is cut on request, from it");
    // The same again is nothing new.
    change(&mut cluster, order("1", LinkChange { direction: Direction::From, ..cut(true) })).expect("cut");
    assert_eq!(events(&mut cluster, "link-cut").len(), 1);
    let generation = cluster.behaviour.generation(NodeId(1));
    let reason = "it did not say anything for 12 s".to_owned();
    cluster.behaviour.boots = false;
    cluster.said(1, FromPset::NodeLost { node: NodeId(1), generation, reason });
    let ended = cluster.job(id).job;
    let reason = ended.reason.expect("it has one");
    assert_eq!(ended.exit_status, Some(EXIT_COPPICE));
    assert!(reason.contains("for 12 s; the link of node 1 is cut, `coppice link 1 --mend` mends it"), "{reason}");
    assert!(!reason.contains('\n'));
    // It does not get ready for the same reason, and once it can it need not wait.
    cluster.pass(BOOT_TIME_MAX * 5);
    assert_eq!(cluster.nodes()[1].state, NodeState::Failed);
    assert!(events(&mut cluster, "node-lost").last().is_some_and(|event| event.text.contains("--mend")));
    cluster.behaviour.boots = true;
    change(&mut cluster, order("1", cut(false))).expect("mended");
    assert_eq!(events(&mut cluster, "link-mended").len(), 1);
    assert_eq!(cluster.nodes()[1].state, NodeState::Ready);
}

#[test]
fn a_node_behind_a_cut_io_node_says_so_too() {
    let mut cluster = Cluster::up(4, 2);
    change(&mut cluster, order("io1", cut(true))).expect("cut");
    let found = events(&mut cluster, "link-cut");
    assert_eq!(
        (found[0].node, found[0].text.as_str()),
        (None, "the link of the I/O node of pset 1 is cut on request, both ways")
    );
    for node in [0, 2] {
        let generation = cluster.behaviour.generation(NodeId(node));
        cluster.said(node, FromPset::NodeLost { node: NodeId(node), generation, reason: "silent".into() });
    }
    let lost = events(&mut cluster, "node-lost");
    let texts: Vec<_> = lost.iter().map(|event| event.text.as_str()).collect();
    let because = "; the link of the I/O node of pset 1 is cut, `coppice link io1 --mend` mends it";
    assert_eq!(texts, ["node 0 was lost: silent", &format!("node 2 was lost: silent{because}")]);
}

#[test]
fn a_recording_begins_before_anything_else_is_done_and_ends_with_its_fabric() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.links.disk = Some(Err("cannot record to /x: no".into()));
    let both = LinkOrder { change: cut(true), ..recording("1", start("/x")) };
    let refused = change(&mut cluster, both.clone()).expect_err("no disk");
    assert_eq!((refused.status, refused.message.as_str()), (409, "cannot record to /x: no"));
    assert_eq!(made(&cluster, Station::Node(1)), LinkShapes::default());
    assert!(events(&mut cluster, "link-cut").is_empty());
    cluster.behaviour.links.disk = Some(Ok(()));
    let view = change(&mut cluster, both).expect("done");
    assert_eq!(view.links[0].recording.as_ref().map(|recording| recording.file.clone()), Some(PathBuf::from("/x")));
    assert!(made(&cluster, Station::Node(1)).cut().is_some());
    let refused = change(&mut cluster, recording("1", start("/y"))).expect_err("one at a time");
    assert!(refused.message.contains("recorded in '/x' already; `coppice link 1 --pcap-stop`"), "{}", refused.message);
    change(&mut cluster, recording("0-1", RecordingOrder::Stop)).expect("ended");
    assert!(cluster.behaviour.links.recordings.is_empty());
    assert_eq!(link(&mut cluster, Station::Node(1)).recording, None);

    change(&mut cluster, recording("io0", start("/z"))).expect("done");
    let reason = "the recording reached its size".to_owned();
    let ended = FromFabric::RecordingEnded { link: Station::IoNode(0), reason };
    let ended = cluster.behaviour.fabric(HelperEvent::Said(ended));
    cluster.event(ended);
    assert_eq!(link(&mut cluster, Station::IoNode(0)).recording, None);
    change(&mut cluster, recording("0", start("/w"))).expect("done");
    end_fabric(&mut cluster);
    assert_eq!(link(&mut cluster, Station::Node(0)).recording, None);
    let texts: Vec<_> = events(&mut cluster, "recording-ended").into_iter().map(|event| event.text).collect();
    let expected = [
        "the recording of the link of the I/O node of pset 0 in '/z' ended: the recording reached its size",
        "the recording of the link of node 0 in '/w' ended: the fabric ended: it was killed",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn a_fabric_that_does_not_answer_is_waited_for_so_long() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.fabric_answers = false;
    let mut shown = cluster.ask_and_wait(|answer| Request::Links(LinksQuery::default(), answer));
    let mut changed = begin(&mut cluster, order("0", cut(true)));
    cluster.pass(LINK_TIME_MAX / 2);
    assert!(shown.try_recv().is_err() && changed.try_recv().is_err());
    cluster.pass(LINK_TIME_MAX / 2);
    let lines = [refused(&mut shown), refused(&mut changed)].map(|refused| (refused.status, refused.message));
    assert_eq!(lines[0], (503, "the fabric has not answered for 5 s; try again".into()));
    let changed_all_the_same =
        "the fabric has not answered for 5 s; the links are changed as soon as it goes on, or is replaced";
    assert_eq!(lines[1], (503, changed_all_the_same.into()));
    // And so they are.
    cluster.behaviour.fabric_answers = true;
    end_fabric(&mut cluster);
    assert!(made(&cluster, Station::Node(0)).cut().is_some());
}

#[test]
fn a_disk_that_does_not_answer_costs_the_recording_alone() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.links.disk = None;
    let mut started = begin(&mut cluster, LinkOrder { change: cut(true), ..recording("0", start("/dead/x")) });
    cluster.pass(LINK_TIME_MAX);
    let refusal = refused(&mut started);
    assert!(refusal.message.contains("'/dead/x', and nothing was changed; is its disk well?"), "{}", refusal.message);
    assert_eq!(made(&cluster, Station::Node(0)), LinkShapes::default());
    let ends =
        |order: &Order| matches!(order, Order::TellFabric(_, orders) if format!("{orders:?}").contains("EndRecording"));
    assert_eq!(cluster.orders.iter().filter(|order| ends(order)).count(), 1, "it is not to begin any more");
    cluster.behaviour.links.disk = Some(Ok(()));
    change(&mut cluster, recording("0", start("/x"))).expect("done");
    cluster.behaviour.links.disk = None;
    let mut stopped = begin(&mut cluster, recording("0", RecordingOrder::Stop));
    cluster.pass(LINK_TIME_MAX);
    assert!(refused(&mut stopped).message.contains("that all of the recording is written"));
    assert_eq!(link(&mut cluster, Station::Node(0)).recording, None);
}

#[test]
fn a_fabric_that_ends_meanwhile_has_its_orders_answered() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.fabric_answers = false;
    let mut shown = cluster.ask_and_wait(|answer| Request::Links(LinksQuery::default(), answer));
    let mut changed = begin(&mut cluster, order("io0", cut(true)));
    cluster.behaviour.fabric_answers = true;
    end_fabric(&mut cluster);
    assert!(refused(&mut shown).message.contains("try again in a moment"));
    assert!(refused(&mut changed).message.contains("has the links as they are to be"));
    assert!(made(&cluster, Station::IoNode(0)).cut().is_some());
    // Nor does the end of the cluster leave anybody waiting.
    cluster.behaviour.fabric_answers = false;
    let mut shown = cluster.ask_and_wait(|answer| Request::Links(LinksQuery::default(), answer));
    cluster.event(coppice_service_node::controller::Event::Request(Request::Down));
    assert_eq!(refused(&mut shown).message, "the cluster is going down");
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let mut cluster = Cluster::up(2, 2);
    let none = LinkChange::default();
    let cases = [
        (order("0,7", cut(true)), 404, "there is no link 7; the cluster has 2 nodes"),
        (order("io1", cut(true)), 404, "there is no link io1"),
        (order("0", LinkChange { loss_ppm: Some(2_000_000), ..none }), 400, "at most all of them"),
        (order("0", LinkChange { latency_ns: Some(u64::MAX), ..none }), 400, "at most 60 s"),
        (order("0", LinkChange { bandwidth: Some(Bandwidth::BitsPerSecond(0)), ..none }), 400, "cut it instead"),
        (recording("0-1", start("/x")), 400, "name one link"),
        (recording("0", start("x")), 400, "'x' is not an absolute path"),
    ];
    for (order, status, words) in cases {
        let refused = change(&mut cluster, order).expect_err(words);
        assert_eq!(refused.status, status, "{}", refused.message);
        assert!(refused.message.contains(words) && !refused.message.contains('\n'), "{}", refused.message);
    }
    assert!(!cluster.orders.iter().any(|order| matches!(order, Order::TellFabric(..))));
    // Nobody waits for a fabric that is not there.
    let refused = Cluster::new(1, 1).ask_only(|answer| Request::Links(LinksQuery::default(), answer));
    assert!(refused.expect_err("too early").message.contains("is being started"));
}

#[test]
fn orders_that_wait_have_a_limit() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.fabric_answers = false;
    let waiting: Vec<_> = (0..LINK_ORDERS_MAX).map(|_| begin(&mut cluster, order("0", cut(false)))).collect();
    let refused = cluster.ask(|answer| Request::Links(LinksQuery::default(), answer)).expect_err("too many");
    assert_eq!(refused.status, 503);
    cluster.behaviour.fabric_answers = true;
    cluster.pass(LINK_TIME_MAX);
    assert!(waiting.into_iter().all(|mut answer| answer.try_recv().is_ok_and(|answer| answer.is_err())));
    show(&mut cluster);
}

#[test]
fn files_are_sent_as_fast_as_the_slowest_link_of_the_job_and_its_io_nodes() {
    let mut cluster = Cluster::up(4, 2);
    let slow = |bits| LinkChange { bandwidth: Some(Bandwidth::BitsPerSecond(bits)), ..LinkChange::default() };
    change(&mut cluster, order("0-3,io0-1", slow(800_000_000))).expect("changed");
    change(&mut cluster, order("3", LinkChange { direction: Direction::From, ..slow(8_000_000) })).expect("changed");
    change(&mut cluster, order("io1", LinkChange { latency_ns: Some(1_000_000), ..slow(80_000_000) }))
        .expect("changed");
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("a");
    std::fs::write(&file, "staged").expect("written");
    let mut speed = |nodes: Vec<u32>| {
        let held = cluster.store.import_as(Kind::Data, &file).expect("read").0;
        let program = cluster.store.hold(PROGRAM);
        let staged = vec![coppice_api::staging::Staged { file: file.clone(), path: "/in/a".into() }];
        let job = Submission { ranks: nodes.len() as u32, nodes, staged, ..job(1) };
        let id =
            cluster.ask(|answer| Request::Submit(Box::new(job), program, FILE, vec![held], answer)).expect("accepted");
        let starts: Vec<StartJob> = cluster
            .told()
            .filter_map(|(_, message)| match message {
                ToPset::Start(start) if start.job == id => Some(start.clone()),
                _ => None,
            })
            .collect();
        cluster.end(id);
        let staging = starts[0].staging.clone().expect("staged");
        (staging.bytes_per_second, staging.latency_ns)
    };
    assert_eq!(speed(vec![0, 1]), (93_750_000, 50_000));
    assert_eq!(speed(vec![2, 1]), (9_375_000, 2_050_000), "home is the slow one");
    assert_eq!(speed(vec![1, 2]), (9_375_000, 2_050_000), "it sends to its own node, wherever home is");
    assert_eq!(speed(vec![0, 3]), (937_500, 2_050_000));
}
