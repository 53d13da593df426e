//! The control service: what a node says of itself and of its ranks, and whether it still says anything.

use std::rc::Rc;
use std::time::Duration;

use coppice_protocol::control::{JobFailure, RankReport, ToIoNode, ToNode, Waiting};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::{HEARTBEAT_DEAD_NS, HEARTBEAT_INTERVAL_NS};
use coppice_protocol::pset::FromPset;
use coppice_protocol::retain::Retained;
use coppice_protocol::session::{Event, Identity};
use coppice_protocol::ship::Owner;
use tokio::time::MissedTickBehavior;

use crate::clock::realtime_ns;
use crate::line::{Line, LineError};
use crate::server::Server;

/// Serves a node's control connection until its line ends.
pub(crate) async fn serve(server: &Server, line: &Rc<Line>, identity: Identity) -> LineError {
    tokio::select! {
        error = receive(server, line, identity) => error,
        error = heartbeat(line) => error,
    }
}

async fn receive(server: &Server, line: &Rc<Line>, identity: Identity) -> LineError {
    loop {
        let frame = match line.next_event().await {
            Ok(Event::Frame(frame)) => frame,
            Ok(_) => return LineError::Message,
            Err(error) => return error,
        };
        match frame.message() {
            Ok(message) => handle(server, identity, message).await,
            Err(_) => return LineError::Message,
        }
    }
}

/// Pings, and counts the pings after which nothing at all came. (Counting rather than reading a clock: a host that
/// slept has not heard its nodes either, and that is not their fault.)
async fn heartbeat(line: &Line) -> LineError {
    let mut ticks = tokio::time::interval(Duration::from_nanos(HEARTBEAT_INTERVAL_NS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let silent_max = HEARTBEAT_DEAD_NS / HEARTBEAT_INTERVAL_NS;
    let mut silent = 0;
    for sequence in 0.. {
        ticks.tick().await;
        silent = if sequence == 0 || line.take_heard() { 0 } else { silent + 1 };
        if silent >= silent_max {
            break;
        }
        let ping = ToNode::Ping { sequence, realtime_ns: realtime_ns() };
        if let Err(error) = line.send(0, &ping, Vec::new()) {
            // A queue full of what the node does not take: silence ends that.
            tracing::debug!(%error, "ping was not sent");
        }
    }
    LineError::Silent(HEARTBEAT_DEAD_NS / 1_000_000_000)
}

async fn handle(server: &Server, identity: Identity, message: ToIoNode) {
    match message {
        ToIoNode::Ready(status) => {
            server.nodes.borrow_mut().set_status(identity, status);
            server.check_ready(identity).await;
        }
        ToIoNode::Pong { memory, .. } => {
            let Identity { node, generation } = identity;
            let is_news = server.nodes.borrow_mut().set_memory(identity, memory);
            if is_news {
                server.outbox.send(FromPset::Memory { node, generation, memory }).await;
            }
        }
        ToIoNode::Launched { job, rank } => launched(server, identity, job, rank).await,
        ToIoNode::Ended(report) => ended(server, identity, report).await,
        ToIoNode::Failed(failure) => failed(server, identity, failure).await,
        ToIoNode::Waits(waiting) => waits(server, identity, waiting).await,
        ToIoNode::Retained(answer) => retained(server, identity, answer).await,
        ToIoNode::Discarded(answer) => {
            let node = identity.node;
            server.outbox.send(FromPset::Discarded { node, answer }).await;
        }
        ToIoNode::Ras(event) => server.report(identity.node, event).await,
    }
}

async fn launched(server: &Server, identity: Identity, job: JobId, rank: Rank) {
    let Some((_, state)) = server.rank_on(identity.node, Owner { job, rank }) else { return };
    if !state.has_ended() && state.set_launched() {
        server.outbox.send(FromPset::Launched { job, rank }).await;
    }
}

async fn failed(server: &Server, Identity { node, .. }: Identity, failure: JobFailure) {
    let job = server.jobs.borrow().get(failure.job);
    // Also of a node whose ranks have ended meanwhile: the job goes on elsewhere.
    if job.is_some_and(|job| job.ranks().any(|rank| rank.node() == node)) {
        server.outbox.send(FromPset::Failed { node, failure }).await;
    } else {
        tracing::debug!(%node, ?failure, "of a job that has no rank there");
    }
}

/// The first of the pset's nodes that says so speaks for all.
async fn waits(server: &Server, Identity { node, .. }: Identity, waiting: Waiting) {
    let job = server.jobs.borrow().get(waiting.job);
    if job.is_some_and(|job| job.ranks().any(|rank| rank.node() == node) && job.is_new_wait(waiting.barrier)) {
        server.outbox.send(FromPset::Waits(waiting)).await;
    }
}

async fn retained(server: &Server, Identity { node, .. }: Identity, answer: Retained) {
    let was_asked = server.jobs.borrow().was_told_to_retain(node, &answer);
    if was_asked {
        server.outbox.send(FromPset::Retained { node, answer }).await;
    } else {
        tracing::warn!(%node, ?answer, "answer to an order that was not given");
    }
}

async fn ended(server: &Server, identity: Identity, report: RankReport) {
    let owner = Owner { job: report.job, rank: report.rank };
    let Some((job, state)) = server.rank_on(identity.node, owner) else {
        tracing::warn!(node = %identity.node, ?owner, "report about a rank that is not there");
        return;
    };
    // The node repeats what may have been lost with a connection.
    if server.end_rank(&job, &state) {
        state.closed().await;
        server.outbox.send(FromPset::Ended { node: identity.node, report }).await;
    }
}
