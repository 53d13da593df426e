//! Making a checkpoint: a job's nodes are led through its steps, and asked until all they recorded is kept; what lies
//! in their regions then is drained into the storage, and then there is a manifest that says so.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coppice_api::checkpoint::{
    CheckpointCost, CheckpointMode, CheckpointName, CheckpointReport, CheckpointView, MakeOrder,
};
use coppice_api::cut::CutStep;
use coppice_api::job::Submission;
use coppice_protocol::checkpoint::{Keeping, Part, PartOf, Saving};
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::region::SlotKey;
use coppice_storage::{Manifest, ManifestPart, Storage, StorageError};

use super::keeping::{Kept, kept};
use super::leading::{Leader, something_else, us};
use super::regions::{Pull, pull, wipe};
use super::{Around, Resubmission};
use crate::controller::{Newest, Place, Refused, Request, Submitted};
use crate::limits::{CHECKPOINT_TRIES, COPYING_SILENCE_MAX, HOST_FILE_TIME_MAX, SAVING_SILENCE_MAX};
use crate::plant::CheckpointEvent;

/// Makes one of a job, unless ranks leave a barrier whenever that is tried. Nobody else makes one of it meanwhile
/// ([`super::Checkpoints::make`]).
///
/// # Errors
/// There is none, for that reason.
pub async fn make(around: &impl Around, job: JobId, order: MakeOrder) -> Result<CheckpointReport, Refused> {
    // What is kept is nobody's until there is the manifest, nor is what it goes on from.
    let _used = around.checkpoints().used().await;
    let submitted = around.ask(|answer| Request::Submitted(job, answer)).await?;
    if submitted.has_family {
        return Err(Refused::conflict(&format!(
            "job {job} has started others, or was started by one: of such jobs no checkpoint can be made"
        )));
    }
    let places = around.ask(|answer| Request::NodesOf(job, answer)).await?;
    let newest = match submitted.newest.clone() {
        Some(newest) if is_there(around, newest.checkpoint).await => Some(newest),
        _ => None,
    };
    let slots = newest.as_ref().map(|newest| newest.slots.clone()).unwrap_or_default();
    let since = newest.as_ref().filter(|newest| newest.is_base).map(|newest| newest.by);
    let mut result = Err(Refused::conflict(&format!("ranks of job {job} were leaving a barrier; try again")));
    for _ in 0..CHECKPOINT_TRIES {
        let not_wiped = wipe(around, but(&places, &slots), None).await.failed().await;
        if let Some(why) = &not_wiped {
            // They may be, later, with whatever is there by then.
            tracing::warn!(job = job.0, why, "a checkpoint is not to lie in regions");
        }
        let leader = Leader { around: around.clone(), job, by: around.new_leader(job), places: places.clone() };
        let keeping = Keeping { since, copy: order.copied(), elsewhere: not_wiped.is_some() };
        match attempt(&leader, &submitted, keeping).await {
            Ok(None) => {}
            Ok(Some((report, newest))) => {
                wipe(around, but(&places, &newest.slots), Some(job)).await.in_background(around, job);
                around.say(job, CheckpointEvent::Made(newest, report.cost)).await;
                return Ok(report);
            }
            Err(refused) => {
                result = Err(refused);
                if since.is_some() {
                    around.say(job, CheckpointEvent::NoBase).await;
                }
                break;
            }
        }
    }
    // Of this one nothing is needed any more. The newest may be deleted by now, and was left to us.
    let stays = match newest {
        Some(newest) if is_there(around, newest.checkpoint).await => newest.slots,
        _ => BTreeMap::new(),
    };
    wipe(around, but(&places, &stays), Some(job)).await.in_background(around, job);
    result
}

/// Nodes, and what stays in their regions.
fn but(places: &[Place], slots: &BTreeMap<NodeId, SlotKey>) -> Vec<(NodeId, Option<SlotKey>)> {
    places.iter().map(|place| (place.node, slots.get(&place.node).copied())).collect()
}

