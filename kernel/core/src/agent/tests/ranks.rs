//! Several ranks of a job on one node.

use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::control::{Exit, JobFailure, RankReport, ToIoNode, ToNode, Waiting};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::limits::RANKS_PER_NODE_MAX;
use coppice_protocol::ranks::Ranks;
use coppice_protocol::retain::RetainOutcome;
use coppice_protocol::session::Channel;
use coppice_protocol::ship::Call;
use coppice_protocol::spawn::Joined;
use coppice_protocol::world::NodeRange;

use super::{
    Fakes, P, Q, Stage, accept, credentials, expect, holds, kill, launch_rank, next, one_end, ping, retain, retained,
    stage, stage_on, the_end,
};
use crate::executor::{now_ns, run_to_end, sleep, spawn};
use crate::limits::SCRUB_WAIT_NS_MAX;
use crate::net::testing::{Net, Peer};
use crate::ship::Ship;

fn launched(job: u64, rank: u32) -> ToIoNode {
    ToIoNode::Launched { job: JobId(job), ranks: Rank(rank).into() }
}

fn ended(job: u64, rank: u32, exit: Exit) -> ToIoNode {
    one_end(RankReport::ended(JobId(job), Rank(rank), exit), &[])
}

/// The same of a node that holds these programs then.
pub(super) fn ended_holding(job: u64, rank: u32, exit: Exit, programs: &[ProgramId]) -> ToIoNode {
    one_end(RankReport::ended(JobId(job), Rank(rank), exit), programs)
}

impl Fakes {
    fn end(&self, rank: u32) {
        self.told_to_end.lock().push(Rank(rank));
        self.changed.wake_all();
    }
}

/// The ranks that have ended.
fn ends_of(message: ToIoNode) -> Vec<RankReport> {
    match message {
        ToIoNode::Ended(ends) => ends.reports,
        other => panic!("no end: {other:?}"),
    }
}

async fn refused(peer: &mut Peer, job: u64) -> String {
    match the_end(next(peer).await) {
        RankReport { job: of, exit: Exit::NotStarted, reason: Some(reason), .. } if of == JobId(job) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

/// Nothing, if it does not know those that came before.
#[test]
fn a_node_says_when_it_knows_those_that_come_to_its_jobs_network() {
    let Stage { port, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        for first in [9, 4] {
            let nodes = alloc::vec![NodeRange { first: NodeId(20), count: 3 }];
            peer.send(0, &ToNode::Joined(Joined { job: JobId(1), first, nodes }), &[]).await;
        }
        expect(&mut peer, ToIoNode::Joined { job: JobId(1), nodes: 7 }).await;
    });
    assert!(result.is_ok());
}

#[test]
fn ranks_of_one_job_run_side_by_side_and_end_one_by_one() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        for rank in 4..7 {
            peer.send(0, &launch_rank(1, rank), &[]).await;
            expect(&mut peer, launched(1, rank)).await;
        }
        // Twice is once, and another job has no place here.
        peer.send(0, &launch_rank(1, 5), &[]).await;
        peer.send(0, &launch_rank(2, 5), &[]).await;
        assert_eq!(refused(&mut peer, 2).await, "node is busy with job 1");
        fakes.end(5);
        expect(&mut peer, ended(1, 5, Exit::Status(0))).await;
        peer.send(0, &launch_rank(1, 5), &[]).await;
        expect(&mut peer, ended(1, 5, Exit::Status(0))).await;
        // The others go on; a rank of theirs that comes late is welcome.
        peer.send(0, &launch_rank(1, 7), &[]).await;
        expect(&mut peer, launched(1, 7)).await;
        peer.send(0, &launch_rank(3, 0), &[]).await;
        assert_eq!(refused(&mut peer, 3).await, "node is busy with job 1");
        peer.send(0, &kill(1), &[]).await;
        let mut ends = Vec::new();
        while ends.len() < 4 {
            ends.extend(ends_of(next(&mut peer).await).iter().map(|report| (report.rank.0, report.exit)));
        }
        // How the first one ended is said again: the order may be of one who does not know.
        let killed = Exit::Signal(9);
        assert_eq!(ends, [(5, Exit::Status(0)), (4, killed), (6, killed), (7, killed)]);
        // All are remembered.
        peer.send(0, &kill(1), &[]).await;
        let again = ends_of(next(&mut peer).await);
        assert_eq!(again.iter().map(|report| (report.rank.0, report.exit)).collect::<Vec<_>>(), ends);
        peer.send(0, &launch_rank(3, 0), &[]).await;
        expect(&mut peer, launched(3, 0)).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_node_takes_so_many_ranks_and_tells_of_every_one() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        for rank in 0..=RANKS_PER_NODE_MAX {
            peer.send(0, &launch_rank(1, rank), &[]).await;
        }
        let ranks = Ranks::range(Rank(0), RANKS_PER_NODE_MAX);
        expect(&mut peer, ToIoNode::Launched { job: JobId(1), ranks }).await;
        assert_eq!(refused(&mut peer, 1).await, "node has 64 ranks already");
        // Nobody listens while they end, and no end is lost.
        drop(peer);
        fakes.kill_all(1);
        let mut peer = accept(&port).await;
        let mut ends = Vec::new();
        while ends.len() < RANKS_PER_NODE_MAX as usize {
            match next(&mut peer).await {
                ToIoNode::Ended(told) => {
                    let killed = told.reports.into_iter().filter(|report| report.exit == Exit::Signal(9));
                    ends.extend(killed.map(|report| report.rank.0));
                }
                ToIoNode::Launched { .. } => {}
                other => panic!("no end: {other:?}"),
            }
        }
        assert!(ends.into_iter().eq(0..RANKS_PER_NODE_MAX));
        peer.send(0, &launch_rank(1, 63), &[]).await;
        expect(&mut peer, ended(1, 63, Exit::Signal(9))).await;
    });
    assert_eq!(result, Ok(()));
}

