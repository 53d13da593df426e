//! Orders to retain and to discard page tables on their way to nodes, and the answers on theirs back.

use coppice_protocol::control::{Launch, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, Rank};
use coppice_protocol::pset::{FromPset, Member, ToPset};
use coppice_protocol::retain::{
    Discard, Discarded, HeldAs, Retain, RetainOutcome, Retained, RetainedProgram, WalkCounts,
};
use coppice_protocol::session::{Channel, Identity};
use coppice_protocol::ship::{Call, Handle, Reply};

use crate::common::{JOB, KEY, NODE, PROGRAM, Pset, RANK, identity, run};
use crate::node::{Node, Wire};
use crate::{one_end, report};

const EBADF: u16 = 9;
const OTHER: Identity = Identity { node: NodeId(1), generation: Generation(5) };
const COUNTS: WalkCounts = WalkCounts { kept: 12, dropped: 3, zeroed: 4, discarded: 1, walk_ns: 900 };
const ANSWER: Retained = Retained { job: JOB, program: PROGRAM, outcome: RetainOutcome::Kept(COUNTS) };

/// A ready node, the first of the pset, and the job started on it that is to use what the node has retained.
async fn with_warm_job() -> (Pset, Node) {
    let (mut pset, node) = Pset::with_node().await;
    let mut spec = pset.job();
    spec.members = vec![Member { first: RANK, count: 1, node: NODE, use_retained: true, restore: None }];
    pset.send(ToPset::Start(spec)).await;
    (pset, node)
}

/// The two messages that a warm launch begins with; between them there is nothing.
async fn take_orders(control: &Wire, generation: u32) -> Launch {
    let order = Retain { job: JOB, generation: Generation(generation), program: PROGRAM };
    assert_eq!(control.message().await, ToNode::Retain(order));
    match control.message().await {
        ToNode::Launch(launch) => launch,
        other => panic!("{other:?} where the launch should be"),
    }
}

#[test]
fn nodes_that_hold_the_program_are_told_to_retain_it_right_before_the_launch() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        pset.add(OTHER).await;
        let other = pset.ready(OTHER).await;
        let mut spec = pset.job();
        spec.members = vec![
            Member { first: RANK, count: 1, node: NODE, use_retained: true, restore: None },
            Member { first: Rank(4), count: 1, node: OTHER.node, use_retained: false, restore: None },
        ];
        pset.send(ToPset::Start(spec)).await;
        let launch = take_orders(&node.control, 1).await;
        assert!(launch.use_retained && launch.first == RANK && launch.program == PROGRAM, "{launch:?}");
        match other.control.message().await {
            ToNode::Launch(launch) => assert!(!launch.use_retained && launch.first == Rank(4), "{launch:?}"),
            other => panic!("{other:?} for a node that holds nothing"),
        }
    });
}

#[test]
fn after_a_reconnect_both_orders_are_said_again() {
    run(async {
        let (pset, node) = with_warm_job().await;
        let first = take_orders(&node.control, 1).await;
        node.control.abort();
        let control = pset.connect_control(identity(1)).await;
        assert_eq!(take_orders(&control, 1).await, first);
        // Also if it was the other connection that was lost.
        node.ship.abort();
        let _ship = pset.connect(Channel::Ship, identity(1), KEY).await.expect("authenticated");
        assert_eq!(take_orders(&control, 1).await, first);
    });
}

#[test]
fn a_job_that_was_killed_meanwhile_retains_nothing() {
    run(async {
        let (mut pset, node) = with_warm_job().await;
        take_orders(&node.control, 1).await;
        node.control.abort();
        pset.send(ToPset::Kill { job: JOB }).await;
        let control = pset.connect_control(identity(1)).await;
        // It may never have heard of the rank, and could not say that it has ended.
        let order = control.message().await;
        assert!(matches!(&order, ToNode::Launch(launch) if launch.first == RANK), "{order:?}");
        assert_eq!(control.message().await, ToNode::Kill { job: JOB });
    });
}

