//! Restarting: a new job is submitted as the old one was, its ranks are made from the parts of a checkpoint, and when
//! all of them are there its nodes are led through the rest of the cut.

use std::collections::BTreeMap;
use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use coppice_api::checkpoint::{CheckpointName, RestartOrder, Restarted};
use coppice_api::job::Submission;
use coppice_api::shown;
use coppice_protocol::checkpoint::{Listing, ObjectId, Part, PartOf};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_storage::{Manifest, Storage, StorageError};
use tokio::sync::OwnedRwLockReadGuard;

use super::checkpoints::{Resubmission, no_checkpoints};
use super::jobs::{check, check_root, find};
use super::leading::{Leader, new_leader};
use super::verifying::verify_and_note;
use super::{Answered, Api, Number, answer};
use crate::controller::{Refused, Request, Restart, Restoring};
use crate::database::FileKey;
use crate::limits::{HOST_FILE_TIME_MAX, IMPORT_TIME_MAX, STORAGE_TIME_MAX};
use crate::store::{Found, Held, Kind};

/// Has a new job go on from a checkpoint of a job.
pub(super) async fn restart(
    State(api): State<Api>,
    Number(job): Number<u64>,
    order: Result<Json<RestartOrder>, JsonRejection>,
) -> Answered<Restarted> {
    let Json(order) = order.map_err(|error| Refused::bad(error.body_text()))?;
    // Both would have the same files open, and be taken for one another.
    if api.ask(|answer| Request::Submitted(JobId(job), answer)).await.is_ok() {
        return Err(Refused::conflict(&format!("job {job} still runs; end it first: coppice kill {job}")));
    }
    let prepared = prepare(&api, JobId(job), order).await?;
    answer(submit(api, prepared, None).await)
}

/// A job that can go on from a checkpoint.
pub(super) struct Prepared {
    restart: Restart,
    checkpoint: CheckpointName,
    /// What it is made from stays, also if the checkpoint is deleted meanwhile.
    used: OwnedRwLockReadGuard<()>,
}

/// Looks whether a job can go on from a checkpoint.
pub(super) async fn prepare(api: &Api, job: JobId, order: RestartOrder) -> Result<Prepared, Refused> {
    let used = api.checkpoints.used().await;
    let manifest = find_manifest(api, job, order.checkpoint).await?;
    let checkpoint = CheckpointName { job: job.0, number: manifest.number };
    let manifest = look(api, manifest, order.verify).await?;
    let Resubmission { submission, staged } = Resubmission::read(&manifest)?;
    let keep_files = order.keep_files;
    let submission = changed(submission, order, checkpoint);
    check(&submission)?;
    let root = submission.root.clone();
    let what = format!("root '{}'", shown(&root));
    api.files.work(&what, HOST_FILE_TIME_MAX, move || check_root(&root)).await??;
    let (program, file) = find_program(api, &manifest, &submission.program, checkpoint).await?;
    let staged = find_staged(api, &submission, &staged, checkpoint).await?;
    let restore = restoring(&manifest, new_leader(job), keep_files);
    let restart = Restart { submission, program, file, staged, restore, continues: None };
    Ok(Prepared { restart, checkpoint, used })
}

/// Has it go on, also in the place of a job that has lost a node.
pub(super) async fn submit(api: Api, prepared: Prepared, continues: Option<JobId>) -> Result<Restarted, Refused> {
    let Prepared { restart, checkpoint, used } = prepared;
    let expected = api.connections.expect_job()?;
    let (is_detached, reads_input) = (restart.submission.detached, restart.submission.input_rank.is_some());
    let by = restart.restore.by;
    let restart = Box::new(Restart { continues, ..restart });
    let new = api.ask(|answer| Request::Restart(restart, answer)).await?;
    if !is_detached {
        expected.until_attached(new);
    }
    tokio::spawn(async move {
        lead(api, new, by).await;
        drop(used);
    });
    Ok(Restarted { job: new.0, checkpoint, reads_input })
}

/// Leads the nodes of a job through what is left of the cut when all of its ranks are made.
async fn lead(api: Api, job: JobId, by: u64) {
    // If it ends before there is nobody to be led.
    let Ok(places) = api.ask(|answer| Request::Running(job, answer)).await else { return };
    let leader = Leader { api, job, by, places };
    match leader.lead(&Step::OF_RESTART).await {
        Ok(steps) => tracing::info!(job = job.0, ?steps, "goes on from its checkpoint"),
        Err(refused) => {
            tracing::warn!(job = job.0, why = refused.message, "goes on from its checkpoint without being led");
        }
    }
}

/// The checkpoint that is wanted, or else the newest.
async fn find_manifest(api: &Api, job: JobId, number: Option<u32>) -> Result<Manifest, Refused> {
    let find = move |storage: &Storage| match number {
        Some(number) => storage.manifest(job, number).map(Some),
        None => storage.manifests(job)?.pop().map(|(_, manifest)| manifest).transpose(),
    };
    api.stored(HOST_FILE_TIME_MAX, find).await?.ok_or_else(|| no_checkpoints(job))
}

/// Looks whether all parts of a checkpoint are there, or reads all that is in it.
async fn look(api: &Api, manifest: Manifest, verify: bool) -> Result<Manifest, Refused> {
    let look = move |storage: &Storage| {
        if verify {
            verify_and_note(storage, &manifest)?;
        } else {
            manifest.parts.iter().try_for_each(|part| check_listings(storage, part.object))?;
        }
        Ok(manifest)
    };
    api.stored(STORAGE_TIME_MAX, look).await
}

/// Whether the lists of a part are there. What they list is looked at by whoever reads it.
fn check_listings(storage: &Storage, object: ObjectId) -> Result<(), StorageError> {
    let mut next = Some(object);
    while let Some(id) = next {
        next = Listing::read(&storage.get(id)?).map_err(|_| StorageError::NoListing(id))?.next;
    }
    Ok(())
}

/// The job as it is to be submitted now.
fn changed(submission: Submission, order: RestartOrder, checkpoint: CheckpointName) -> Submission {
    Submission {
        nodes: order.nodes,
        input_rank: submission.input_rank.filter(|_| !order.detached),
        timeout_ms: order.timeout_ms.or(submission.timeout_ms),
        checkpoint_policy: order.checkpoint_policy.or(submission.checkpoint_policy),
        detached: order.detached,
        keep_output: order.keep_output,
        core_file: order.core_file,
        traced: false,
        restarted_from: Some(checkpoint),
        ..submission
    }
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

/// The parts by what they are of.
fn restoring(manifest: &Manifest, by: u64, keep_files: bool) -> Restoring {
    let (mut ranks, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    for Part { of, object } in manifest.parts.iter().copied().map(Part::from) {
        match of {
            PartOf::Rank(rank) => ranks.insert(rank, object),
            PartOf::Node(node) => nodes.insert(node, object),
        };
    }
    // Up to the first that is missing; that there are too few is refused when the job is submitted.
    let ranks = (0..).map_while(|rank| ranks.get(&Rank(rank)).copied()).collect();
    let nodes = (0..).map_while(|node| nodes.get(&node).copied()).collect();
    Restoring { by, keep_files, ranks, nodes }
}
