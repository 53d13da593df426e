//! Overlays: nodes are told by the front end of a job, what they say comes together and is recorded, whoever lies or is
//! lost.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_api::job::{OnRankFailure, Submission};
use coppice_api::overlay::{EpochView, OverlayOrder, OverlayState, OverlayView, OverlayWish};
use coppice_api::ras::RasQuery;
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::overlay::{Above, METRICS, Node, Part, Source, Stacks, Up};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ranks::Ranks;
use coppice_service_node::controller::{Refused, Request};
use coppice_service_node::limits::OVERLAY_PACE_EPOCHS;
use coppice_service_node::profiles::ProfileOrder;
use support::{Cluster, Order, job};

/// The nodes of a job, each with one rank of its number, as far as they speak with its front end.
struct Nodes {
    job: JobId,
    nodes: BTreeMap<NodeId, Node>,
    heard: usize,
}

impl Nodes {
    fn of(job: JobId, nodes: u32) -> Self {
        Self { job, nodes: (0..nodes).map(|node| (NodeId(node), Node::new(NodeId(node)))).collect(), heard: 0 }
    }

    /// All that front end and nodes have to say to each other.
    fn talk(&mut self, cluster: &mut Cluster) {
        loop {
            let told: Vec<(NodeId, _)> = cluster
                .told()
                .filter_map(|(_, message)| match message {
                    ToPset::Overlay { node, order, .. } => Some((*node, order.clone())),
                    _ => None,
                })
                .collect();
            let new = told.get(self.heard..).unwrap_or_default().to_vec();
            self.heard = told.len();
            let mut said = Vec::new();
            for (id, order) in new {
                let ranks = Ranks::from(Rank(id.0));
                let answer = self.nodes.get_mut(&id).and_then(|node| node.handle_down(order, &ranks, 0));
                said.extend(answer.map(|up| (id, up)));
            }
            said.extend(self.pass_on());
            if said.is_empty() {
                return;
            }
            for (id, up) in said {
                self.say(cluster, id, &up);
            }
        }
    }

    /// What they say to each other; what is for the front end.
    fn pass_on(&mut self) -> Vec<(NodeId, Up)> {
        let mut to_front_end = Vec::new();
        loop {
            let next = self.nodes.iter_mut().find_map(|(id, node)| Some((*id, node.poll_transmit(0)?)));
            match next {
                None => return to_front_end,
                Some((from, (Above::FrontEnd, up))) => to_front_end.push((from, up)),
                Some((from, (Above::Process { index, node }, up))) => {
                    let heard = self.nodes.get_mut(&node).map(|node| node.handle_up(from, index, up, 0));
                    assert_ne!(heard, Some(false), "node {from} is not heard by node {node}");
                }
            }
        }
    }

    fn say(&self, cluster: &mut Cluster, node: NodeId, up: &Up) {
        cluster.said(0, FromPset::Overlay { node, job: self.job, said: up.encode() });
    }

    fn end_epoch(&mut self, cluster: &mut Cluster, epoch: u64) {
        for (id, node) in &mut self.nodes {
            node.submit(epoch, &BTreeMap::from([(Rank(id.0), [u64::from(id.0) + 1; METRICS])]).into());
        }
        self.talk(cluster);
    }
}

fn overlaid(ranks: u32) -> Submission {
    Submission { overlay: Some(OverlayWish::default()), on_rank_failure: OnRankFailure::Continue, ..job(ranks) }
}

fn view(cluster: &mut Cluster, id: JobId) -> OverlayView {
    cluster.ask(|answer| Request::ShowOverlay(id, answer)).expect("a view")
}

fn order(cluster: &mut Cluster, id: JobId, wish: Option<OverlayWish>) -> Result<OverlayView, Refused> {
    cluster.ask(|answer| Request::Overlay(id, OverlayOrder { wish }, answer))
}

fn recorded(cluster: &Cluster) -> Vec<EpochView> {
    let epoch = |order: &Order| match order {
        Order::Profile(ProfileOrder::Epoch(_, epoch)) => Some((**epoch).clone()),
        _ => None,
    };
    cluster.orders.iter().filter_map(epoch).collect()
}

