//! Orders to keep what is retained, and to give it back.

use alloc::vec;
use core::sync::atomic::Ordering;

use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId};
use coppice_protocol::retain::{Discard, Discarded, RetainOutcome, WalkCounts};

use super::{P, Q, Stage, accept, expect, held, holds, launch, launched, retain, retained, stage};
use crate::executor::run_to_end;

#[test]
fn every_order_to_retain_has_a_defined_answer() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        // Nothing is held; the order for another boot changes nothing either.
        peer.send(0, &retain(1, 2, P), &[]).await;
        expect(&mut peer, retained(1, P, RetainOutcome::Absent)).await;
        holds(&fakes, &[P, Q]);
        for generation in [0, 1, 3, u32::MAX] {
            peer.send(0, &retain(2, generation, P), &[]).await;
            expect(&mut peer, retained(2, P, RetainOutcome::OtherBoot(Generation(2)))).await;
        }
        assert_eq!(fakes.held.lock().len(), 2);
        // Carried out once, answered twice.
        let kept = RetainOutcome::Kept(WalkCounts { kept: 5, discarded: 1, ..WalkCounts::default() });
        for _ in 0..2 {
            peer.send(0, &retain(3, 2, P), &[]).await;
            expect(&mut peer, retained(3, P, kept)).await;
        }
        assert_eq!(*fakes.held.lock(), [held(P)]);
        // The launch comes behind its order to retain, and orders during the run are refused but for that one.
        peer.send(0, &retain(4, 2, P), &[]).await;
        peer.send(0, &launch(4), &[]).await;
        peer.send(0, &retain(4, 2, P), &[]).await;
        peer.send(0, &retain(5, 2, P), &[]).await;
        let still = RetainOutcome::Kept(WalkCounts { kept: 5, ..WalkCounts::default() });
        for _ in 0..2 {
            expect(&mut peer, retained(4, P, still)).await;
        }
        expect(&mut peer, retained(5, P, RetainOutcome::Busy(JobId(4)))).await;
        expect(&mut peer, launched(4)).await;
        assert_eq!(*fakes.launched.lock(), [JobId(4)]);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn discarding_gives_back_what_is_there_and_says_what_stays() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P, Q]);
        let order = |request, program| ToNode::Discard(Discard { request, program });
        let answer =
            |request, given_back, still_held| ToIoNode::Discarded(Discarded { request, given_back, still_held });
        peer.send(0, &order(7, Some(Q)), &[]).await;
        expect(&mut peer, answer(7, vec![held(Q)], vec![held(P)])).await;
        peer.send(0, &order(7, Some(Q)), &[]).await;
        expect(&mut peer, answer(7, vec![], vec![held(P)])).await;
        peer.send(0, &order(8, None), &[]).await;
        expect(&mut peer, answer(8, vec![held(P)], vec![])).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn discarding_is_answered_when_the_memory_is_free_and_holds_nothing_else_up() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P, Q]);
        fakes.being_freed.store(true, Ordering::Relaxed);
        peer.send(0, &ToNode::Discard(Discard { request: 7, program: Some(Q) }), &[]).await;
        peer.send(0, &launch(1), &[]).await;
        expect(&mut peer, launched(1)).await;
        holds(&fakes, &[P]);
        fakes.being_freed.store(false, Ordering::Relaxed);
        fakes.changed.wake_all();
        let (given_back, still_held) = (vec![held(Q)], vec![held(P)]);
        expect(&mut peer, ToIoNode::Discarded(Discarded { request: 7, given_back, still_held })).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn answers_survive_the_connection_they_were_to_go_over() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P]);
        peer.send(0, &retain(1, 2, P), &[]).await;
        drop(peer);
        let mut peer = accept(&port).await;
        // Whether the answer was on its way or not, the order is repeated and its answer the same.
        peer.send(0, &retain(1, 2, P), &[]).await;
        let kept = RetainOutcome::Kept(WalkCounts { kept: 5, ..WalkCounts::default() });
        expect(&mut peer, retained(1, P, kept)).await;
    });
    assert_eq!(result, Ok(()));
}
