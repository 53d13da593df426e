//! Checkpoints all of which is read, and held against what was written.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use coppice_api::checkpoint::{CheckpointChoice, CheckpointName, Verified};
use coppice_protocol::ids::JobId;
use coppice_storage::{Storage, StorageError};

use super::{Answered, Api};
use crate::checkpoints::{Around, no_checkpoints, verify_and_note};
use crate::controller::Refused;
use crate::limits::{HOST_FILE_TIME_MAX, STORAGE_TIME_MAX};

/// Verifies a checkpoint, or all of a job.
pub(super) async fn verify(
    State(api): State<Api>,
    which: Result<Json<CheckpointChoice>, JsonRejection>,
) -> Answered<Verified> {
    let Json(CheckpointChoice { job, number }) = which.map_err(|error| Refused::bad(error.body_text()))?;
    let of = JobId(job);
    // Nothing goes meanwhile.
    let _used = api.checkpoints.used().await;
    let find = move |storage: &Storage| match number {
        // If there is none, that is no damage.
        Some(number) => match storage.manifest(of, number) {
            Err(error @ StorageError::NoManifest { .. }) => Err(error),
            manifest => Ok(vec![(number, manifest)]),
        },
        None => storage.manifests(of),
    };
    let manifests = api.stored(HOST_FILE_TIME_MAX, find).await?;
    if manifests.is_empty() {
        return Err(no_checkpoints(of));
    }
    let mut verified = Verified::default();
    for (number, manifest) in manifests {
        let look = move |storage: &Storage| verify_and_note(storage, &manifest?);
        match api.stored(STORAGE_TIME_MAX, look).await {
            Ok(()) => verified.checkpoints.push(CheckpointName { job, number }),
            Err(Refused { status: 409, message }) => verified.damaged.push(message),
            Err(refused) => return Err(refused),
        }
    }
    Ok(Json(verified))
}
