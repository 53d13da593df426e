//! Checkpoints that are deleted, in the storage and in regions.

use axum::Json;
use axum::extract::State;
use coppice_api::checkpoint::{CheckpointChoice, CheckpointName, Deleted};
use coppice_protocol::ids::JobId;
use coppice_storage::{Collected, Storage};

use super::{Answered, Api, Bad, Missing, Order, Usual};
use crate::checkpoints::{Around, collect, no_checkpoints, wipe_job};
use crate::limits::HOST_FILE_TIME_MAX;
use crate::plant::CheckpointEvent;

/// Deletes a checkpoint, or all of a job, and gives the room back that they alone took.
#[utoipa::path(
    post,
    path = "/v1/checkpoints/delete",
    tag = "checkpoints",
    operation_id = "delete_checkpoints",
    request_body = CheckpointChoice,
    responses((status = 200, description = "What was deleted.", body = Deleted), Bad, Missing, Usual)
)]
pub(super) async fn delete(
    State(api): State<Api>,
    Order(CheckpointChoice { job, number }): Order<CheckpointChoice>,
) -> Answered<Deleted> {
    let of = JobId(job);
    let manifests = api.stored(HOST_FILE_TIME_MAX, move |storage| storage.manifests(of)).await?;
    let all: Vec<u32> = manifests.into_iter().map(|(number, _)| number).collect();
    let newest = all.last().copied();
    let numbers = number.map_or(all, |number| vec![number]);
    if numbers.is_empty() {
        return Err(no_checkpoints(of));
    }
    let is_newest = numbers.last().copied() == newest;
    let checkpoints: Vec<_> = numbers.iter().map(|number| CheckpointName { job, number: *number }).collect();
    let delete = move |storage: &Storage| numbers.iter().try_for_each(|number| storage.delete(of, *number));
    api.stored(HOST_FILE_TIME_MAX, delete).await?;
    for checkpoint in &checkpoints {
        api.say(of, CheckpointEvent::Deleted(*checkpoint)).await;
    }
    let not_wiped = if is_newest { wipe_job(&api, of).await } else { None };
    let (bytes, kept) = match collect(&api).await {
        Ok(Collected { bytes, .. }) => (bytes, None),
        Err(refused) => (0, Some(refused.message)),
    };
    Ok(Json(Deleted { checkpoints, bytes, kept, not_wiped }))
}
