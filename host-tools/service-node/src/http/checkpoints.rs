//! The checkpoints that there are: listed, and who uses them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Query, State};
use coppice_api::checkpoint::{CheckpointName, CheckpointState, CheckpointView, CheckpointsQuery};
use coppice_api::job::Submission;
use coppice_api::{counted, shown};
use coppice_protocol::ids::{JobId, ProgramId};
use coppice_storage::{Manifest, Storage, StorageError};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use super::draining::Draining;
use super::{Answered, Api, answer};
use crate::controller::{Refused, Submitted};
use crate::limits::{CHECKPOINTS_MAX, HOST_FILE_TIME_MAX};

/// The directory of checkpoints, and who does something with it.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    pub(super) storage: Arc<Storage>,
    /// Held by all for whom objects must stay that no manifest reaches, or not any more.
    pub(super) used: Arc<RwLock<()>>,
    /// Jobs with whose newest something is done, and what.
    busy: Arc<Mutex<BTreeMap<JobId, Doing>>>,
    /// Those that are not whole yet, but lie in regions.
    pub(super) draining: Arc<Mutex<BTreeMap<JobId, Draining>>>,
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
pub(super) struct Busy {
    checkpoints: Checkpoints,
    job: JobId,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.checkpoints.busy().remove(&self.job);
    }
}

impl Checkpoints {
    pub(super) fn new(storage: Arc<Storage>) -> Self {
        Self { storage, used: Arc::default(), busy: Arc::default(), draining: Arc::default() }
    }

    fn busy(&self) -> MutexGuard<'_, BTreeMap<JobId, Doing>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of a job is to be made.
    pub(super) fn make(&self, job: JobId) -> Result<Busy, Refused> {
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

    /// The newest of a job is to be wiped from regions. Nothing if something is done with it already.
    pub(super) fn delete(&self, job: JobId) -> Option<Busy> {
        let mut busy = self.busy();
        if busy.contains_key(&job) {
            return None;
        }
        busy.insert(job, Doing::Deleting);
        Some(Busy { checkpoints: self.clone(), job })
    }

    /// No object goes as long as this is held.
    pub(super) async fn used(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.used).read_owned().await
    }

    /// What messages call the directory.
    fn name(&self) -> String {
        format!("checkpoints in '{}'", shown(self.storage.path()))
    }
}

/// What a manifest says of how to submit the job once more.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Resubmission {
    /// As it was asked for.
    pub(super) submission: Submission,
    /// The hashes of what was in the files that it has staged, hexadecimal, in the same order.
    #[serde(default)]
    pub(super) staged: Vec<String>,
}

impl Resubmission {
    pub(super) fn of(job: &Submitted) -> Self {
        Self { submission: job.submission.clone(), staged: job.staged.iter().map(ProgramId::to_string).collect() }
    }

    /// What that one says.
    pub(super) fn read(manifest: &Manifest) -> Result<Self, StorageError> {
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

impl Api {
    /// Does something with the directory of checkpoints, on a thread, and waits so long for it.
    pub(super) async fn stored<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce(&Storage) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, Refused> {
        let storage = Arc::clone(&self.checkpoints.storage);
        let done = self.files.work(&self.checkpoints.name(), patience, move || work(&storage)).await?;
        done.map_err(Refused::from)
    }
}

pub(super) async fn list(
    State(api): State<Api>,
    Query(query): Query<CheckpointsQuery>,
) -> Answered<Vec<CheckpointView>> {
    // Those that are whole by then are so.
    let draining = api.checkpoints.being_drained(query.job);
    let list = move |storage: &Storage| {
        let jobs = query.job.map_or_else(|| storage.jobs(), |job| Ok(vec![JobId(job)]))?;
        let mut views = Vec::new();
        for job in jobs {
            let manifests = storage.manifests(job)?;
            views.extend(manifests.into_iter().map(|(number, manifest)| view(storage, job, number, manifest)));
        }
        for view in draining {
            // Behind those of its job: it has the number that comes next.
            let at = views.partition_point(|other: &CheckpointView| other.checkpoint < view.checkpoint);
            if views.get(at).is_none_or(|other| other.checkpoint != view.checkpoint) {
                views.insert(at, view);
            }
        }
        Ok(views)
    };
    answer(api.stored(HOST_FILE_TIME_MAX, list).await)
}

fn view(storage: &Storage, job: JobId, number: u32, manifest: Result<Manifest, StorageError>) -> CheckpointView {
    let checkpoint = CheckpointName { job: job.0, number };
    let read = manifest.and_then(|manifest| Ok((Resubmission::read(&manifest)?.submission, manifest)));
    match read {
        Ok((submission, manifest)) => {
            let is_verified = storage.is_verified(job, number);
            let state = if is_verified { CheckpointState::Verified } else { CheckpointState::Drained };
            CheckpointView { state, ..view_of(checkpoint, &submission, &manifest) }
        }
        Err(error) => CheckpointView { damaged: Some(error.to_string()), ..CheckpointView::unknown(checkpoint) },
    }
}

/// What a manifest says of a checkpoint.
pub(super) fn view_of(checkpoint: CheckpointName, submission: &Submission, manifest: &Manifest) -> CheckpointView {
    CheckpointView {
        at_ns: manifest.time_ns,
        name: submission.name.clone(),
        arguments: submission.arguments.clone(),
        program: manifest.program.to_string(),
        ranks: manifest.ranks,
        ranks_per_node: manifest.ranks_per_node,
        pause_us: manifest.pause_us,
        pages: manifest.pages,
        bytes: manifest.bytes,
        ..CheckpointView::unknown(checkpoint)
    }
}

/// A job has none.
pub(super) fn no_checkpoints(job: JobId) -> Refused {
    Refused::missing(format!("job {job} has no checkpoints; `coppice checkpoint {job}` makes one while it runs"))
}
