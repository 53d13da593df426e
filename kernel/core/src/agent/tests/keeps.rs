//! Orders to keep files: answered once each, whatever comes twice, and ended when they are told to.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::control::{Exit, ToIoNode, ToNode};
use coppice_protocol::distribution::Scheme;
use coppice_protocol::ids::{Generation, NodeId, PsetId};
use coppice_protocol::keep::{Keep, KeepOutcome, Kept, KeptTransfer};
use coppice_protocol::limits::KEEPS_PER_NODE_MAX;
use coppice_protocol::psets::PsetTable;
use coppice_protocol::staging::Staging;
use coppice_protocol::world::{JobKey, World};

use super::ranks::ended_holding;
use super::{Fakes, P, SECOND_NS, Stage, accept, expect, held, holds, kill, launch, launched, next, stage};
use crate::executor::{run_to_end, sleep, timeout};
use crate::net::testing::Peer;

const WHOLE: KeepOutcome = KeepOutcome::Whole { was_here: false };

fn keep_of(generation: u32, request: u64) -> ToNode {
    let (scheme, files) = (Scheme::TwoTrees, Vec::new());
    let (home, psets) = (PsetId(0), PsetTable::new(1, 1));
    let staging = Staging { home, psets, mtu: 9000, bytes_per_second: 1, latency_ns: 0, stall_ns: 0, scheme, files };
    let world = World::new(JobKey([1; 32]), 1, [NodeId(0)]);
    let transfer = KeptTransfer { request, world, staging };
    ToNode::Keep(Keep { generation: Generation(generation), node: NodeId(0), transfer })
}

fn keep(request: u64) -> ToNode {
    keep_of(2, request)
}

fn kept(request: u64, outcome: KeepOutcome) -> ToIoNode {
    ToIoNode::Kept(Kept { request, outcome, held: vec![held(P)] })
}

impl Fakes {
    /// A file comes, or will not.
    fn comes(&self, request: u64, outcome: KeepOutcome) {
        self.came.lock().push((request, outcome));
        self.changed.wake_all();
    }
}

async fn is_silent(peer: &mut Peer) -> bool {
    timeout(SECOND_NS, peer.receive()).await.is_err()
}

#[test]
fn an_order_is_carried_out_once_and_answered_each_time() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P]);
        for _ in 0..2 {
            peer.send(0, &keep(7), &[]).await;
        }
        assert!(is_silent(&mut peer).await, "it has not come yet");
        fakes.comes(7, WHOLE);
        expect(&mut peer, kept(7, WHOLE)).await;
        peer.send(0, &keep(7), &[]).await;
        expect(&mut peer, kept(7, WHOLE)).await;
        assert_eq!(*fakes.keeps.lock(), [7], "it was begun once");
        // Another boot's order changes nothing.
        peer.send(0, &keep_of(1, 8), &[]).await;
        expect(&mut peer, kept(8, KeepOutcome::OtherBoot(Generation(2)))).await;
        assert_eq!(*fakes.keeps.lock(), [7]);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn the_answer_survives_the_connection_it_was_to_go_over() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P]);
        peer.send(0, &keep(7), &[]).await;
        sleep(SECOND_NS / 10).await;
        drop(peer);
        let mut peer = accept(&port).await;
        peer.send(0, &keep(7), &[]).await;
        fakes.comes(7, WHOLE);
        expect(&mut peer, kept(7, WHOLE)).await;
        assert_eq!(*fakes.keeps.lock(), [7]);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn an_order_that_is_ended_makes_room_for_another() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P]);
        let most = KEEPS_PER_NODE_MAX as u64;
        for request in 0..=most {
            peer.send(0, &keep(request), &[]).await;
        }
        match next(&mut peer).await {
            ToIoNode::Kept(Kept { request, outcome: KeepOutcome::Refused(reason), .. }) => {
                assert_eq!((request, reason.contains("other files on their way")), (most, true), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        // Nothing is said of those that end.
        for request in [0, 99] {
            peer.send(0, &ToNode::EndKeep { request }, &[]).await;
        }
        sleep(SECOND_NS).await;
        assert_eq!(*fakes.dropped.lock(), [0]);
        peer.send(0, &keep(50), &[]).await;
        fakes.comes(50, KeepOutcome::Refused(String::from("why")));
        expect(&mut peer, kept(50, KeepOutcome::Refused(String::from("why")))).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn jobs_come_and_go_beside_them() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        holds(&fakes, &[P]);
        peer.send(0, &keep(7), &[]).await;
        peer.send(0, &launch(1), &[]).await;
        expect(&mut peer, launched(1)).await;
        // What it left in the kernel is wiped when the job has ended; nobody waits for that.
        fakes.comes(7, WHOLE);
        expect(&mut peer, kept(7, WHOLE)).await;
        peer.send(0, &ToNode::EndKeep { request: 7 }, &[]).await;
        peer.send(0, &kill(1), &[]).await;
        expect(&mut peer, ended_holding(1, 2, Exit::Signal(9), &[P])).await;
        peer.send(0, &launch(2), &[]).await;
        expect(&mut peer, launched(2)).await;
    });
    assert_eq!(result, Ok(()));
}

/// Notes that an order to keep a file was not carried out to its end.
pub(super) struct Dropped(pub(super) Fakes, pub(super) u64);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.lock().push(self.1);
    }
}

pub(super) async fn carry_out(fakes: Fakes, order: Keep, tell: Box<dyn FnOnce(KeepOutcome) + Send>) {
    let request = order.transfer.request;
    fakes.keeps.lock().push(request);
    let dropped = Dropped(fakes.clone(), request);
    let came = || fakes.came.lock().iter().find(|(of, _)| *of == request).map(|(_, outcome)| outcome.clone());
    tell(fakes.changed.wait_until(came).await);
    // Others may want it.
    core::future::pending::<()>().await;
    drop(dropped);
}
