//! PMI on a node: what its ranks ask, and what it says to the other nodes of its jobs.
//!
//! For each job there is one [`coppice_protocol::pmi::Server`] ([`job`]), from the first launch of one of its ranks
//! here until none runs on any node. Each rank has a [`Seat`] there from its launch to its end, and speaks at a
//! descriptor that it inherits ([`Endpoint`]) or at a port ([`port`]). Nodes speak with each other over TCP, on
//! connections that belong to one job each ([`way`], [`peers`]).
//!
//! **Launches are not simultaneous.** A frame may come for a job that this node is about to be told of. The connection
//! that brought it waits, unread, until the job is there: the frame is handled at once then, and nothing is asked for
//! or sent again. If no such job comes, the connection is closed; who called calls again as long as it has something
//! to say.
//!
//! **What is left of a job.** Ranks elsewhere may want what ranks here have put or published, and what they say to each
//! other may go through this node, when no rank runs here any more. So what the node knows of the job stays until the
//! service node, which alone knows that, has it told that none runs anywhere ([`Pmi::over`]); what the job took goes
//! when its nodes are given to others, as all else of it does. The end of a rank waits for nothing of this. If that
//! word is lost with a connection, the next job's first rank does for it: a node has the ranks of one job at a time. Of
//! a job that is on one node, that is killed, or that cannot go on, nothing stays: the end of its last rank here is
//! reported when the keys and values, the connections, and the tasks are gone ([`Seat::leave`]).
//!
//! Nothing here happens but for a call, a frame, or a timer of a rank that waits in a barrier.

mod abort;
mod dialogue;
mod endpoint;
mod job;
mod peers;
mod port;
mod seat;
mod speech;
#[cfg(test)]
mod tests;
mod way;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use coppice_protocol::control::Order;
use coppice_protocol::ids::{JobId, JobNode, NodeId, Rank};
use coppice_protocol::pmi::Placement;
use coppice_protocol::spawn::Spawned;
use coppice_protocol::world::NetworkTag;

pub(crate) use self::endpoint::Endpoint;
use self::job::Job;
pub(crate) use self::seat::{PMI_DESCRIPTOR, Seat};

use crate::agent::Failures;
use crate::executor::WaitQueue;
use crate::files::executable;
use crate::limits::{PMI_CHARGE_BYTES, PROCESS_IDS};
use crate::net::Neighbours;
use crate::quota::Quota;
use crate::sync::{LockLevel, Mutex};

/// PMI on this node. Clones are the same.
#[derive(Clone)]
pub struct Pmi {
    shared: Arc<Shared>,
}

struct Shared {
    node: NodeId,
    neighbours: Arc<dyn Neighbours>,
    quota: Arc<Quota>,
    jobs: Mutex<BTreeMap<JobId, Arc<Job>>>,
    /// Told when there is another job.
    came: WaitQueue,
}

impl Pmi {
    /// On `node`, with these neighbours. What it keeps for ranks is charged to `quota`. [`Self::listen`] and
    /// [`Self::serve`] are to be run beside it.
    #[must_use]
    pub fn new(node: NodeId, neighbours: Arc<dyn Neighbours>, quota: Arc<Quota>) -> Self {
        let shared = Shared {
            node,
            neighbours,
            quota,
            jobs: Mutex::new(LockLevel::Jobs, BTreeMap::new()),
            came: WaitQueue::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A rank is about to be started. `failures` is told if its job cannot go on.
    ///
    /// # Errors
    /// The rank has no place on this node, or is there already: one line that says so.
    pub(crate) fn join(&self, launch: &Order, failures: Failures) -> Result<Seat, String> {
        let (id, rank) = (launch.job, launch.rank);
        let mut jobs = self.shared.jobs.lock();
        if !jobs.contains_key(&id) {
            // They are over, or never came to their end.
            jobs.extract_if(.., |_, job| job.is_deserted()).for_each(|(_, job)| job.close());
            let bytes = PMI_CHARGE_BYTES + Placement::memory_bytes_max(launch.world.nodes.len());
            let charge = self.shared.quota.charge(bytes).map_err(|errno| format!("PMI: {errno}"))?;
            let placement = launch.world.placement(launch.size).map_err(|error| format!("placement: {error}"))?;
            let neighbours = Arc::clone(&self.shared.neighbours);
            let job = Job::new(id, &launch.world, placement, self.shared.node, neighbours, failures, charge);
            let job = job.ok_or_else(|| format!("node {} has no part in the job", self.shared.node))?;
            job.set_origin(launch.origin.clone(), launch.universe);
            job.set_program(&executable(&launch.directory, &launch.path), PROCESS_IDS);
            if launch.restore.is_some() {
                job.await_record();
            }
            if launch.outlives_ranks {
                job.set_outlives_ranks();
            }
            jobs.insert(id, job);
        }
        let job = jobs.get(&id).filter(|job| job.admit(rank)).cloned();
        drop(jobs);
        self.shared.came.wake_all();
        let job = job.ok_or_else(|| format!("rank {rank} has no place on node {}", self.shared.node))?;
        Ok(Seat::new(self.clone(), job, rank))
    }

    /// The ranks of the job are being ended on purpose: that is no failure.
    pub(crate) fn kill(&self, id: JobId) {
        let job = self.shared.jobs.lock().get(&id).cloned();
        if let Some(job) = job {
            job.kill();
            if job.is_deserted() {
                self.forget(&job);
            }
        }
    }

    /// A node of a job that goes on is gone, and these ranks with it. Which one in the job's network it is, if it is
    /// one.
    pub(crate) fn node_lost(&self, id: JobId, node: NodeId, ranks: &[Rank]) -> Option<(NetworkTag, JobNode)> {
        let job = self.shared.jobs.lock().get(&id).cloned();
        job.and_then(|job| job.node_lost(node, ranks))
    }

    /// This came of what a rank here wanted to be started.
    pub(crate) fn spawned(&self, spawned: Spawned) {
        let job = self.shared.jobs.lock().get(&spawned.job).cloned();
        if let Some(job) = job {
            job.spawned(spawned);
        }
    }

    /// No rank of the job runs on any node. When it is done, nothing of the job is left here.
    pub(crate) fn over(&self, id: JobId) -> impl Future<Output = ()> + Send + use<> {
        let job = self.shared.jobs.lock().get(&id).cloned();
        self.kill(id);
        async move {
            if let Some(job) = job {
                job.vacated().await;
            }
        }
    }

    fn forget(&self, job: &Arc<Job>) {
        self.shared.jobs.lock().remove(&job.id());
        job.close();
    }

    fn job_with(&self, signature: u64) -> Option<Arc<Job>> {
        self.shared.jobs.lock().values().find(|job| job.signature() == signature).cloned()
    }
}
