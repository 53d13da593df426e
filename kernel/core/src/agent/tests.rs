//! A node's agent and an I/O node that the tests play.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use coppice_protocol::broadcast::Broadcast;
use coppice_protocol::control::{Ends, Exit, Launch, MemoryStatus, Order, RankReport, Signal, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, Rank};
use coppice_protocol::inspect::{Answer, Inspect};
use coppice_protocol::keep::{Keep, KeepOutcome};
use coppice_protocol::limits::HEARTBEAT_DEAD_NS;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::retain::{HeldAs, Retain, RetainOutcome, Retained, RetainedProgram, WalkCounts};
use coppice_protocol::session::Channel;
use coppice_protocol::ship::Call;
use coppice_protocol::spawn::{Joined, Spawned};
use coppice_protocol::trace::Traced;
use spin::Mutex;

use super::{Failures, Node, Processes, Started, run};
use crate::errno::Errno;
use crate::executor::{WaitQueue, run_to_end, sleep, spawn, timeout};
use crate::limits::SHIP_CONNECT_WAIT_NS;
use crate::net::BoxFuture;
use crate::net::testing::{Net, Peer, Port, credentials};
use crate::process::testing::order;
use crate::ras::RasQueue;
use crate::ship::{Client, Ship};

const SECOND_NS: u64 = 1_000_000_000;

mod inspections;
mod keeps;
mod ranks;
mod retention;
mod together;

/// The signal for which the processes have a handler.
const HANDLED: u8 = 10;

/// Processes that run until they are killed, or told to end.
#[derive(Clone, Default)]
struct Fakes {
    killed: Arc<Mutex<Vec<(JobId, u8)>>>,
    told_to_end: Arc<Mutex<Vec<Rank>>>,
    changed: Arc<WaitQueue>,
    launched: Arc<Mutex<Vec<JobId>>>,
    held: Arc<Mutex<Vec<RetainedProgram>>>,
    failures: Arc<Mutex<Vec<Failures>>>,
    /// What begins so much later, ns.
    late: Arc<Mutex<Vec<(Rank, u64)>>>,
    /// Whether questions are answered.
    answers: Arc<AtomicBool>,
    /// Whether what was given back is not free yet.
    being_freed: Arc<AtomicBool>,
    /// Orders to keep files that were begun, those that were given up, and what comes of them.
    keeps: Arc<Mutex<Vec<u64>>>,
    dropped: Arc<Mutex<Vec<u64>>>,
    came: Arc<Mutex<Vec<(u64, KeepOutcome)>>>,
}

