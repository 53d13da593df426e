//! What is told of several ranks at once.

use alloc::vec::Vec;

use coppice_protocol::control::{Exit, Launch, ToIoNode, ToNode};
use coppice_protocol::ids::{JobId, ProgramId, Rank};
use coppice_protocol::limits::{RANKS_PER_NODE_MAX, TOLD_TOGETHER_NS};
use coppice_protocol::ranks::Ranks;

use super::{Fakes, P, Stage, accept, expect, held, holds, kill, launch_rank, launch_ranks, next, ping, stage};
use crate::executor::{now_ns, run_to_end, sleep};
use crate::limits::CONTROL_QUEUE_MAX;
use crate::net::testing::Peer;
use crate::process::testing::order;

fn launched(first: u32, count: u32) -> ToIoNode {
    ToIoNode::Launched { job: JobId(1), ranks: Ranks::range(Rank(first), count) }
}

/// Which ranks have ended, as one message says.
async fn ends(peer: &mut Peer) -> Vec<u32> {
    match next(peer).await {
        ToIoNode::Ended(ends) => ends.reports.iter().map(|report| report.rank.0).collect(),
        other => panic!("no end: {other:?}"),
    }
}

fn end(fakes: &Fakes, ranks: impl IntoIterator<Item = u32>) {
    fakes.told_to_end.lock().extend(ranks.into_iter().map(Rank));
    fakes.changed.wake_all();
}

#[test]
fn one_order_starts_all_ranks_and_they_are_told_of_together() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P]);
        let began_ns = now_ns();
        peer.send(0, &launch_ranks(1, 128, RANKS_PER_NODE_MAX), &[]).await;
        expect(&mut peer, launched(128, RANKS_PER_NODE_MAX)).await;
        // The last of them waits for nothing.
        assert!(now_ns() - began_ns < TOLD_TOGETHER_NS, "{}", now_ns() - began_ns);
        assert_eq!(fakes.launched.lock().len(), 64);
        // The same again, and with some that are not there yet: there is no place for them.
        peer.send(0, &launch_ranks(1, 128, RANKS_PER_NODE_MAX), &[]).await;
        peer.send(0, &launch_ranks(1, 190, 3), &[]).await;
        assert_eq!(ends(&mut peer).await, [192]);
        let began_ns = now_ns();
        end(&fakes, 128..192);
        match next(&mut peer).await {
            ToIoNode::Ended(ends) => {
                assert!(ends.reports.iter().map(|report| report.rank.0).eq(128..192));
                assert_eq!(ends.held, [held(P)]);
            }
            other => panic!("no ends: {other:?}"),
        }
        assert!(now_ns() - began_ns < TOLD_TOGETHER_NS, "{}", now_ns() - began_ns);
    });
    assert_eq!(result, Ok(()));
}

/// More than there may be are not started, and nothing is said of them.
#[test]
fn an_order_for_too_many_ranks_is_one_for_the_first_of_them() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        peer.send(0, &launch_ranks(1, 7, u32::MAX), &[]).await;
        expect(&mut peer, launched(7, RANKS_PER_NODE_MAX)).await;
        assert_eq!(fakes.launched.lock().len(), RANKS_PER_NODE_MAX as usize);
        peer.send(0, &kill(1), &[]).await;
        assert_eq!(ends(&mut peer).await.len(), RANKS_PER_NODE_MAX as usize);
        let last =
            Launch { job: JobId(2), first: Rank(u32::MAX - 1), count: 9, program: ProgramId([1; 32]), ..order(4) };
        peer.send(0, &ToNode::Launch(last), &[]).await;
        let ranks = Rank(u32::MAX - 1).into();
        expect(&mut peer, ToIoNode::Launched { job: JobId(2), ranks }).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn ranks_that_begin_or_end_later_hold_up_others_for_a_moment_only() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        fakes.late.lock().extend([(Rank(2), TOLD_TOGETHER_NS / 2), (Rank(1), 50 * TOLD_TOGETHER_NS)]);
        let began_ns = now_ns();
        peer.send(0, &launch_ranks(1, 0, 4), &[]).await;
        let ranks = [0, 2, 3].into_iter().map(Rank).collect();
        expect(&mut peer, ToIoNode::Launched { job: JobId(1), ranks }).await;
        let took_ns = now_ns() - began_ns;
        assert!((TOLD_TOGETHER_NS..2 * TOLD_TOGETHER_NS).contains(&took_ns), "{took_ns}");
        expect(&mut peer, launched(1, 1)).await;
        assert!(now_ns() - began_ns < 51 * TOLD_TOGETHER_NS);
        let began_ns = now_ns();
        end(&fakes, [3]);
        sleep(TOLD_TOGETHER_NS / 2).await;
        end(&fakes, [0]);
        assert_eq!(ends(&mut peer).await, [3, 0]);
        let took_ns = now_ns() - began_ns;
        assert!((TOLD_TOGETHER_NS..2 * TOLD_TOGETHER_NS).contains(&took_ns), "{took_ns}");
        // Something else is told at once, and with it what waits.
        end(&fakes, [1]);
        peer.send(0, &launch_rank(1, 9), &[]).await;
        assert_eq!(ends(&mut peer).await, [1]);
        expect(&mut peer, launched(9, 1)).await;
        assert!(now_ns() - began_ns < 3 * TOLD_TOGETHER_NS);
    });
    assert_eq!(result, Ok(()));
}

/// As few messages as possible, and what was not read is said again as it was.
#[test]
fn what_is_told_together_is_said_again_until_it_is_read() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        peer.send(0, &launch_ranks(1, 0, 5), &[]).await;
        expect(&mut peer, launched(0, 5)).await;
        end(&fakes, 0..5);
        assert_eq!(ends(&mut peer).await.len(), 5);
        for (is_read, launches) in [(0, 1), (1, 0), (2, 0)] {
            peer.send(0, &ToNode::Taken { taken: is_read }, &[]).await;
            peer.send(0, &ping(1, 0), &[]).await;
            assert!(matches!(next(&mut peer).await, ToIoNode::Pong { .. }));
            peer.stream.abort();
            drop(peer);
            peer = accept(&port).await;
            for _ in 0..launches {
                expect(&mut peer, launched(0, 5)).await;
            }
            if is_read < 2 {
                assert_eq!(ends(&mut peer).await, [0, 1, 2, 3, 4]);
            }
            if is_read == 1 {
                peer.send(0, &ToNode::Taken { taken: 1 }, &[]).await;
            }
        }
        assert!(fakes.launched.lock().len() < CONTROL_QUEUE_MAX);
        // An order that comes again is answered with what became of all.
        peer.send(0, &launch_ranks(1, 0, 5), &[]).await;
        assert_eq!(ends(&mut peer).await, [0, 1, 2, 3, 4]);
        assert_eq!(fakes.launched.lock().len(), 5);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn ranks_that_are_killed_before_they_begin_end_all_the_same() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        fakes.late.lock().extend((0..3).map(|rank| (Rank(rank), 10 * TOLD_TOGETHER_NS)));
        peer.send(0, &launch_ranks(1, 0, 3), &[]).await;
        peer.send(0, &kill(1), &[]).await;
        expect(&mut peer, launched(0, 3)).await;
        let mut ended = 0;
        while ended < 3 {
            match next(&mut peer).await {
                ToIoNode::Ended(ends) => {
                    assert!(ends.reports.iter().all(|report| report.exit == Exit::Signal(9)));
                    ended += ends.reports.len();
                }
                other => panic!("no ends: {other:?}"),
            }
        }
        assert_eq!(ended, 3);
    });
    assert_eq!(result, Ok(()));
}
