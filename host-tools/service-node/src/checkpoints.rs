//! Checkpoints, as the service node makes them, deletes them and has jobs go on from them: beside the controller, which
//! says when, as all of it takes long.
//!
//! What is around whoever does that is an argument ([`Around`]): who is asked, what waits for the disk, and time. So it
//! runs in the service node as it runs in a simulated cluster.
//!
//! | module | what |
//! | --- | --- |
//! | `leading` | a job's nodes are led through steps |
//! | `making` | a checkpoint is made |
//! | `keeping` | nodes are asked until all is kept |
//! | `regions` | I/O nodes pull what lies in regions, and wipe it |
//! | `draining` | what is on its way to the storage, as it is shown |
//! | `deleting` | what nobody needs any more is deleted |
//! | `restarting` | jobs go on from a checkpoint |
//! | `automatic` | what is done without anybody asking for it |

mod automatic;
mod deleting;
mod draining;
mod keeping;
mod leading;
mod making;
mod regions;
mod restarting;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coppice_api::checkpoint::CheckpointName;
use coppice_api::job::Submission;
use coppice_api::{counted, shown};
use coppice_protocol::ids::{JobId, ProgramId};
use coppice_storage::{Collected, Manifest, Storage, StorageError};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, oneshot};

pub use self::automatic::carry_out;
pub(crate) use self::deleting::{collect, wipe_job};
use self::draining::Draining;
pub(crate) use self::leading::Leader;
pub use self::making::make;
pub(crate) use self::making::view_of;
pub use self::restarting::{Prepared, Runnable, prepare, submit};
pub(crate) use self::restarting::{no_checkpoints, verify_and_note};
use crate::controller::{Refused, Request, Restart, Submitted};
use crate::limits::CHECKPOINTS_MAX;
use crate::plant::CheckpointEvent;

/// What is around whoever does something with checkpoints.
pub trait Around: Clone + Send + Sync + 'static {
    /// Those that there are.
    fn checkpoints(&self) -> &Checkpoints;

    /// Tells the controller something.
    ///
    /// # Errors
    /// There is none any more.
    fn tell(&self, request: Request) -> impl Future<Output = Result<(), Refused>> + Send;

    /// Tells the controller what was done with checkpoints. If there is none any more nobody wants to know.
    fn say(&self, job: JobId, event: CheckpointEvent) -> impl Future<Output = ()> + Send;

    /// Does something with the directory of checkpoints, and waits so long for it.
    ///
    /// # Errors
    /// It takes longer, or is not done.
    fn stored<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce(&Storage) -> Result<T, StorageError> + Send + 'static,
    ) -> impl Future<Output = Result<T, Refused>> + Send;

    /// What a job can be run with that a checkpoint is of, if all of that is as it was.
    ///
    /// # Errors
    /// It is not.
    fn runnable(
        &self,
        manifest: &Manifest,
        again: &Resubmission,
        checkpoint: CheckpointName,
    ) -> impl Future<Output = Result<Runnable, Refused>> + Send;

    /// Has the controller take a job that goes on from a checkpoint, and expects whoever is to follow it.
    ///
    /// # Errors
    /// It does not.
    fn restart(&self, restart: Box<Restart>) -> impl Future<Output = Result<JobId, Refused>> + Send;

    /// A number that nobody else has, as nodes know by it who leads them.
    fn new_leader(&self, job: JobId) -> u64;

    /// What time it is.
    fn now(&self) -> Instant;

    /// The same since 1970.
    fn since_1970(&self) -> Duration;

    /// Waits for so long.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// Has something done, whether anybody waits for it or not.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Asks the controller and waits for its answer.
    ///
    /// # Errors
    /// It refuses, or there is none any more.
    fn ask<T: Send>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Request,
    ) -> impl Future<Output = Result<T, Refused>> + Send {
        let (answer, answered) = oneshot::channel();
        let told = self.tell(request(answer));
        async move {
            told.await?;
            answered.await.map_err(|_| going_down())?
        }
    }
}

/// Nobody answers any more.
pub(crate) fn going_down() -> Refused {
    Refused::conflict("the cluster is going down")
}

/// Opens the directory of checkpoints, without what an earlier life left in it that is none.
///
/// # Errors
/// It cannot be used.
pub fn open(path: PathBuf) -> Result<Arc<Storage>, StorageError> {
    let directory = Storage::open(path)?;
    let swept = directory.sweep()?;
    match directory.collect() {
        Ok(Collected { objects, bytes }) => tracing::info!(swept, objects, bytes, "checkpoints are swept"),
        // All that is whole can be used, and what is not can be deleted.
        Err(error) => tracing::warn!(%error, "objects that no checkpoint has cannot be told from others"),
    }
    Ok(Arc::new(directory))
}