/// Whether that checkpoint is there yet.
async fn is_there(around: &impl Around, CheckpointName { job, number }: CheckpointName) -> bool {
    around.stored(HOST_FILE_TIME_MAX, move |storage| storage.manifest(JobId(job), number)).await.is_ok()
}

/// Makes one, unless some ranks have left a barrier that others still have to leave.
async fn attempt(
    leader: &Leader<impl Around>,
    submitted: &Submitted,
    keeping: Keeping,
) -> Result<Option<(CheckpointReport, Newest)>, Refused> {
    let around = &leader.around;
    let (begun, since_1970) = (around.now(), around.since_1970());
    let (steps, pause, all) = cut(leader, keeping, begun).await?;
    let local_ms = ms(around.now() - begun);
    let savings = || all.iter().map(|(_, saving)| saving);
    let Some(barriers) = same_barriers(savings()) else { return Ok(None) };
    let sum = |of: fn(&Saving) -> u64| savings().map(of).fold(0_u64, u64::saturating_add);
    let cost = CheckpointCost {
        pause_us: us(pause),
        pages: sum(|saving| saving.pages.0),
        bytes: sum(|saving| saving.bytes),
        local_ms,
        drain_ms: 0,
        hash_ms: None,
    };
    let slots = all.iter().filter_map(|(place, saving)| Some((place.node, saving.local?))).collect();
    let time_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
    let manifest = manifest(leader.job, submitted, Moment { time_ns, barriers }, cost)?;
    let (checkpoint, hash_ns) =
        drain(leader, submitted, manifest, all).await.map_err(|refused| none_made(leader.job, refused))?;
    let cost = CheckpointCost { drain_ms: ms(around.now() - begun), hash_ms: hash_ns.map(|ns| ns / 1_000_000), ..cost };
    tracing::info!(%checkpoint, ?keeping, ?cost, "checkpoint made");
    let (nodes, mode) =
        (leader.places.len() as u32, if keeping.copy.is_some() { CheckpointMode::Copy } else { Default::default() });
    let report = CheckpointReport { checkpoint, nodes, steps, mode, cost };
    Ok(Some((report, Newest { checkpoint, by: leader.by, is_base: true, slots })))
}

/// Has the ranks stand, and go on, and waits until their nodes have kept what they were: before they go on if it is to
/// be copied, or else afterwards. Gives how long they stood, too.
async fn cut(
    leader: &Leader<impl Around>,
    keeping: Keeping,
    begun: Instant,
) -> Result<(Vec<CutStep>, Duration, Vec<Kept>), Refused> {
    let [before @ .., resume] = Step::of_checkpoint(keeping);
    let mut steps = leader.lead(&before).await?;
    let mut copied = None;
    if keeping.copy.is_some() {
        let since = leader.around.now();
        copied = Some(kept_or_given_up(leader, COPYING_SILENCE_MAX).await?);
        steps.push(CutStep { name: "copy".into(), us: us(leader.around.now() - since) });
    }
    steps.extend(leader.lead(&[resume]).await?);
    let pause = leader.around.now() - begun;
    let all = match copied {
        Some(all) => all,
        None => kept_or_given_up(leader, SAVING_SILENCE_MAX).await?,
    };
    Ok((steps, pause, all))
}

async fn kept_or_given_up(leader: &Leader<impl Around>, silence: Duration) -> Result<Vec<Kept>, Refused> {
    match kept(leader, silence).await {
        Ok(all) => Ok(all),
        Err(refused) => {
            // Those that still keep something do so for nobody.
            leader.give_up().await;
            Err(none_made(leader.job, refused))
        }
    }
}

fn none_made(job: JobId, refused: Refused) -> Refused {
    Refused { message: format!("no checkpoint of job {job} was made: {}", refused.message), ..refused }
}

/// A time in whole ms.
fn ms(time: Duration) -> u64 {
    us(time) / 1000
}

/// What the job was at.
struct Moment {
    time_ns: u64,
    barriers: u64,
}