impl Fakes {
    fn kill_all(&self, job: u64) {
        super::Processes::kill(self, JobId(job), 9);
    }
}

#[test]
fn nothing_is_left_when_the_last_end_is_reported_and_no_rank_waits_for_that() {
    let net = Net::new();
    let shipping = net.listen(Channel::Ship);
    let ship = Ship::new();
    let Stage { port, fakes, .. } = stage_on(&net, ship.clone());
    let (keeper, dial) = (ship.clone(), net.dial());
    assert!(spawn(async move { keeper.keep_connected(dial, credentials()).await }).is_ok());
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        let _silent = shipping.accept().await;
        for rank in 0..2 {
            peer.send(0, &launch_rank(1, rank), &[]).await;
            expect(&mut peer, launched(1, rank)).await;
        }
        // A call of rank 0 that is not answered.
        let client = ship.client(JobId(1), Rank(0));
        let call = async move { drop(client.call(Call::Input { length: 1 }, Vec::new()).await) };
        assert!(spawn(call).is_ok());
        sleep(1_000_000).await;
        let began_ns = now_ns();
        fakes.end(0);
        expect(&mut peer, ended(1, 0, Exit::Status(0))).await;
        assert!(now_ns() - began_ns < SCRUB_WAIT_NS_MAX / 10);
        // It is waited for before the last end is said, and before another rank begins.
        fakes.end(1);
        sleep(1_000_000).await;
        peer.send(0, &launch_rank(1, 2), &[]).await;
        peer.send(0, &ping(1, 0), &[]).await;
        assert!(matches!(next(&mut peer).await, ToIoNode::Pong { .. }));
        let answers = [next_late(&mut peer).await, next(&mut peer).await];
        assert!(now_ns() - began_ns >= SCRUB_WAIT_NS_MAX);
        assert!(answers.contains(&ended(1, 1, Exit::Status(0))) && answers.contains(&launched(1, 2)), "{answers:?}");
    });
    assert_eq!(result, Ok(()));
}

/// As [`next`], of one who may take a while.
async fn next_late(peer: &mut Peer) -> ToIoNode {
    peer.receive().await.unwrap().message().unwrap()
}

