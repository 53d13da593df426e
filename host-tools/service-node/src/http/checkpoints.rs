//! The checkpoints that there are, listed.

use axum::extract::State;
use coppice_api::checkpoint::{CheckpointName, CheckpointState, CheckpointView, CheckpointsQuery};
use coppice_protocol::ids::JobId;
use coppice_storage::{Manifest, Storage, StorageError};

use super::{Answered, Api, Bad, Parameters, Usual, answer};
use crate::checkpoints::{Around, Resubmission, view_of};
use crate::limits::HOST_FILE_TIME_MAX;

/// The checkpoints that there are, by job and number.
#[utoipa::path(
    get,
    path = "/v1/checkpoints",
    tag = "checkpoints",
    operation_id = "checkpoints",
    params(CheckpointsQuery),
    responses((status = 200, description = "The checkpoints.", body = Vec<CheckpointView>), Bad, Usual)
)]
pub(super) async fn list(
    State(api): State<Api>,
    Parameters(query): Parameters<CheckpointsQuery>,
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