#[test]
fn what_ranks_do_comes_together_and_is_recorded() {
    let mut cluster = Cluster::up(20, 20);
    let id = cluster.submit(overlaid(20)).expect("accepted");
    let mut nodes = Nodes::of(id, 20);
    nodes.talk(&mut cluster);
    let before = view(&mut cluster, id);
    assert_eq!((before.state, before.nodes_here, before.generation), (OverlayState::Running, 20, 1));
    assert!(!before.processes.is_empty() && before.last.is_none(), "{before:?}");
    nodes.end_epoch(&mut cluster, 7);
    let after = view(&mut cluster, id);
    let last = after.last.expect("an epoch");
    assert_eq!((last.epoch, last.ranks, last.of, last.missing.as_str()), (7, 20, 20, ""));
    let calls = last.metrics.iter().find(|metric| metric.metric == "calls").expect("calls");
    assert_eq!((calls.sum, calls.least, calls.least_rank, calls.mean), (210, 1, 0, 11));
    assert_eq!((calls.top[0].rank, calls.top[0].value), (19, 20));
    assert_eq!(recorded(&cluster), [last]);
}

#[test]
fn it_begins_and_ends_when_that_is_wanted() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(job(2)).expect("accepted");
    assert_eq!(view(&mut cluster, id).state, OverlayState::Off);
    let bad = OverlayWish { period_ms: 1, ..OverlayWish::default() };
    assert!(order(&mut cluster, id, Some(bad)).expect_err("too short").message.contains("an epoch of 1 ms"));
    let mut nodes = Nodes::of(id, 2);
    for generation in 1..=2 {
        order(&mut cluster, id, Some(OverlayWish::default())).expect("begun");
        nodes.talk(&mut cluster);
        nodes.end_epoch(&mut cluster, 10 + u64::from(generation));
        let shown = view(&mut cluster, id);
        assert_eq!((shown.generation, shown.last.map(|last| last.generation)), (generation, Some(generation)));
    }
    assert_eq!(order(&mut cluster, id, None).expect("ended").state, OverlayState::Off);
    nodes.talk(&mut cluster);
    nodes.end_epoch(&mut cluster, 20);
    assert_eq!(recorded(&cluster).len(), 2, "nobody says anything any more");
    cluster.end(id);
    let over = order(&mut cluster, id, Some(OverlayWish::default())).expect_err("it is over");
    assert!(over.message.contains("has ended already"), "{}", over.message);
}

#[test]
fn a_job_that_waits_has_one_when_it_runs() {
    let mut cluster = Cluster::up(1, 1);
    let first = cluster.submit(job(1)).expect("accepted");
    let second = cluster.submit(job(1)).expect("accepted");
    assert_eq!(order(&mut cluster, second, Some(OverlayWish::default())).expect("taken").state, OverlayState::Waiting);
    cluster.end(first);
    let mut nodes = Nodes::of(second, 1);
    nodes.talk(&mut cluster);
    assert_eq!(view(&mut cluster, second).state, OverlayState::Running);
}

#[test]
fn who_says_what_cannot_be_is_not_heard_and_told_of() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(overlaid(2)).expect("accepted");
    let mut nodes = Nodes::of(id, 2);
    nodes.talk(&mut cluster);
    let part = Part::of(3, Rank(0), &[9; METRICS]);
    let lie = Up::Part { generation: 1, source: Source::BackEnds(NodeId(0)), is_apart: false, part };
    nodes.say(&mut cluster, NodeId(1), &lie);
    cluster.said(0, FromPset::Overlay { node: NodeId(1), job: id, said: vec![250; 9] });
    // Nor one that says it for a job that has none, or is not there.
    cluster.said(0, FromPset::Overlay { node: NodeId(1), job: JobId(99), said: lie.encode() });
    assert_eq!((view(&mut cluster, id).lies, recorded(&cluster).len()), (2, 0));
    let events = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    assert!(events.iter().any(|event| event.kind == "overlay" && event.node == Some(1)), "{events:?}");
    nodes.end_epoch(&mut cluster, 4);
    assert_eq!(view(&mut cluster, id).last.map(|last| last.ranks), Some(2));
}