#[test]
fn answers_to_retain_are_passed_on_before_what_follows_them() {
    run(async {
        let (mut pset, node) = with_warm_job().await;
        take_orders(&node.control, 1).await;
        let outcomes = [
            RetainOutcome::Kept(COUNTS),
            RetainOutcome::Absent,
            RetainOutcome::Busy(JobId(7)),
            RetainOutcome::OtherBoot(Generation(9)),
        ];
        for outcome in outcomes {
            node.control.send(0, &ToIoNode::Retained(Retained { outcome, ..ANSWER }), &[]);
        }
        node.control.send(0, &ToIoNode::Launched { job: JOB, ranks: RANK.into() }, &[]);
        node.control.send(0, &one_end(report()), &[]);
        for outcome in outcomes {
            match pset.receive().await {
                FromPset::Retained { node: NODE, answer } => assert_eq!(answer, Retained { outcome, ..ANSWER }),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(pset.receive().await, FromPset::Launched { job: JOB, ranks } if ranks == RANK.into()));
        assert!(matches!(pset.receive().await, FromPset::Ended(ends) if ends[0].node == NODE));
    });
}

#[test]
fn only_the_named_nodes_that_are_ready_discard() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        pset.add(OTHER).await;
        let other = pset.ready(OTHER).await;
        let late = Identity { node: NodeId(2), generation: Generation(1) };
        pset.add(late).await;
        // The second is named, the first is not; the third is not ready and the last unknown.
        let nodes = vec![OTHER.node, late.node, NodeId(17)];
        pset.send(ToPset::Discard { request: 8, program: Some(PROGRAM), nodes }).await;
        let order = Discard { request: 8, program: Some(PROGRAM) };
        assert_eq!(other.control.message().await, ToNode::Discard(order));
        let late_node = pset.ready(late).await;
        pset.send(ToPset::Discard { request: 9, program: None, nodes: vec![NODE, late.node] }).await;
        // Had an order for another come here it would be the first.
        for control in [&node.control, &late_node.control] {
            assert_eq!(control.message().await, ToNode::Discard(Discard { request: 9, program: None }));
        }
    });
}

#[test]
fn answers_to_discard_keep_their_number() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let held = RetainedProgram { program: PROGRAM, pages: 20, bytes: 90_112, held_as: HeldAs::Table };
        for request in [8, 9, u64::MAX] {
            pset.send(ToPset::Discard { request, program: None, nodes: vec![NODE] }).await;
            assert_eq!(node.control.message().await, ToNode::Discard(Discard { request, program: None }));
        }
        // Answered in another order, and one of them twice.
        for request in [9, u64::MAX, 8, 9] {
            let answer = Discarded { request, given_back: vec![held], still_held: vec![held; 8] };
            node.control.send(0, &ToIoNode::Discarded(answer.clone()), &[]);
            match pset.receive().await {
                FromPset::Discarded { node: NODE, answer: passed_on } => assert_eq!(passed_on, answer),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn answers_that_nobody_asked_for_do_no_harm() {
    run(async {
        let (mut pset, mut node) = with_warm_job().await;
        take_orders(&node.control, 1).await;
        pset.add(OTHER).await;
        let other = pset.ready(OTHER).await;
        // For a job that is not there, one that runs elsewhere, and a program that was not meant.
        other.control.send(0, &ToIoNode::Retained(Retained { job: JobId(7), ..ANSWER }), &[]);
        other.control.send(0, &ToIoNode::Retained(ANSWER), &[]);
        let wrong = Retained { program: ProgramId([1; 32]), ..ANSWER };
        node.control.send(0, &ToIoNode::Retained(wrong), &[]);
        // Whether it was asked for is the service node's to know; it hears who really said it.
        let answer = Discarded { request: 77, given_back: Vec::new(), still_held: Vec::new() };
        for wire in [&other.control, &node.control] {
            wire.send(0, &ToIoNode::Discarded(answer.clone()), &[]);
        }
        let mut speakers = Vec::new();
        for _ in 0..2 {
            match pset.receive().await {
                FromPset::Discarded { node, answer: passed_on } => {
                    assert_eq!(passed_on, answer);
                    speakers.push(node);
                }
                other => panic!("{other:?}"),
            }
        }
        speakers.sort_unstable();
        assert_eq!(speakers, [NODE, OTHER.node]);
        // Both are served as before.
        let handle = Call::HandleStat(Handle(99));
        assert_eq!(node.call(handle, &[]).await.0, Reply::Failed(EBADF));
        pset.send(ToPset::Discard { request: 78, program: None, nodes: vec![OTHER.node] }).await;
        assert_eq!(other.control.message().await, ToNode::Discard(Discard { request: 78, program: None }));
    });
}
