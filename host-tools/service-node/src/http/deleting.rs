//! Checkpoints that are deleted, in the storage and in regions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use coppice_api::checkpoint::{CheckpointChoice, CheckpointName, Deleted};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_storage::{Collected, Storage};

use super::checkpoints::no_checkpoints;
use super::{Answered, Api};
use crate::controller::{Refused, Request};
use crate::limits::{HOST_FILE_TIME_MAX, STORAGE_TIME_MAX};
use crate::plant::CheckpointEvent;

/// Deletes checkpoints, and gives the room back that they alone took.
pub(super) async fn delete(
    State(api): State<Api>,
    which: Result<Json<CheckpointChoice>, JsonRejection>,
) -> Answered<Deleted> {
    let Json(CheckpointChoice { job, number }) = which.map_err(|error| Refused::bad(error.body_text()))?;
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
    let not_wiped = if is_newest { wipe(&api, of).await } else { None };
    let (bytes, kept) = match collect(&api).await {
        Ok(Collected { bytes, .. }) => (bytes, None),
        Err(refused) => (0, Some(refused.message)),
    };
    Ok(Json(Deleted { checkpoints, bytes, kept, not_wiped }))
}

/// Has what nodes have of a job in their regions wiped, as its newest checkpoint is deleted, which alone lies there.
/// Says in one line what may be left.
async fn wipe(api: &Api, job: JobId) -> Option<String> {
    // Whoever makes one now has all others wiped when that is done, well or not.
    let _deleting = api.checkpoints.delete(job)?;
    // It may lie on any of them: the job, or one that it went on as, may be anywhere by now.
    match api.ask(Request::Nodes).await {
        Ok(nodes) => {
            let nodes = nodes.into_iter().map(|view| (NodeId(view.node), None));
            api.wipe(nodes, Some(job)).await.failed().await
        }
        Err(refused) => Some(refused.message),
    }
}

/// Removes what no checkpoint has any more, unless somebody still needs it.
pub(super) async fn collect(api: &Api) -> Result<Collected, Refused> {
    let Ok(alone) = Arc::clone(&api.checkpoints.used).try_write_owned() else {
        let later = "others are being made or restarted from; it is given back with the next that is deleted";
        return Err(Refused::conflict(later));
    };
    let collect = move |storage: &Storage| {
        // Nobody puts anything there now: what is half-written is of I/O nodes that were killed.
        let collected = storage.sweep().and_then(|_| storage.collect());
        drop(alone);
        collected
    };
    api.stored(STORAGE_TIME_MAX, collect).await
}
