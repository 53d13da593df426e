//! Several ranks of a job on a node, and jobs that nodes say cannot go on.

use coppice_protocol::control::{Exit, JobFailure, RankReport, Signal, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, NodeId, Rank};
use coppice_protocol::pset::{FromPset, Member, StartJob, ToPset};
use coppice_protocol::ranks::Ranks;
use coppice_protocol::retain::Retain;
use coppice_protocol::session::Identity;
use coppice_protocol::ship::{Call, Location, Owner, Reply, Stream};

use crate::common::{JOB, NODE, PROGRAM, Pset, event, identity, run};
use crate::node::{Node, Wire};
use crate::{one_end, only, report};

const EBADF: u16 = 9;
const ESRCH: u16 = 3;
const OTHER: Identity = Identity { node: NodeId(1), generation: Generation(5) };

/// A job with ranks 2, 3 and 4 on the first node and 5 on the second.
fn job(pset: &Pset, use_retained: bool) -> StartJob {
    let mut spec = pset.job();
    let member = |first, count, node| Member { first: Rank(first), count, node, use_retained, restore: None };
    spec.members = vec![member(2, 3, NODE), member(5, 1, OTHER.node)];
    spec.world.ranks_per_node = 3;
    spec
}

async fn with_ranks(use_retained: bool) -> (Pset, Node, Node) {
    let (mut pset, node) = Pset::with_node().await;
    pset.add(OTHER).await;
    let other = pset.ready(OTHER).await;
    let spec = job(&pset, use_retained);
    pset.send(ToPset::Start(spec)).await;
    (pset, node, other)
}

/// The node is told to launch these, and each range of them once.
async fn launched(control: &Wire, ranks: impl IntoIterator<Item = u32>) {
    let ranks: Ranks = ranks.into_iter().map(Rank).collect();
    for range in ranks.ranges() {
        match control.message().await {
            ToNode::Launch(launch) => {
                assert_eq!((launch.job, launch.first, launch.count), (JOB, range.first, range.count));
                assert_eq!(launch.world.ranks_per_node, 3);
            }
            other => panic!("{other:?} where {range:?} should be launched"),
        }
    }
}

fn ended(rank: u32) -> ToIoNode {
    one_end(RankReport { rank: Rank(rank), exit: Exit::Status(0), ..report() })
}

fn owner(rank: u32) -> Owner {
    Owner { job: JOB, rank: Rank(rank) }
}

#[test]
fn a_node_is_told_once_to_retain_and_then_to_launch_each_rank() {
    run(async {
        let (pset, node, other) = with_ranks(true).await;
        let retain = |generation| ToNode::Retain(Retain { job: JOB, generation, program: PROGRAM });
        assert_eq!(node.control.message().await, retain(Generation(1)));
        launched(&node.control, 2..5).await;
        assert_eq!(other.control.message().await, retain(OTHER.generation));
        launched(&other.control, [5]).await;
        // What may have been lost is said again, but not of ranks that have ended.
        node.control.send(0, &ended(3), &[]);
        let mut pset = pset;
        assert!(matches!(pset.receive().await, FromPset::Ended(ends) if ends[0].node == NODE));
        node.control.abort();
        let control = pset.connect_control(identity(1)).await;
        assert_eq!(control.message().await, retain(Generation(1)));
        launched(&control, [2, 4]).await;
    });
}

#[test]
fn ranks_of_a_node_have_files_and_output_of_their_own() {
    run(async {
        let (mut pset, mut node, _other) = with_ranks(false).await;
        launched(&node.control, 2..5).await;
        let at = Location { directory: None, path: "/out".into() };
        node.request(owner(2), Call::Open { at, flags: 0o102, mode: 0o644 }, &[]);
        let Reply::Opened { handle, .. } = node.reply().await.1 else { panic!("not opened") };
        for (rank, known) in [(2, true), (3, false), (5, false)] {
            node.request(owner(rank), Call::HandleStat(handle), &[]);
            let reply = node.reply().await.1;
            match (rank, known) {
                (_, true) => assert!(matches!(reply, Reply::Status(_)), "{reply:?}"),
                // Another node's rank is nobody here.
                (5, _) => assert_eq!(reply, Reply::Failed(ESRCH)),
                _ => assert_eq!(reply, Reply::Failed(EBADF)),
            }
        }
        for rank in [4, 2, 3] {
            node.request(owner(rank), Call::Print(Stream::Output), format!("rank {rank}").as_bytes());
            assert_eq!(node.reply().await.1, Reply::Written { bytes: 6, end: 0 });
            match pset.receive().await {
                FromPset::Output { job: JOB, rank: from, stream: Stream::Output, bytes } => {
                    assert_eq!((from.0, bytes), (rank, format!("rank {rank}").into_bytes()));
                }
                other => panic!("{other:?}"),
            }
        }
        // The end of one closes its files only.
        node.control.send(0, &ended(3), &[]);
        assert!(matches!(pset.receive().await, FromPset::Ended(ends) if only(&ends).rank == Rank(3)));
        node.request(owner(3), Call::HandleStat(handle), &[]);
        assert_eq!(node.reply().await.1, Reply::Failed(ESRCH));
        node.request(owner(2), Call::HandleStat(handle), &[]);
        assert!(matches!(node.reply().await.1, Reply::Status(_)));
    });
}

