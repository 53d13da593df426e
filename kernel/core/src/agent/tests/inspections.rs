//! Questions about ranks, while whoever answers them waits.

use core::sync::atomic::Ordering;

use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::held::NotTold;
use coppice_protocol::inspect::{Answer, Inspect, Inspected, Query, Question};

use super::{Stage, accept, expect, memory, ping, stage};
use crate::executor::run_to_end;
use crate::limits::INSPECTIONS_MAX;

fn question(request: u64) -> ToNode {
    let query = Query { by: 1, question: Question::Hold };
    ToNode::Inspect(Inspect { request, job: JobId(1), rank: Rank(0), query })
}

fn told(request: u64, answer: Answer) -> ToIoNode {
    ToIoNode::Inspected(Inspected { request, answer })
}

#[test]
fn the_agent_goes_on_meanwhile_and_so_many_are_answered_at_once() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        let all = 0..INSPECTIONS_MAX as u64;
        for request in all.clone() {
            peer.send(0, &question(request), &[]).await;
        }
        peer.send(0, &question(100), &[]).await;
        expect(&mut peer, told(100, Answer::NotTold(NotTold::Busy))).await;
        peer.send(0, &ping(1, 0), &[]).await;
        expect(&mut peer, ToIoNode::Pong { sequence: 1, memory: memory() }).await;
        fakes.answers.store(true, Ordering::Relaxed);
        fakes.changed.wake_all();
        for request in all {
            expect(&mut peer, told(request, Answer::NotHere)).await;
        }
        // Their places are free again.
        peer.send(0, &question(101), &[]).await;
        expect(&mut peer, told(101, Answer::NotHere)).await;
    });
    assert_eq!(result, Ok(()));
}
