//! The checkpoints that there are: listed, deleted, and who uses them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use coppice_api::checkpoint::{CheckpointChoice, CheckpointName, CheckpointView, CheckpointsQuery, Deleted};
use coppice_api::job::Submission;
use coppice_api::{counted, shown};
use coppice_protocol::ids::{JobId, ProgramId};
use coppice_storage::{Collected, Manifest, Storage, StorageError};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use super::{Answered, Api, answer};
use crate::controller::{Refused, Submitted};
use crate::limits::{CHECKPOINTS_MAX, HOST_FILE_TIME_MAX, STORAGE_TIME_MAX};

/// The directory of checkpoints, and who does something with it.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    pub(super) storage: Arc<Storage>,
    /// Held by all for whom objects must stay that no manifest reaches, or not any more.
    used: Arc<RwLock<()>>,
    /// Jobs of which one is being made.
    making: Arc<Mutex<BTreeSet<JobId>>>,
}

/// One is being made, until this is dropped.
#[derive(Debug)]
pub(super) struct Making {
    checkpoints: Checkpoints,
    job: JobId,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.checkpoints.making.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.job);
    }
}

impl Checkpoints {
    pub(super) fn new(storage: Arc<Storage>) -> Self {
        Self { storage, used: Arc::default(), making: Arc::default() }
    }

    /// One of a job is to be made.
    pub(super) fn make(&self, job: JobId) -> Result<Making, Refused> {
        let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if making.contains(&job) {
            return Err(Refused::conflict(&format!("a checkpoint of job {job} is being made already; wait for it")));
        }
        if making.len() >= CHECKPOINTS_MAX {
            let others = counted(making.len(), "other job");
            return Err(Refused::busy(&format!("checkpoints of {others} are being made; try again when one is done")));
        }
        making.insert(job);
        Ok(Making { checkpoints: self.clone(), job })
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
    let list = move |storage: &Storage| {
        let jobs = query.job.map_or_else(|| storage.jobs(), |job| Ok(vec![JobId(job)]))?;
        let mut views = Vec::new();
        for job in jobs {
            let manifests = storage.manifests(job)?;
            views.extend(manifests.into_iter().map(|(number, manifest)| view(job, number, manifest)));
        }
        Ok(views)
    };
    answer(api.stored(HOST_FILE_TIME_MAX, list).await)
}

fn view(job: JobId, number: u32, manifest: Result<Manifest, StorageError>) -> CheckpointView {
    let checkpoint = CheckpointName { job: job.0, number };
    let read = manifest.and_then(|manifest| Ok((Resubmission::read(&manifest)?.submission, manifest)));
    match read {
        Ok((submission, manifest)) => CheckpointView {
            checkpoint,
            at_ns: manifest.time_ns,
            name: submission.name,
            arguments: submission.arguments,
            program: manifest.program.to_string(),
            ranks: manifest.ranks,
            ranks_per_node: manifest.ranks_per_node,
            pause_us: manifest.pause_us,
            pages: manifest.pages,
            bytes: manifest.bytes,
            damaged: None,
        },
        Err(error) => CheckpointView { damaged: Some(error.to_string()), ..CheckpointView::unknown(checkpoint) },
    }
}

/// Deletes checkpoints, and gives the room back that they alone took.
pub(super) async fn delete(
    State(api): State<Api>,
    which: Result<Json<CheckpointChoice>, JsonRejection>,
) -> Answered<Deleted> {
    let Json(CheckpointChoice { job, number }) = which.map_err(|error| Refused::bad(error.body_text()))?;
    let of = JobId(job);
    let numbers = match number {
        Some(number) => vec![number],
        None => {
            let manifests = api.stored(HOST_FILE_TIME_MAX, move |storage| storage.manifests(of)).await?;
            manifests.into_iter().map(|(number, _)| number).collect()
        }
    };
    if numbers.is_empty() {
        return Err(no_checkpoints(of));
    }
    let checkpoints = numbers.iter().map(|number| CheckpointName { job, number: *number }).collect();
    let delete = move |storage: &Storage| numbers.iter().try_for_each(|number| storage.delete(of, *number));
    api.stored(HOST_FILE_TIME_MAX, delete).await?;
    let deleted = match collect(&api).await {
        Ok(Collected { bytes, .. }) => Deleted { checkpoints, bytes, kept: None },
        Err(refused) => Deleted { checkpoints, bytes: 0, kept: Some(refused.message) },
    };
    Ok(Json(deleted))
}

/// Removes what no checkpoint has any more, unless somebody still needs it.
pub(super) async fn collect(api: &Api) -> Result<Collected, Refused> {
    let Ok(alone) = Arc::clone(&api.checkpoints.used).try_write_owned() else {
        let later = "others are being made or restarted from; it is given back with the next that is deleted";
        return Err(Refused::conflict(later));
    };
    let collect = move |storage: &Storage| {
        let collected = storage.collect();
        drop(alone);
        collected
    };
    api.stored(STORAGE_TIME_MAX, collect).await
}

/// A job has none.
pub(super) fn no_checkpoints(job: JobId) -> Refused {
    Refused::missing(format!("job {job} has no checkpoints; `coppice checkpoint {job}` makes one while it runs"))
}