#[test]
fn a_node_is_told_once_to_end_its_ranks() {
    run(async {
        let (mut pset, node, other) = with_ranks(false).await;
        launched(&node.control, 2..5).await;
        launched(&other.control, [5]).await;
        pset.send(ToPset::Kill { job: JOB }).await;
        for control in [&node.control, &other.control] {
            assert_eq!(control.message().await, ToNode::Kill { job: JOB });
        }
        // Nobody waits for a node all of whose ranks have ended.
        (2..5).for_each(|rank| node.control.send(0, &ended(rank), &[]));
        let mut ended = 0;
        while ended < 3 {
            match pset.receive().await {
                FromPset::Ended(ends) if ends[0].node == NODE => ended += ends[0].ends.reports.len(),
                other => panic!("{other:?}"),
            }
        }
        pset.send(ToPset::Forget { job: JOB }).await;
        assert_eq!(other.control.message().await, ToNode::Kill { job: JOB });
    });
}

/// The next signal of the job behind number `after`. A node that comes back may be told more than once what it may have
/// missed: launches, and signals up to there.
async fn signal(control: &Wire, after: u32) -> (u32, u8) {
    loop {
        match control.message().await {
            ToNode::Signal(Signal { job: JOB, sequence, signal }) if sequence > after => return (sequence, signal),
            ToNode::Signal(_) | ToNode::Launch(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn signals_are_numbered_and_sent_again_to_a_node_that_comes_back() {
    run(async {
        let (mut pset, node, other) = with_ranks(false).await;
        launched(&node.control, 2..5).await;
        launched(&other.control, [5]).await;
        let send = async |pset: &mut Pset, signal| pset.send(ToPset::Signal { job: JOB, signal }).await;
        send(&mut pset, 10).await;
        send(&mut pset, 35).await;
        for control in [&node.control, &other.control] {
            assert_eq!((signal(control, 0).await, signal(control, 1).await), ((1, 10), (2, 35)));
        }
        // The ranks do not wait shorter for that, and the other node's connection is not needed.
        node.control.abort();
        send(&mut pset, 12).await;
        assert_eq!(signal(&other.control, 2).await, (3, 12));
        let control = pset.connect_control(identity(1)).await;
        launched(&control, 2..5).await;
        assert_eq!((signal(&control, 0).await, signal(&control, 1).await), ((1, 10), (2, 35)));
        assert_eq!(signal(&control, 2).await, (3, 12));
        // A job that is gone takes none, and neither does a node whose ranks have ended.
        other.control.send(0, &ended(5), &[]);
        assert!(matches!(pset.receive().await, FromPset::Ended(ends) if only(&ends).rank == Rank(5)));
        send(&mut pset, 15).await;
        assert_eq!(signal(&control, 3).await, (4, 15));
        pset.send(ToPset::Kill { job: JOB }).await;
        assert_eq!(control.message().await, ToNode::Kill { job: JOB });
    });
}

/// Waits until the I/O node has taken everything that the node said so far.
async fn heard_out(pset: &mut Pset, node: &Node) {
    let event = event("heard out");
    node.control.send(0, &ToIoNode::Ras(event.clone()), &[]);
    match pset.receive().await {
        FromPset::Ras { event: said, .. } => assert_eq!(said, event),
        other => panic!("{other:?}"),
    }
}

#[test]
fn that_a_job_cannot_go_on_is_passed_on_from_its_nodes_only() {
    run(async {
        let (mut pset, node, other) = with_ranks(false).await;
        launched(&node.control, 2..5).await;
        let third = Identity { node: NodeId(2), generation: Generation(1) };
        pset.add(third).await;
        let stranger = pset.ready(third).await;
        let failure = |job, code| JobFailure { job, rank: Rank(3), code, reason: "rank 3 called abort".into() };
        stranger.control.send(0, &ToIoNode::Failed(failure(JOB, 1)), &[]);
        // Had that been passed on it would be the next message.
        stranger.control.send(0, &ended(2), &[]);
        heard_out(&mut pset, &stranger).await;
        node.control.send(0, &ToIoNode::Failed(failure(JobId(7), 2)), &[]);
        node.control.send(0, &ToIoNode::Failed(failure(JOB, 3)), &[]);
        match pset.receive().await {
            FromPset::Failed { node: NODE, failure: said } => assert_eq!(said, failure(JOB, 3)),
            other => panic!("{other:?}"),
        }
        // Also of ranks that have ended, before and after, and of the other node as well: the first counts elsewhere.
        other.control.send(0, &ended(5), &[]);
        other.control.send(0, &ToIoNode::Failed(failure(JOB, 4)), &[]);
        assert!(matches!(pset.receive().await, FromPset::Ended(ends) if only(&ends).rank == Rank(5)));
        assert!(matches!(pset.receive().await, FromPset::Failed { failure, .. } if failure.code == 4));
        pset.send(ToPset::Forget { job: JOB }).await;
        assert_eq!(node.control.message().await, ToNode::Kill { job: JOB });
        assert_eq!(node.control.message().await, ToNode::Forget { job: JOB });
        node.control.send(0, &ToIoNode::Failed(failure(JOB, 5)), &[]);
        // Of the job of before, not of the next one with that number.
        heard_out(&mut pset, &node).await;
        pset.send(ToPset::Start(job(&pset, false))).await;
        launched(&node.control, 2..5).await;
        node.control.send(0, &ToIoNode::Launched { job: JOB, ranks: Rank(2).into() }, &[]);
        assert!(matches!(pset.receive().await, FromPset::Launched { .. }));
    });
}
