//! Checkpoints all of which is read, and held against what was written.

use axum::Json;
use axum::extract::State;
use coppice_api::checkpoint::{CheckpointChoice, CheckpointName, Verified};
use coppice_protocol::ids::JobId;
use coppice_storage::{Storage, StorageError};

use super::{Answered, Api, Bad, Missing, Order, Usual};
use crate::checkpoints::{Around, no_checkpoints, verify_and_note};
use crate::controller::Refused;
use crate::limits::{HOST_FILE_TIME_MAX, STORAGE_TIME_MAX};

/// Reads all of a checkpoint, or of all of a job, and holds it against what was written.
#[utoipa::path(
    post,
    path = "/v1/checkpoints/verify",
    tag = "checkpoints",
    operation_id = "verify_checkpoints",
    request_body = CheckpointChoice,
    responses((status = 200, description = "What came of it.", body = Verified), Bad, Missing, Usual)
)]
pub(super) async fn verify(
    State(api): State<Api>,
    Order(CheckpointChoice { job, number }): Order<CheckpointChoice>,
) -> Answered<Verified> {
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