impl Processes for Fakes {
    fn launch(&self, launch: Order, _client: Client, started: Started) -> BoxFuture<'static, RankReport> {
        let Self { killed, told_to_end, changed, launched, .. } = self.clone();
        launched.lock().push(launch.job);
        self.failures.lock().push(started.failures());
        let late = self.late.lock().iter().find(|(rank, _)| *rank == launch.rank).map_or(0, |(_, late_ns)| *late_ns);
        Box::pin(async move {
            if late > 0 {
                sleep(late).await;
            }
            started.now();
            let end = || {
                let killed = killed.lock().iter().find(|(of, signal)| *of == launch.job && *signal != HANDLED).copied();
                let ends = told_to_end.lock().contains(&launch.rank).then_some(Exit::Status(0));
                killed.map(|(_, signal)| Exit::Signal(signal)).or(ends)
            };
            let exit = changed.wait_until(end).await;
            RankReport::ended(launch.job, launch.rank, exit)
        })
    }

    fn retain(&self, program: ProgramId) -> Option<WalkCounts> {
        let is_held = self.held.lock().iter().any(|held| held.program == program);
        is_held.then(|| {
            let mut held = self.held.lock();
            let before = held.len();
            held.retain(|held| held.program == program);
            WalkCounts { kept: 5, discarded: (before - 1) as u64, ..WalkCounts::default() }
        })
    }

    fn discard(&self, program: Option<ProgramId>) -> Vec<RetainedProgram> {
        let mut held = self.held.lock();
        let goes = |held: &RetainedProgram| program.is_none_or(|program| program == held.program);
        let (gone, stay) = held.iter().partition(|held| goes(held));
        *held = stay;
        gone
    }

    fn keep(&self, order: Keep, tell: Box<dyn FnOnce(KeepOutcome) + Send>) -> BoxFuture<'static, ()> {
        Box::pin(keeps::carry_out(self.clone(), order, tell))
    }

    fn freed(&self) -> BoxFuture<'static, ()> {
        let Self { being_freed, changed, .. } = self.clone();
        Box::pin(async move { changed.wait_until(|| (!being_freed.load(Ordering::Relaxed)).then_some(())).await })
    }

    fn held(&self) -> Vec<RetainedProgram> {
        self.held.lock().clone()
    }

    fn kill(&self, job: JobId, signal: u8) {
        self.killed.lock().push((job, signal));
        self.changed.wake_all();
    }

    fn broadcast(&self, _: Broadcast) {}

    fn trace(&self, _: JobId, _: Traced) {}

    fn checkpointed(&self, _: JobId, _: u64) {}
    fn overlay(
        &self,
        _: coppice_protocol::control::OverlayOrder,
        _: Arc<dyn Fn(coppice_protocol::overlay::Up) + Send + Sync>,
    ) {
    }

    fn spawned(&self, _: Spawned) {}

    fn joined(&self, joined: Joined) -> u32 {
        // It has missed some.
        if joined.first > 8 { 8 } else { joined.count() }
    }

    fn node_lost(&self, _: JobId, _: NodeId, _: &[Rank]) {}

    fn forget(&self, _: JobId) -> BoxFuture<'static, ()> {
        Box::pin(core::future::ready(()))
    }

    fn inspect(&self, _: Inspect) -> BoxFuture<'static, Answer> {
        let Self { answers, changed, .. } = self.clone();
        Box::pin(async move { changed.wait_until(|| answers.load(Ordering::Relaxed).then_some(Answer::NotHere)).await })
    }
}

fn launch(job: u64) -> ToNode {
    launch_rank(job, 2)
}

fn launch_rank(job: u64, rank: u32) -> ToNode {
    launch_ranks(job, rank, 1)
}

/// The order to start some ranks.
fn launch_ranks(job: u64, first: u32, count: u32) -> ToNode {
    ToNode::Launch(Launch { job: JobId(job), first: Rank(first), count, program: ProgramId([1; 32]), ..order(4) })
}

fn memory() -> MemoryStatus {
    MemoryStatus { total: 64, kernel: 4, free: 60, retained: 0 }
}

struct Stage {
    port: Port,
    fakes: Fakes,
    ras: &'static RasQueue,
}

fn stage() -> Stage {
    stage_on(&Net::new(), Ship::new())
}

fn stage_on(net: &Net, ship: Ship) -> Stage {
    let port = net.listen(Channel::Control);
    let fakes = Fakes::default();
    let ras: &'static RasQueue = Box::leak(Box::default());
    let processes = fakes.clone();
    let node = Node { credentials: credentials(), ship, ras, memory, power_off: || panic!("power"), processes };
    assert!(spawn(run(net.dial(), node)).is_ok());
    Stage { port, fakes, ras }
}

async fn next(peer: &mut Peer) -> ToIoNode {
    match timeout(SECOND_NS, peer.receive()).await {
        Ok(Ok(frame)) => frame.message().unwrap(),
        other => panic!("no message: {other:?}"),
    }
}

async fn accept(port: &Port) -> Peer {
    let mut peer = port.accept().await;
    match next(&mut peer).await {
        ToIoNode::Ready(status) => assert_eq!(status.memory, memory()),
        other => panic!("not ready: {other:?}"),
    }
    peer
}

async fn expect(peer: &mut Peer, expected: ToIoNode) {
    assert_eq!(next(peer).await, expected);
}

fn launched(job: u64) -> ToIoNode {
    ToIoNode::Launched { job: JobId(job), ranks: Rank(2).into() }
}

