//! Restarting: a new job is submitted as the old one was, its ranks are made from the parts of a checkpoint, and when
//! all of them are there its nodes are led through the rest of the cut.

use std::collections::BTreeMap;

use coppice_api::checkpoint::{CheckpointName, RestartOrder, Restarted};
use coppice_api::job::Submission;
use coppice_protocol::checkpoint::{Listing, ObjectId, Part, PartOf};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_storage::{Manifest, Storage, StorageError};
use tokio::sync::OwnedRwLockReadGuard;

use super::leading::Leader;
use super::{Around, Resubmission};
use crate::controller::{Refused, Request, Restart, Restoring};
use crate::database::FileKey;
use crate::limits::{HOST_FILE_TIME_MAX, STORAGE_TIME_MAX};
use crate::store::Held;

/// A job that can go on from a checkpoint.
#[derive(Debug)]
pub struct Prepared {
    restart: Restart,
    checkpoint: CheckpointName,
    /// What it is made from stays, also if the checkpoint is deleted meanwhile.
    used: OwnedRwLockReadGuard<()>,
}

/// What a job can be run with, as its checkpoint wants it.
#[derive(Debug)]
pub struct Runnable {
    /// The program.
    pub program: Held,
    /// The file that is in, if that is known.
    pub file: Option<FileKey>,
    /// The files that it has staged.
    pub staged: Vec<Held>,
}

/// Looks whether a job can go on from a checkpoint.
///
/// # Errors
/// It cannot.
pub async fn prepare(around: &impl Around, job: JobId, order: RestartOrder) -> Result<Prepared, Refused> {
    let used = around.checkpoints().used().await;
    let manifest = find_manifest(around, job, order.checkpoint).await?;
    let checkpoint = CheckpointName { job: job.0, number: manifest.number };
    let manifest = look(around, manifest, order.verify).await?;
    let Resubmission { submission, staged } = Resubmission::read(&manifest)?;
    let keep_files = order.keep_files;
    let again = Resubmission { submission: changed(submission, order, checkpoint), staged };
    let Runnable { program, file, staged } = around.runnable(&manifest, &again, checkpoint).await?;
    let restore = restoring(&manifest, around.new_leader(job), keep_files);
    let restart = Restart { submission: again.submission, program, file, staged, restore, continues: None };
    Ok(Prepared { restart, checkpoint, used })
}

/// Has it go on, also in the place of a job that has lost a node.
///
/// # Errors
/// It cannot.
pub async fn submit(around: impl Around, prepared: Prepared, continues: Option<JobId>) -> Result<Restarted, Refused> {
    let Prepared { restart, checkpoint, used } = prepared;
    let reads_input = restart.submission.input_rank.is_some();
    let by = restart.restore.by;
    let new = around.restart(Box::new(Restart { continues, ..restart })).await?;
    let led = around.clone();
    around.spawn(async move {
        lead(led, new, by).await;
        drop(used);
    });
    Ok(Restarted { job: new.0, checkpoint, reads_input })
}

/// Leads the nodes of a job through what is left of the cut when all of its ranks are made.
async fn lead(around: impl Around, job: JobId, by: u64) {
    // If it ends before there is nobody to be led.
    let Ok(places) = around.ask(|answer| Request::Running(job, answer)).await else { return };
    let leader = Leader { around, job, by, places };
    match leader.lead(&Step::OF_RESTART).await {
        Ok(steps) => tracing::info!(job = job.0, ?steps, "goes on from its checkpoint"),
        Err(refused) => {
            tracing::warn!(job = job.0, why = refused.message, "goes on from its checkpoint without being led");
        }
    }
}

/// The checkpoint that is wanted, or else the newest.
async fn find_manifest(around: &impl Around, job: JobId, number: Option<u32>) -> Result<Manifest, Refused> {
    let find = move |storage: &Storage| match number {
        Some(number) => storage.manifest(job, number).map(Some),
        None => storage.manifests(job)?.pop().map(|(_, manifest)| manifest).transpose(),
    };
    around.stored(HOST_FILE_TIME_MAX, find).await?.ok_or_else(|| no_checkpoints(job))
}

/// Looks whether all parts of a checkpoint are there, or reads all that is in it.
async fn look(around: &impl Around, manifest: Manifest, verify: bool) -> Result<Manifest, Refused> {
    let look = move |storage: &Storage| {
        if verify {
            verify_and_note(storage, &manifest)?;
        } else {
            manifest.parts.iter().try_for_each(|part| check_listings(storage, part.object))?;
        }
        Ok(manifest)
    };
    around.stored(STORAGE_TIME_MAX, look).await
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

/// Reads all of a checkpoint, and notes that it is what was written.
pub(crate) fn verify_and_note(storage: &Storage, manifest: &Manifest) -> Result<(), StorageError> {
    storage.verify(manifest)?;
    if let Err(error) = storage.note_verified(manifest) {
        // It is so all the same.
        tracing::warn!(job = manifest.job.0, number = manifest.number, %error, "not noted that it is verified");
    }
    Ok(())
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

/// A job has none.
pub(crate) fn no_checkpoints(job: JobId) -> Refused {
    Refused::missing(format!("job {job} has no checkpoints; `coppice checkpoint {job}` makes one while it runs"))
}
