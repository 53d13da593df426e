//! The performance overlay on a node: what its ranks do is looked at at the end of each epoch, and goes up the tree of
//! communication processes, some of which may be here.
//!
//! What to say to whom is decided by [`coppice_protocol::overlay::Node`]; here are the time, the ranks, and the
//! connections around it. A job has its part ([`job`]) from the moment at which its front end asks for it to the end of
//! the job, or of the overlay. Nodes say what they have to say to processes elsewhere over TCP, each on a connection
//! that it makes ([`line`](mod@line)) and on which it hears nothing.
//!
//! **Nothing of it comes before the programs.** Its tasks take turns with them as programs do, on the core that has had
//! the least to do.

mod auxiliary;
mod door;
mod job;
mod line;
mod sample;
#[cfg(test)]
mod tests;
mod waiting;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::OverlayOrder;
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::overlay::{Down, Up};

pub use self::auxiliary::Auxiliary;
use self::job::{OfJob, Task};
use crate::errno::Errno;
use crate::executor;
use crate::limits::{OVERLAY_NODE_BYTES, OVERLAY_RANK_BYTES};
use crate::net::Neighbours;
use crate::process::JobOnNode;
use crate::quota::Quota;
use crate::sync::{LockLevel, Mutex};

/// Says something to the front end.
pub(crate) type Say = Arc<dyn Fn(Up) + Send + Sync>;

/// The overlays of the jobs on this node. Clones are the same.
#[derive(Clone)]
pub struct Overlays {
    shared: Arc<Shared>,
}

struct Shared {
    node: NodeId,
    neighbours: Arc<dyn Neighbours>,
    quota: Arc<Quota>,
    auxiliary: Arc<Auxiliary>,
    jobs: Mutex<BTreeMap<JobId, Arc<OfJob>>>,
}

impl Overlays {
    /// On `node`, with these neighbours. What they keep is charged to `quota`. [`Self::listen`] is to be run beside it.
    #[must_use]
    pub fn new(node: NodeId, neighbours: Arc<dyn Neighbours>, quota: Arc<Quota>, auxiliary: Auxiliary) -> Self {
        let jobs = Mutex::new(LockLevel::Jobs, BTreeMap::new());
        Self { shared: Arc::new(Shared { node, neighbours, quota, auxiliary: Arc::new(auxiliary), jobs }) }
    }

    /// The front end of a job says something; `job`, if ranks of it are here. What it is to hear is said by `say`.
    pub(crate) fn obey(&self, order: OverlayOrder, job: Option<&Arc<JobOnNode>>, say: Say) {
        let of_job = match (&order.order, job) {
            (Down::Announce { .. }, Some(job)) => match self.begin(job, say) {
                Ok(of_job) => of_job,
                Err(errno) => return log::warn!("overlay of job {}: {errno}", order.job),
            },
            _ => match self.find(order.job) {
                Some(of_job) => of_job,
                None => return,
            },
        };
        let is_end = matches!(order.order, Down::End { .. });
        of_job.obey(order.number, order.order, job);
        if is_end {
            self.end(order.job);
        }
    }

    /// The part of a job's overlay that is here, or a new one.
    fn begin(&self, job: &Arc<JobOnNode>, say: Say) -> Result<Arc<OfJob>, Errno> {
        if let Some(of_job) = self.find(job.id) {
            return Ok(of_job);
        }
        self.end_others(job.id);
        let of_ranks = job.world.ranks_per_node as usize * OVERLAY_RANK_BYTES;
        let charge = self.shared.quota.charge(OVERLAY_NODE_BYTES.saturating_add(of_ranks))?;
        let (neighbours, auxiliary) = (Arc::clone(&self.shared.neighbours), Arc::clone(&self.shared.auxiliary));
        let of_job = Arc::new(OfJob::new(self.shared.node, job, (neighbours, auxiliary), say, charge));
        self.shared.jobs.lock().insert(job.id, Arc::clone(&of_job));
        let looks = Arc::downgrade(&of_job);
        job.look_last(Some(Arc::new(move |process| {
            if let Some(of_job) = looks.upgrade() {
                of_job.look_last(process);
            }
        })));
        let running = Task::of(&of_job);
        if executor::spawn_aside(async move { running.run().await }).is_err() {
            self.end(job.id);
            return Err(Errno::EAGAIN);
        }
        Ok(of_job)
    }

    /// A rank of a job is about to be started, or looked at. A node has the ranks of one job at a time, so others are
    /// over: the word of that was lost with a connection.
    pub(crate) fn end_others(&self, id: JobId) {
        let over: Vec<JobId> = self.shared.jobs.lock().keys().copied().filter(|other| *other != id).collect();
        over.into_iter().for_each(|other| self.end(other));
    }

    /// A job is over, or nobody wants to know any more what it does.
    pub(crate) fn end(&self, id: JobId) {
        let of_job = self.shared.jobs.lock().remove(&id);
        if let Some(of_job) = of_job {
            of_job.end();
        }
    }

    /// The job's ranks are being ended on purpose.
    pub(crate) fn kill(&self, id: JobId) {
        self.find(id).inspect(|of_job| of_job.kill());
    }

    /// The job is over. When it is done, nothing of its overlay is left here.
    pub(crate) fn over(&self, id: JobId) -> impl Future<Output = ()> + Send + use<> {
        let of_job = self.find(id);
        self.end(id);
        async move {
            if let Some(of_job) = of_job {
                of_job.vacated().await;
            }
        }
    }

    /// The last rank of a job here has ended. What is not told yet of what they did is said before that is known. If
    /// the job is on no other node, or is being ended, nothing of its overlay is left here when it is done.
    pub(crate) async fn left(&self, id: JobId) {
        let Some(of_job) = self.find(id) else { return };
        of_job.say_last();
        if !of_job.is_wanted() {
            self.over(id).await;
        }
    }

    fn find(&self, id: JobId) -> Option<Arc<OfJob>> {
        self.shared.jobs.lock().get(&id).cloned()
    }

    fn find_signed(&self, signature: u64) -> Option<Arc<OfJob>> {
        self.shared.jobs.lock().values().find(|of_job| of_job.keys().signature() == signature).cloned()
    }
}