fn ended(job: u64, exit: Exit) -> ToIoNode {
    one_end(RankReport::ended(JobId(job), Rank(2), exit), &[])
}

/// Asks whether the node is alive, and says how many of its messages were read.
fn ping(sequence: u64, taken: u64) -> ToNode {
    ToNode::Ping { sequence, realtime_ns: 5, taken }
}

/// One rank has ended, on a node that holds these programs then.
fn one_end(report: RankReport, programs: &[ProgramId]) -> ToIoNode {
    ToIoNode::Ended(Ends { held: programs.iter().copied().map(held).collect(), reports: vec![report] })
}

/// The only rank of which a message says that it has ended.
fn the_end(message: ToIoNode) -> RankReport {
    match message {
        ToIoNode::Ended(ends) if ends.reports.len() == 1 => ends.reports[0].clone(),
        other => panic!("not one end: {other:?}"),
    }
}

fn kill(job: u64) -> ToNode {
    ToNode::Kill { job: JobId(job) }
}

#[test]
fn pings_are_answered_at_once() {
    let Stage { port, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        for sequence in 0..3 {
            peer.send(0, &ping(sequence, 0), &[]).await;
            expect(&mut peer, ToIoNode::Pong { sequence, memory: memory() }).await;
        }
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_job_is_launched_once_killed_and_reported() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        peer.send(0, &launch(1), &[]).await;
        expect(&mut peer, launched(1)).await;
        // Orders that come twice.
        peer.send(0, &launch(1), &[]).await;
        peer.send(0, &launch(2), &[]).await;
        match the_end(next(&mut peer).await) {
            RankReport { job: JobId(2), exit: Exit::NotStarted, reason: Some(reason), .. } => {
                assert_eq!(reason, "node is busy with job 1");
            }
            other => panic!("a second job was not refused: {other:?}"),
        }
        peer.send(0, &kill(1), &[]).await;
        expect(&mut peer, ended(1, Exit::Signal(9))).await;
        peer.send(0, &kill(1), &[]).await;
        expect(&mut peer, ended(1, Exit::Signal(9))).await;
        peer.send(0, &launch(1), &[]).await;
        expect(&mut peer, ended(1, Exit::Signal(9))).await;
        peer.send(0, &launch(3), &[]).await;
        expect(&mut peer, launched(3)).await;
        assert_eq!(*fakes.launched.lock(), [JobId(1), JobId(3)]);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_signal_is_delivered_once() {
    let Stage { port, fakes, .. } = stage();
    let signal = |job, sequence, signal| ToNode::Signal(Signal { job: JobId(job), sequence, signal });
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        // Of a job that is not here, and one that is no signal.
        peer.send(0, &signal(1, 1, HANDLED), &[]).await;
        peer.send(0, &launch(1), &[]).await;
        expect(&mut peer, launched(1)).await;
        for (sequence, number) in [(1, HANDLED), (2, HANDLED), (1, HANDLED), (2, 15), (3, 0), (4, 65)] {
            peer.send(0, &signal(1, sequence, number), &[]).await;
        }
        peer.send(0, &ping(1, 1), &[]).await;
        expect(&mut peer, ToIoNode::Pong { sequence: 1, memory: memory() }).await;
        peer.stream.abort();
        drop(peer);
        let mut peer = accept(&port).await;
        peer.send(0, &signal(1, 2, HANDLED), &[]).await;
        peer.send(0, &signal(1, 5, HANDLED), &[]).await;
        peer.send(0, &signal(1, 6, 15), &[]).await;
        expect(&mut peer, ended(1, Exit::Signal(15))).await;
        let handled = (JobId(1), HANDLED);
        assert_eq!(*fakes.killed.lock(), [handled, handled, handled, (JobId(1), 15)]);
        // They are counted anew for another job, and those of one that has ended come to nothing.
        peer.send(0, &launch(2), &[]).await;
        expect(&mut peer, launched(2)).await;
        peer.send(0, &signal(1, 7, HANDLED), &[]).await;
        peer.send(0, &signal(2, 1, 12), &[]).await;
        expect(&mut peer, ended(2, Exit::Signal(12))).await;
        assert_eq!(fakes.killed.lock().len(), 5);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_report_outlives_its_connection() {
    let Stage { port, fakes, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        peer.send(0, &launch(1), &[]).await;
        expect(&mut peer, launched(1)).await;
        peer.send(0, &ping(1, 1), &[]).await;
        next(&mut peer).await;
        peer.stream.abort();
        drop(peer);
        fakes.kill(JobId(1), 11);
        let mut peer = accept(&port).await;
        expect(&mut peer, ended(1, Exit::Signal(11))).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn ras_events_are_passed_on() {
    let Stage { port, ras, .. } = stage();
    let event = RasEvent {
        severity: Severity::Error,
        kind: RasKind::ProgramFault,
        job: Some(JobId(1)),
        rank: Some(Rank(0)),
        address: Some(0),
        instruction: Some(0x40_1000),
        text: String::from("null pointer"),
    };
    ras.push(event.clone());
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        expect(&mut peer, ToIoNode::Ras(event.clone())).await;
        ras.push(event.clone());
        expect(&mut peer, ToIoNode::Ras(event)).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_silent_io_node_is_called_again() {
    let Stage { port, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        assert!(timeout(HEARTBEAT_DEAD_NS - SECOND_NS, peer.receive()).await.is_err());
        assert!(timeout(2 * SECOND_NS, peer.receive()).await.is_ok_and(|received| received.is_err()));
        accept(&port).await;
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn calls_fail_when_the_io_node_goes_and_none_comes() {
    let net = Net::new();
    let (control, shipping) = (net.listen(Channel::Control), net.listen(Channel::Ship));
    let ship = Ship::new();
    let ras: &'static RasQueue = Box::leak(Box::default());
    let processes = Fakes::default();
    let node = Node { credentials: credentials(), ship: ship.clone(), ras, memory, power_off: || (), processes };
    assert!(spawn(run(net.dial(), node)).is_ok());
    let (dial, client) = (net.dial(), ship.client(JobId(1), Rank(0)));
    assert!(spawn(async move { ship.keep_connected(dial, credentials()).await }).is_ok());
    let result = run_to_end(async move {
        let peer = accept(&control).await;
        let _silent = shipping.accept().await;
        let input = Call::Input { length: 1 };
        assert!(timeout(SECOND_NS, client.call(input.clone(), Vec::new())).await.is_err());
        assert!(
            spawn(async move {
                sleep(SECOND_NS).await;
                peer.stream.abort();
            })
            .is_ok()
        );
        let failed = timeout(SECOND_NS + 2 * SHIP_CONNECT_WAIT_NS, client.call(input, Vec::new())).await;
        assert_eq!(failed, Ok(Err(Errno::EIO)));
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn nonsense_is_ignored() {
    let Stage { port, .. } = stage();
    let result = run_to_end(async move {
        let mut peer = accept(&port).await;
        peer.send(0, &[255_u8; 30], &[1, 2, 3]).await;
        peer.send(0, &kill(99), &[]).await;
        peer.send(0, &ping(1, 1), &[]).await;
        expect(&mut peer, ToIoNode::Pong { sequence: 1, memory: memory() }).await;
        sleep(SECOND_NS).await;
    });
    assert_eq!(result, Ok(()));
}

const P: ProgramId = ProgramId([1; 32]);
const Q: ProgramId = ProgramId([2; 32]);

fn retain(job: u64, generation: u32, program: ProgramId) -> ToNode {
    ToNode::Retain(Retain { job: JobId(job), generation: Generation(generation), program })
}

fn retained(job: u64, program: ProgramId, outcome: RetainOutcome) -> ToIoNode {
    ToIoNode::Retained(Retained { job: JobId(job), program, outcome })
}

fn holds(fakes: &Fakes, programs: &[ProgramId]) {
    *fakes.held.lock() = programs.iter().map(|program| held(*program)).collect();
}

fn held(program: ProgramId) -> RetainedProgram {
    RetainedProgram { program, pages: 5, bytes: 20480, held_as: HeldAs::Table }
}