#[test]
fn a_node_that_is_lost_is_missing_from_then_on() {
    let mut cluster = Cluster::up(3, 3);
    let id = cluster.submit(overlaid(3)).expect("accepted");
    let mut nodes = Nodes::of(id, 3);
    nodes.talk(&mut cluster);
    nodes.end_epoch(&mut cluster, 4);
    cluster.lose_machine(2);
    nodes.nodes.remove(&NodeId(2));
    nodes.talk(&mut cluster);
    nodes.end_epoch(&mut cluster, 5);
    cluster.pass(Duration::from_secs(1));
    let shown = view(&mut cluster, id);
    let last = shown.last.clone().expect("an epoch");
    assert_eq!((last.epoch, last.ranks, last.missing.as_str()), (5, 2, "2"));
    let missing: Vec<_> = shown.missing.iter().map(|missing| (missing.ranks.as_str(), missing.since_ns)).collect();
    assert_eq!(missing, [("2", 6_000_000_000)]);
    assert!(shown.processes.iter().all(|process| process.node != 2), "{shown:?}");
}

#[test]
fn nodes_that_do_not_answer_hold_nobody_up_for_ever() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(overlaid(2)).expect("accepted");
    let mut nodes = Nodes::of(id, 2);
    let silent = nodes.nodes.remove(&NodeId(1)).expect("a node");
    nodes.talk(&mut cluster);
    assert_eq!(view(&mut cluster, id).state, OverlayState::Listening);
    cluster.pass(Duration::from_secs(6));
    nodes.talk(&mut cluster);
    assert_eq!(view(&mut cluster, id).state, OverlayState::Running);
    drop(silent);
    let psets: Vec<PsetId> = cluster.told().map(|(pset, _)| pset).collect();
    assert!(psets.iter().all(|pset| *pset == PsetId(0)));
}

/// What one node says comes when its epoch is closed, each time.
#[test]
fn who_comes_late_again_and_again_has_ranks_looked_at_less_often() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(overlaid(2)).expect("accepted");
    let mut nodes = Nodes::of(id, 2);
    nodes.talk(&mut cluster);
    let part = |epoch: u64, rank: u32| Part::of(epoch, Rank(rank), &[1; METRICS]);
    let mut epoch = 0;
    for period_ms in [1000, 2000, 4000] {
        let shown = view(&mut cluster, id);
        assert_eq!((shown.period_ms, shown.wish.map(|wish| wish.period_ms)), (Some(period_ms), Some(1000)));
        let says = |epoch: u64, node: u32, is_late: bool| Up::Last {
            generation: shown.generation,
            node: NodeId(node),
            part: part(epoch - u64::from(is_late), node),
            again: Vec::new(),
            stacks: Stacks::none(),
        };
        for _ in 0..OVERLAY_PACE_EPOCHS {
            epoch += 1;
            nodes.end_epoch(&mut cluster, 2 * epoch);
            // Of an epoch that was closed with that.
            nodes.say(&mut cluster, NodeId(1), &says(2 * epoch, 1, true));
        }
        nodes.talk(&mut cluster);
    }
    let events = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    assert!(events.iter().any(|event| event.text.ends_with("ranks are looked at every 4000 ms now")), "{events:?}");
    // Whoever wants to know more says so.
    order(&mut cluster, id, Some(OverlayWish::default())).expect("begun");
    assert_eq!(view(&mut cluster, id).period_ms, Some(1000));
}

#[test]
fn a_rank_that_has_come_to_its_end_is_not_missed() {
    let mut cluster = Cluster::up(3, 3);
    let id = cluster.submit(overlaid(3)).expect("accepted");
    let mut nodes = Nodes::of(id, 3);
    nodes.talk(&mut cluster);
    nodes.end_epoch(&mut cluster, 4);
    let ended = cluster.behaviour.ended(PsetId(0), id, Rank(1), NodeId(1), Exit::Status(0));
    cluster.event(ended);
    for (node, of) in &mut nodes.nodes {
        let ranks = (node.0 != 1).then_some((Rank(node.0), [1; METRICS]));
        of.submit(5, &BTreeMap::from_iter(ranks).into());
    }
    nodes.talk(&mut cluster);
    let shown = view(&mut cluster, id);
    let last = shown.last.expect("an epoch");
    assert_eq!((last.epoch, last.ranks, last.missing.as_str()), (5, 2, "1"));
    assert!(shown.missing.is_empty(), "{:?}", shown.missing);
}
