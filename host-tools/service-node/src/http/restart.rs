//! Restarting: what a job was run with is found again, if it is the same.

use std::path::Path;

use axum::extract::State;
use coppice_api::checkpoint::{CheckpointName, RestartOrder, Restarted};
use coppice_api::job::Submission;
use coppice_api::shown;
use coppice_protocol::ids::JobId;
use coppice_storage::Manifest;

use super::jobs::{check, check_root_of, find};
use super::{Answered, Api, Bad, Missing, Number, OfJob, Order, Usual, answer};
use crate::checkpoints::{Resubmission, Runnable, prepare, submit};
use crate::controller::{Refused, Request};
use crate::database::FileKey;
use crate::limits::IMPORT_TIME_MAX;
use crate::store::{Found, Held, Kind};

/// Has a new job go on from a checkpoint of a job that has ended.
///
/// As one that is submitted, it must have its stream opened soon unless it is detached.
#[utoipa::path(
    post,
    path = "/v1/jobs/{job}/restart",
    tag = "checkpoints",
    operation_id = "restart",
    params(OfJob),
    request_body = RestartOrder,
    responses((status = 200, description = "The new job.", body = Restarted), Bad, Missing, Usual)
)]
pub(super) async fn restart(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Order(order): Order<RestartOrder>,
) -> Answered<Restarted> {
    // Both would have the same files open, and be taken for one another.
    if api.ask(|answer| Request::Submitted(JobId(job), answer)).await.is_ok() {
        return Err(Refused::conflict(&format!("job {job} still runs; end it first: coppice kill {job}")));
    }
    let prepared = prepare(&api, JobId(job), order).await?;
    answer(submit(api, prepared, None).await)
}

/// What a job can be run with once more.
pub(super) async fn runnable(
    api: &Api,
    manifest: &Manifest,
    again: &Resubmission,
    checkpoint: CheckpointName,
) -> Result<Runnable, Refused> {
    let Resubmission { submission, staged } = again;
    check(submission)?;
    check_root_of(api, submission).await?;
    let (program, file) = find_program(api, manifest, &submission.program, checkpoint).await?;
    let staged = find_staged(api, submission, staged, checkpoint).await?;
    Ok(Runnable { program, file, staged })
}

/// The program that a checkpoint is of: from the store, or else from its file if that is still the same.
async fn find_program(
    api: &Api,
    manifest: &Manifest,
    path: &Path,
    checkpoint: CheckpointName,
) -> Result<(Held, Option<FileKey>), Refused> {
    let program = manifest.program;
    if let Some(held) = api.ask(|answer| Request::Stored(program, answer)).await? {
        let (store, copy) = (api.store.clone(), held.clone());
        let what = format!("the stored copy of '{}'", shown(path));
        let found = api.files.work(&what, IMPORT_TIME_MAX, move || store.check(&copy)).await?;
        if matches!(found, Ok(Found::Sound)) {
            return Ok((held, None));
        }
    }
    let gone = |why: &str| {
        let (digits, path) = (program.to_string(), shown(path));
        let digits = digits.get(..12).unwrap_or(&digits);
        Refused::conflict(&format!(
            "cannot restart from {checkpoint}: its program, {digits}, is not stored any more, and '{path}' {why}"
        ))
    };
    match find(api, Kind::Program, path).await {
        Ok((held, file)) if held.id == program => Ok((held, Some(file))),
        Ok(_) => Err(gone("is another by now; put the one that ran there again")),
        Err(refused) => Err(gone(&format!("cannot be used ({})", refused.message))),
    }
}

/// The files that the job had staged, if they are still the same.
async fn find_staged(
    api: &Api,
    submission: &Submission,
    contents: &[String],
    checkpoint: CheckpointName,
) -> Result<Vec<Held>, Refused> {
    let mut staged = Vec::new();
    for (number, file) in submission.staged.iter().enumerate() {
        let held = find(api, Kind::Data, &file.file).await?.0;
        if contents.get(number) != Some(&held.id.to_string()) {
            return Err(Refused::conflict(&format!(
                "cannot restart from {checkpoint}: staged file '{}' is another by now; put the one that was staged \
                 there again",
                shown(&file.file)
            )));
        }
        staged.push(held);
    }
    Ok(staged)
}