#[test]
fn an_order_to_retain_changes_nothing_while_ranks_run() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        for rank in 0..2 {
            peer.send(0, &launch_rank(1, rank), &[]).await;
            expect(&mut peer, launched(1, rank)).await;
        }
        holds(&fakes, &[P]);
        for rank in [1, 0] {
            peer.send(0, &retain(1, 2, P), &[]).await;
            expect(&mut peer, retained(1, P, RetainOutcome::Busy(JobId(1)))).await;
            assert_eq!(fakes.held.lock().len(), 1);
            fakes.end(rank);
            expect(&mut peer, ended_holding(1, rank, Exit::Status(0), &[P])).await;
        }
        peer.send(0, &retain(2, 2, P), &[]).await;
        assert!(matches!(next(&mut peer).await, ToIoNode::Retained(_)));
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_job_fails_once_on_a_node_and_before_its_ranks_end() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        for rank in 0..2 {
            peer.send(0, &launch_rank(1, rank), &[]).await;
            expect(&mut peer, launched(1, rank)).await;
        }
        let failure = |job, code| JobFailure {
            job: JobId(job),
            rank: Rank(1),
            code,
            reason: String::from("rank 1 called abort"),
        };
        let failures = fakes.failures.lock().clone();
        for (code, failures) in (5..).zip(&failures) {
            failures.report(failure(1, code));
        }
        fakes.end(1);
        expect(&mut peer, ToIoNode::Failed(failure(1, 5))).await;
        expect(&mut peer, ended(1, 1, Exit::Status(0))).await;
        fakes.end(0);
        expect(&mut peer, ended(1, 0, Exit::Status(0))).await;
        failures[0].report(failure(2, 7));
        expect(&mut peer, ToIoNode::Failed(failure(2, 7))).await;
    });
    assert_eq!(result, Ok(()));
}

/// The I/O node did not get it the first time, and has heard from others meanwhile.
#[test]
fn a_report_that_is_said_again_says_what_is_held_now() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P, Q]);
        peer.send(0, &launch_rank(1, 4), &[]).await;
        expect(&mut peer, launched(1, 4)).await;
        fakes.end(4);
        let says = |programs: &[ProgramId]| ended_holding(1, 4, Exit::Status(0), programs);
        expect(&mut peer, says(&[P, Q])).await;
        holds(&fakes, &[Q]);
        peer.stream.abort();
        drop(peer);
        let mut peer = accept(&port).await;
        // As it was not confirmed; then as it is asked for.
        expect(&mut peer, launched(1, 4)).await;
        expect(&mut peer, says(&[Q])).await;
        peer.send(0, &launch_rank(1, 4), &[]).await;
        expect(&mut peer, says(&[Q])).await;
    });
    assert_eq!(result, Ok(()));
}

/// The bytes of all of it had come; what the I/O node had not read of them was lost when it gave the connection up.
#[test]
fn what_the_io_node_has_not_read_is_said_again() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        peer.send(0, &launch_rank(1, 0), &[]).await;
        expect(&mut peer, launched(1, 0)).await;
        let waiting = ToIoNode::Waits(Waiting { job: JobId(1), barrier: 3 });
        let failure = JobFailure { job: JobId(1), rank: Rank(0), code: 5, reason: String::from("silence") };
        let failures = fakes.failures.lock().remove(0);
        failures.waits(Waiting { job: JobId(1), barrier: 3 });
        expect(&mut peer, waiting.clone()).await;
        failures.report(failure.clone());
        expect(&mut peer, ToIoNode::Failed(failure.clone())).await;
        // One is read over each connection, and the last one by who claims too much.
        let unread = [&[waiting, ToIoNode::Failed(failure.clone())][..], &[ToIoNode::Failed(failure)], &[]];
        for (unread, taken) in unread.into_iter().zip([1, 1, u64::MAX]) {
            peer.send(0, &ToNode::Taken { taken }, &[]).await;
            peer.send(0, &ping(1, 0), &[]).await;
            assert!(matches!(next(&mut peer).await, ToIoNode::Pong { .. }));
            peer.stream.abort();
            drop(peer);
            peer = accept(&port).await;
            for message in unread {
                expect(&mut peer, message.clone()).await;
            }
        }
        peer.send(0, &ping(2, 0), &[]).await;
        assert!(matches!(next(&mut peer).await, ToIoNode::Pong { sequence: 2, .. }));
    });
    assert_eq!(result, Ok(()));
}