/// The directory of checkpoints, and who does something with it.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    pub(crate) storage: Arc<Storage>,
    /// Held by all for whom objects must stay that no manifest reaches, or not any more.
    used: Arc<RwLock<()>>,
    /// Jobs with whose newest something is done, and what.
    busy: Arc<Mutex<BTreeMap<JobId, Doing>>>,
    /// Those that are not whole yet, but lie in regions.
    draining: Arc<Mutex<BTreeMap<JobId, Draining>>>,
}

/// What is done with the newest checkpoint of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// There will be a new one.
    Making,
    /// It is wiped from regions.
    Deleting,
}

/// It is done, until this is dropped.
#[derive(Debug)]
pub struct Busy {
    checkpoints: Checkpoints,
    job: JobId,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.checkpoints.busy().remove(&self.job);
    }
}

impl Checkpoints {
    /// Those in that directory.
    #[must_use]
    pub fn new(storage: Arc<Storage>) -> Self {
        Self { storage, used: Arc::default(), busy: Arc::default(), draining: Arc::default() }
    }

    fn busy(&self) -> MutexGuard<'_, BTreeMap<JobId, Doing>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of a job is to be made.
    ///
    /// # Errors
    /// Something is done with one of it already, or with too many others.
    pub fn make(&self, job: JobId) -> Result<Busy, Refused> {
        let mut busy = self.busy();
        match busy.get(&job) {
            None => {}
            Some(Doing::Making) => {
                let already = format!("a checkpoint of job {job} is being made already; wait for it");
                return Err(Refused::conflict(&already));
            }
            Some(Doing::Deleting) => {
                return Err(Refused::busy(&format!("a checkpoint of job {job} is being deleted; try again")));
            }
        }
        let made = busy.values().filter(|doing| **doing == Doing::Making).count();
        if made >= CHECKPOINTS_MAX {
            let others = counted(made, "other job");
            return Err(Refused::busy(&format!("checkpoints of {others} are being made; try again when one is done")));
        }
        busy.insert(job, Doing::Making);
        Ok(Busy { checkpoints: self.clone(), job })
    }

    /// Whether there will be a new one of a job, or it fails.
    pub(crate) fn is_being_made(&self, job: JobId) -> bool {
        self.busy().get(&job) == Some(&Doing::Making)
    }

    /// The newest of a job is to be wiped from regions. Nothing if something is done with it already.
    pub(crate) fn delete(&self, job: JobId) -> Option<Busy> {
        let mut busy = self.busy();
        if busy.contains_key(&job) {
            return None;
        }
        busy.insert(job, Doing::Deleting);
        Some(Busy { checkpoints: self.clone(), job })
    }

    /// No object goes as long as this is held.
    pub async fn used(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.used).read_owned().await
    }

    /// What messages call the directory.
    pub(crate) fn name(&self) -> String {
        format!("checkpoints in '{}'", shown(self.storage.path()))
    }
}

/// What a manifest says of how to submit the job once more.
#[derive(Debug, Serialize, Deserialize)]
pub struct Resubmission {
    /// As it was asked for.
    pub submission: Submission,
    /// The hashes of what was in the files that it has staged, hexadecimal, in the same order.
    #[serde(default)]
    pub staged: Vec<String>,
}

impl Resubmission {
    fn of(job: &Submitted) -> Self {
        Self { submission: job.submission.clone(), staged: job.staged.iter().map(ProgramId::to_string).collect() }
    }

    /// What that one says.
    ///
    /// # Errors
    /// Nothing that can be understood.
    pub fn read(manifest: &Manifest) -> Result<Self, StorageError> {
        let (job, number) = (manifest.job, manifest.number);
        let damaged = |error: serde_json::Error| StorageError::DamagedManifest { job, number, why: error.to_string() };
        Self::deserialize(&manifest.submission).map_err(damaged)
    }
}

impl From<StorageError> for Refused {
    fn from(error: StorageError) -> Self {
        let status = match &error {
            StorageError::NoManifest { .. } => 404,
            StorageError::Host { .. } | StorageError::Failed(_) => 500,
            _ => 409,
        };
        Self { status, message: error.to_string() }
    }
}
