//! Making a checkpoint: a job's nodes are led through its steps, then asked until all they recorded is kept, and then
//! there is a manifest that says so.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use coppice_api::checkpoint::{CheckpointName, CheckpointReport};
use coppice_protocol::checkpoint::{Keeping, Part, PartOf, Saving};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::{Answer, Question};
use coppice_storage::{Manifest, ManifestPart, Storage, StorageError};

use super::checkpoints::Resubmission;
use super::leading::{Leader, new_leader, something_else, us};
use super::{Answered, Api, Number, answer, going_down};
use crate::controller::{Refused, Request, Submitted};
use crate::limits::{CHECKPOINT_TRIES, HOST_FILE_TIME_MAX, SAVING_ASK_INTERVAL, SAVING_SILENCE_MAX};
use crate::plant::CheckpointEvent;

/// Makes a checkpoint of a job.
pub(super) async fn checkpoint(State(api): State<Api>, Number(job): Number<u64>) -> Answered<CheckpointReport> {
    let job = JobId(job);
    let making = api.checkpoints.make(job)?;
    // Whoever asked for it may go: nodes are not to wait for the next step then.
    let leading = tokio::spawn(async move {
        let made = make(&api, job).await;
        drop(making);
        made
    });
    answer(leading.await.map_err(|_| going_down())?)
}

/// Makes one, unless ranks leave a barrier whenever that is tried.
pub(super) async fn make(api: &Api, job: JobId) -> Result<CheckpointReport, Refused> {
    // What is kept is nobody's until there is the manifest.
    let _used = api.checkpoints.used().await;
    for _ in 0..CHECKPOINT_TRIES {
        if let Some(report) = attempt(api, job).await? {
            api.say(job, CheckpointEvent::Made(report.checkpoint)).await;
            return Ok(report);
        }
    }
    Err(Refused::conflict(&format!("ranks of job {job} were leaving a barrier; try again")))
}

/// Makes one, unless some ranks have left a barrier that others still have to leave.
async fn attempt(api: &Api, job: JobId) -> Result<Option<CheckpointReport>, Refused> {
    let submitted = api.ask(|answer| Request::Submitted(job, answer)).await?;
    let ranks = api.ask(|answer| Request::NodesOf(job, answer)).await?;
    let leader = Leader { api: api.clone(), job, by: new_leader(job), ranks };
    let (begun, since_1970) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let steps = leader.lead(&Step::of_checkpoint(Keeping::default())).await?;
    let (pause_us, resumed) = (us(begun.elapsed()), Instant::now());
    let saved = match saved(&leader).await {
        Ok(saved) => saved,
        Err(refused) => {
            // Those that still keep something do so for nobody.
            leader.give_up().await;
            let message = format!("no checkpoint of job {job} was made: {}", refused.message);
            return Err(Refused { message, ..refused });
        }
    };
    let Some(barriers) = same_barriers(&saved) else { return Ok(None) };
    let sum = |of: fn(&Saving) -> u64| saved.iter().map(of).fold(0_u64, u64::saturating_add);
    let (pages, bytes) = (sum(|saving| saving.pages.0), sum(|saving| saving.bytes));
    let drain_ms = us(resumed.elapsed()) / 1000;
    let Submitted { submission, program, .. } = &submitted;
    let manifest = Manifest {
        version: Manifest::VERSION,
        job,
        number: 0,
        time_ns: u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX),
        submission: serde_json::to_value(Resubmission::of(&submitted)).map_err(|error| Refused {
            status: 500,
            message: format!("what job {job} was submitted with cannot be written: {error}"),
        })?,
        program: program.id,
        program_bytes: program.bytes,
        ranks: submission.ranks,
        ranks_per_node: submission.ranks_per_node,
        barriers,
        pause_us,
        pages,
        bytes,
        parts: all_parts(&saved, submission.ranks, submission.nodes_wanted())?,
    };
    let number = api.stored(HOST_FILE_TIME_MAX, move |storage| write(storage, manifest)).await?;
    let checkpoint = CheckpointName { job: job.0, number };
    tracing::info!(%checkpoint, pause_us, pages, bytes, drain_ms, "checkpoint made");
    let nodes = leader.ranks.len() as u32;
    Ok(Some(CheckpointReport { checkpoint, nodes, steps, pause_us, pages, bytes, drain_ms }))
}

/// Waits until all nodes have kept what they recorded.
async fn saved(leader: &Leader) -> Result<Vec<Saving>, Refused> {
    let mut savings: Vec<(Rank, Saving)> = leader.ranks.iter().map(|rank| (*rank, Saving::default())).collect();
    let (mut furthest, mut since) = (0, Instant::now());
    loop {
        let is_open = |(_, saving): &&mut (Rank, Saving)| saving.parts.is_none();
        let open: Vec<&mut (Rank, Saving)> = savings.iter_mut().filter(is_open).collect();
        if open.is_empty() {
            return Ok(savings.into_iter().map(|(_, saving)| saving).collect());
        }
        let answers = leader.ask_all(open.iter().map(|(rank, _)| *rank), &Question::Saving).await;
        for ((_, saving), answered) in open.into_iter().zip(answers) {
            match answered {
                Ok(Answer::Saving(said)) => *saving = said,
                // It answers others at this moment.
                Ok(Answer::NotTold(_)) | Err(Refused { status: 503, .. }) => {}
                Ok(_) => return Err(something_else()),
                Err(refused) => return Err(refused),
            }
            if let Some(why) = &saving.failed {
                return Err(Refused::conflict(why));
            }
        }
        let done = |(_, saving): &(Rank, Saving)| {
            let over = u64::from(saving.parts.is_some());
            saving.pages.0.saturating_add(saving.bytes).saturating_add(over)
        };
        let far = savings.iter().map(done).fold(0_u64, u64::saturating_add);
        if far > furthest {
            (furthest, since) = (far, Instant::now());
        } else if since.elapsed() > SAVING_SILENCE_MAX {
            let seconds = SAVING_SILENCE_MAX.as_secs();
            return Err(Refused::conflict(&format!(
                "its nodes have kept nothing more for {seconds} s; is what the checkpoints lie on still there?"
            )));
        }
        tokio::time::sleep(SAVING_ASK_INTERVAL).await;
    }
}

/// The barriers that all nodes have left, if they are the same.
fn same_barriers(saved: &[Saving]) -> Option<u64> {
    let first = saved.first()?.barriers;
    saved.iter().all(|saving| saving.barriers == first).then_some(first)
}

/// The parts that nodes have said, in order, if they are one for each rank and each node.
fn all_parts(saved: &[Saving], ranks: u32, nodes: u32) -> Result<Vec<ManifestPart>, Refused> {
    let said = saved.iter().flat_map(|saving| saving.parts.iter().flatten());
    let parts: BTreeMap<PartOf, Part> = said.clone().map(|part| (part.of, *part)).collect();
    let wanted = (0..ranks).map(|rank| PartOf::Rank(Rank(rank))).chain((0..nodes).map(PartOf::Node));
    // In the order of both.
    if said.count() != parts.len() || !wanted.eq(parts.keys().copied()) {
        return Err(something_else());
    }
    Ok(parts.into_values().map(ManifestPart::from).collect())
}

/// Writes a manifest with the next number of its job.
fn write(storage: &Storage, manifest: Manifest) -> Result<u32, StorageError> {
    let last = storage.manifests(manifest.job)?.last().map_or(0, |(number, _)| *number);
    let number = last.saturating_add(1);
    storage.write_manifest(&Manifest { number, ..manifest })?;
    Ok(number)
}
