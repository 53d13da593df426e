//! Calling other nodes, and being called.
//!
//! A node calls another when it has something for it and no connection, or when a rank has begun to speak and so will
//! meet the others: until it does, the connection is there. What is said goes over any connection there is. So two
//! nodes usually share one connection, whoever made it.

use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicUsize, Ordering};

use coppice_protocol::limits::{PMI_ASK_NS, PMI_PEER_PORT};
use coppice_protocol::pmi::PeerFrame;

use super::Pmi;
use super::job::Job;
use super::way::{Broken, Talk, Way};
use crate::executor::{self, Either, Elapsed, race};
use crate::limits::{
    CONNECT_TIMEOUT_NS, PMI_BACKLOG_MAX, PMI_CALLERS_MAX, PMI_CONNECTION_BUFFER_BYTES, PMI_STRANGER_NS_MAX,
};
use crate::net::{Backoff, Caller, Wire};

/// Calls a node and speaks with it, again and again as long as there is something to say and nobody else does.
pub(super) async fn call(mut way: Way) {
    let job = Arc::clone(way.job());
    let Some(node) = job.node(way.peer()) else { return };
    let mut backoff = Backoff::new();
    // Who is called ahead and hears nothing for long hangs up, and is called again when there is something to say.
    let mut ahead = true;
    while job.wants_way(way.peer(), ahead) {
        let connect = job.neighbours().connect(node, PMI_PEER_PORT, PMI_CONNECTION_BUFFER_BYTES);
        let connected = match race(job.over(), executor::timeout(CONNECT_TIMEOUT_NS, connect)).await {
            Either::First(()) => return,
            Either::Second(connected) => connected,
        };
        match connected {
            Ok(Ok(wire)) => {
                ahead = false;
                let Err(error) = way.speak(&*wire, Talk::default()).await else { return };
                log::debug!("pmi: connection with node {node}: {error}");
                way.broke();
            }
            Ok(Err(error)) => log::debug!("pmi: cannot connect to node {node}: {error}"),
            Err(Elapsed) => log::debug!("pmi: node {node} does not answer"),
        }
        if let Either::First(()) = race(job.over(), backoff.pause()).await {
            return;
        }
    }
    drop(way);
    // Something may have come up in the meantime.
    job.with(|_, _| ());
}

/// One of the callers that there may be.
pub(super) struct Ticket(Arc<AtomicUsize>);

impl Ticket {
    pub(super) fn take(callers: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let more = |count| (count < limit).then_some(count + 1);
        let taken = callers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self(Arc::clone(callers)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pmi {
    /// Answers the calls of other nodes. Never done, unless the port is in use.
    pub async fn listen(self) {
        let door = self.shared.neighbours.listen(PMI_PEER_PORT, PMI_BACKLOG_MAX, PMI_CONNECTION_BUFFER_BYTES);
        let door = match door {
            Ok(door) => door,
            Err(error) => return log::error!("pmi: cannot listen: {error}"),
        };
        let callers = Arc::<AtomicUsize>::default();
        loop {
            match door.accept().await {
                Ok(caller) => self.admit(caller, &callers),
                Err(error) => log::warn!("pmi: cannot accept a connection: {error}"),
            }
        }
    }

    /// Beyond the limits a connection is broken off: whoever called calls again.
    fn admit(&self, (wire, address): Caller, callers: &Arc<AtomicUsize>) {
        let pmi = self.clone();
        let Some(ticket) = Ticket::take(callers, PMI_CALLERS_MAX) else { return wire.abort() };
        let spawned = executor::spawn(async move {
            if let Err(error) = pmi.answer(&*wire, address).await {
                log::debug!("pmi: connection with {address}: {error}");
                wire.abort();
            }
            drop(ticket);
        });
        if spawned.is_err() {
            log::warn!("pmi: no room for a connection with {address}");
        }
    }

    /// Finds out which job a connection is for, waiting for that if need be, and speaks for it.
    async fn answer(&self, wire: &dyn Wire, address: Ipv4Addr) -> Result<(), Broken> {
        let mut talk = Talk::default();
        let greeted = async {
            talk.hear(wire).await?;
            let first = talk.first().ok_or(Broken::Closed)?;
            Ok((self.job_of(first, wire).await?, first.from()))
        };
        let (job, peer) = executor::timeout(PMI_STRANGER_NS_MAX, greeted).await.unwrap_or(Err(Broken::Idle))?;
        if !job.is_peer(peer, address) {
            return Err(Broken::Stranger);
        }
        let mut way = Way::open(&job, peer);
        let spoken = way.speak(wire, talk).await;
        way.broke();
        drop(way);
        // If there is something to say, it is for this node to call now.
        job.with(|_, _| ());
        spoken
    }

    /// Waits for the job that a frame is for. Who sent it is told now and then that this node is there.
    async fn job_of(&self, frame: &PeerFrame, wire: &dyn Wire) -> Result<Arc<Job>, Broken> {
        loop {
            let came = self.shared.came.wait_until(|| self.job_with(frame.signature()));
            if let Ok(job) = executor::timeout(PMI_ASK_NS, came).await {
                return Ok(job);
            }
            // There is room, if who called reads at all.
            let absence = frame.absence();
            if wire.try_write(&absence)? < absence.len() {
                return Err(Broken::Idle);
            }
        }
    }
}