/// What a manifest says, but for its number and parts.
fn manifest(job: JobId, submitted: &Submitted, moment: Moment, cost: CheckpointCost) -> Result<Manifest, Refused> {
    let Submitted { submission, program, .. } = submitted;
    let CheckpointCost { pause_us, pages, bytes, .. } = cost;
    Ok(Manifest {
        version: Manifest::VERSION,
        job,
        number: 0,
        time_ns: moment.time_ns,
        submission: serde_json::to_value(Resubmission::of(submitted)).map_err(|error| Refused {
            status: 500,
            message: format!("what job {job} was submitted with cannot be written: {error}"),
        })?,
        program: program.id,
        program_bytes: program.bytes,
        ranks: submission.ranks,
        ranks_per_node: submission.ranks_per_node,
        barriers: moment.barriers,
        pause_us,
        pages,
        bytes,
        parts: Vec::new(),
    })
}

/// Has what lies in regions stored, and writes the manifest of that and of what nodes have given away. From now on the
/// job may end, and its nodes be lost. Gives how long it took to hash what lay in regions, if anything did, too.
async fn drain(
    leader: &Leader<impl Around>,
    submitted: &Submitted,
    manifest: Manifest,
    all: Vec<Kept>,
) -> Result<(CheckpointName, Option<u64>), Refused> {
    let (around, job, submission) = (&leader.around, leader.job, &submitted.submission);
    let number = around.stored(HOST_FILE_TIME_MAX, move |storage| next_number(storage, job)).await?;
    let manifest = Manifest { number, ..manifest };
    let pulls: Vec<Pull> =
        all.iter().filter_map(|(place, saving)| Some(Pull::new(place.node, saving.local?))).collect();
    let checkpoint = CheckpointName { job: job.0, number };
    let view = view_of(checkpoint, submission, &manifest);
    let shown = around.checkpoints().drain(view, pulls.iter().map(Pull::progress).collect());
    let given = all.into_iter().filter(|(_, saving)| saving.local.is_none()).filter_map(|(_, saving)| saving.parts);
    let is_local = !pulls.is_empty();
    let pulled = pull(around, pulls).await?;
    let said = [given.flatten().collect(), pulled.parts].concat();
    let parts = all_parts(said, submission.ranks, submission.nodes_wanted())?;
    let manifest = Manifest { parts, ..manifest };
    around.stored(HOST_FILE_TIME_MAX, move |storage| storage.write_manifest(&manifest)).await?;
    drop(shown);
    Ok((checkpoint, is_local.then_some(pulled.hash_ns)))
}

/// The barriers that all nodes have left, if they are the same.
fn same_barriers<'a>(mut savings: impl Iterator<Item = &'a Saving>) -> Option<u64> {
    let first = savings.next()?.barriers;
    savings.all(|saving| saving.barriers == first).then_some(first)
}

/// The parts that were said, in order, if they are one for each rank and each node.
fn all_parts(said: Vec<Part>, ranks: u32, nodes: u32) -> Result<Vec<ManifestPart>, Refused> {
    let count = said.len();
    let parts: BTreeMap<PartOf, Part> = said.into_iter().map(|part| (part.of, part)).collect();
    let wanted = (0..ranks).map(|rank| PartOf::Rank(Rank(rank))).chain((0..nodes).map(PartOf::Node));
    // In the order of both.
    if count != parts.len() || !wanted.eq(parts.keys().copied()) {
        return Err(something_else());
    }
    Ok(parts.into_values().map(ManifestPart::from).collect())
}

/// The number that the next one of a job has.
fn next_number(storage: &Storage, job: JobId) -> Result<u32, StorageError> {
    Ok(storage.manifests(job)?.last().map_or(0, |(number, _)| *number).saturating_add(1))
}

/// What a manifest says of a checkpoint.
pub(crate) fn view_of(checkpoint: CheckpointName, submission: &Submission, manifest: &Manifest) -> CheckpointView {
    CheckpointView {
        at_ns: manifest.time_ns,
        name: submission.name.clone(),
        arguments: submission.arguments.clone(),
        program: manifest.program.to_string(),
        ranks: manifest.ranks,
        ranks_per_node: manifest.ranks_per_node,
        pause_us: manifest.pause_us,
        pages: manifest.pages,
        bytes: manifest.bytes,
        ..CheckpointView::unknown(checkpoint)
    }
}
