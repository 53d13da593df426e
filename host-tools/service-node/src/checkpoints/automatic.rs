//! What is done with checkpoints without anybody asking for it: they are made and deleted, and jobs that have lost a
//! node go on from them. When, the controller says.

use coppice_api::checkpoint::{CheckpointName, CheckpointPolicy, MakeOrder, RestartOrder};
use coppice_api::job::Submission;
use coppice_protocol::ids::JobId;
use coppice_storage::{Storage, StorageError};
use tokio::sync::oneshot;

use super::deleting::collect;
use super::making::make;
use super::restarting::{prepare, submit};
use super::{Around, Busy, going_down};
use crate::controller::Refused;
use crate::limits::{
    CHECKPOINT_TURN_INTERVAL, CHECKPOINT_TURN_TIME_MAX, HOST_FILE_TIME_MAX, RESTART_CHECKPOINTS_MAX,
    RESTART_DRAIN_TIME_MAX,
};
use crate::plant::{CheckpointEvent, CheckpointOrder};

/// Carries an order out, and has the controller hear what became of that.
pub async fn carry_out(around: impl Around, order: CheckpointOrder) {
    match order {
        CheckpointOrder::Make { job, keep } => {
            let made = in_a_task(&around, make_and_delete(around.clone(), job, keep)).await;
            let troubles = made.unwrap_or_else(|| vec![going_down().message]);
            around.say(job, CheckpointEvent::Tried { troubles }).await;
        }
        CheckpointOrder::Restart { job, submission } => {
            let restarted = in_a_task(&around, restart(around.clone(), job, *submission)).await;
            if let Err(reason) = restarted.unwrap_or_else(|| Err(going_down().message)) {
                around.say(job, CheckpointEvent::NotRestarted { reason }).await;
            }
        }
    }
}

/// Does something in a task of its own, and gives what comes of it: nothing, if it does not come to its end.
async fn in_a_task<T: Send + 'static>(
    around: &impl Around,
    task: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    around.spawn(async move {
        // Who waits for it goes only if everything does.
        let _ = answer.send(task.await);
    });
    answered.await.ok()
}

/// Makes a checkpoint of a job, and deletes what is too old then. Gives what went wrong.
async fn make_and_delete(around: impl Around, job: JobId, keep: u32) -> Vec<String> {
    let making = match turn(&around, job).await {
        Ok(Some(making)) => making,
        // Somebody has one made at this moment, which is as good.
        Ok(None) => return Vec::new(),
        Err(refused) => return vec![none_made(job, &refused)],
    };
    let made = make(&around, job, MakeOrder::default()).await;
    drop(making);
    match made {
        Ok(_) => match delete_old(&around, job, keep).await {
            Ok(()) => Vec::new(),
            Err(Refused { message, .. }) => vec![format!("old checkpoints of job {job} are not deleted: {message}")],
        },
        Err(refused) => vec![none_made(job, &refused)],
    }
}

fn none_made(job: JobId, Refused { message, .. }: &Refused) -> String {
    let text = format!("no checkpoint of job {job} was made");
    if message.starts_with(&text) { message.clone() } else { format!("{text}: {message}") }
}

/// Waits until one can be made. Nothing if one of the job is being made already.
async fn turn(around: &impl Around, job: JobId) -> Result<Option<Busy>, Refused> {
    let since = around.now();
    loop {
        match around.checkpoints().make(job) {
            Ok(making) => return Ok(Some(making)),
            // Of others.
            Err(Refused { status: 503, .. }) if around.now() - since < CHECKPOINT_TURN_TIME_MAX => {
                around.sleep(CHECKPOINT_TURN_INTERVAL).await;
            }
            Err(Refused { status: 409, .. }) => return Ok(None),
            Err(refused) => return Err(refused),
        }
    }
}

/// Deletes the checkpoints of a job that are older than the newest whole ones, so many of which stay.
async fn delete_old(around: &impl Around, job: JobId, keep: u32) -> Result<(), Refused> {
    let delete = move |storage: &Storage| {
        let manifests = storage.manifests(job)?;
        let whole = manifests.iter().filter(|(_, manifest)| manifest.is_ok()).map(|(number, _)| *number);
        let first_kept = whole.rev().take(keep as usize).last().unwrap_or(0);
        let old: Vec<u32> = manifests.iter().map(|(number, _)| *number).filter(|number| *number < first_kept).collect();
        for number in &old {
            match storage.delete(job, *number) {
                // Somebody else has just done it.
                Err(StorageError::NoManifest { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(old.len())
    };
    if around.stored(HOST_FILE_TIME_MAX, delete).await? == 0 {
        return Ok(());
    }
    match collect(around).await {
        // Objects are used at this moment: the room is given back with the next that are deleted.
        Err(Refused { status: 409, .. }) | Ok(_) => Ok(()),
        Err(refused) => Err(refused),
    }
}

/// Has a new job go on from the newest checkpoint that can be used of one that has lost a node. If none can, says why
/// the newest cannot.
async fn restart(around: impl Around, job: JobId, submission: Submission) -> Result<(), String> {
    await_made(&around, job).await;
    let from = submission.restarted_from;
    let (mut tried, mut why) = (Vec::new(), None);
    while tried.len() < RESTART_CHECKPOINTS_MAX {
        // Each time anew: one that was being made may be there by now, and those before it deleted.
        let found = around.stored(HOST_FILE_TIME_MAX, move |storage| candidates(storage, job, from)).await;
        let found = found.map_err(|refused| refused.message)?;
        let Some(checkpoint) = found.into_iter().find(|checkpoint| !tried.contains(checkpoint)) else { break };
        tried.push(checkpoint);
        // Nobody is there who would look at what comes of it: all that is in it is read before.
        let order = RestartOrder {
            checkpoint: Some(checkpoint.number),
            verify: true,
            keep_files: false,
            nodes: Vec::new(),
            detached: submission.detached,
            keep_output: submission.keep_output,
            core_file: submission.core_file,
            timeout_ms: submission.timeout_ms,
            checkpoint_policy: submission.checkpoint_policy.map(once_less),
        };
        match prepare(&around, JobId(checkpoint.job), order).await {
            Ok(prepared) => {
                let restarted = submit(around, prepared, Some(job)).await;
                return restarted.map(drop).map_err(|refused| refused.message);
            }
            Err(refused) => {
                tracing::warn!(%checkpoint, why = refused.message, "cannot be restarted from");
                why.get_or_insert(refused.message);
            }
        }
    }
    Err(why.unwrap_or_else(|| "there is no checkpoint of it yet".to_owned()))
}

/// Waits for one of the job that is being made: what lies in regions already is drained without the lost node, and is
/// the newest then. Without all nodes one that is not there yet fails soon.
async fn await_made(around: &impl Around, job: JobId) {
    let since = around.now();
    while around.checkpoints().is_being_made(job) && around.now() - since < RESTART_DRAIN_TIME_MAX {
        around.sleep(CHECKPOINT_TURN_INTERVAL).await;
    }
}

/// The checkpoints of a job, and behind them the one that it was restarted from itself and those that are older, the
/// newest first.
fn candidates(
    storage: &Storage,
    job: JobId,
    from: Option<CheckpointName>,
) -> Result<Vec<CheckpointName>, StorageError> {
    let numbers = |of: JobId| Ok(storage.manifests(of)?.into_iter().map(|(number, _)| number).rev());
    let mut found: Vec<_> = numbers(job)?.map(|number| CheckpointName { job: job.0, number }).collect();
    if let Some(from) = from {
        let older = numbers(JobId(from.job))?.filter(|number| *number <= from.number);
        found.extend(older.map(|number| CheckpointName { number, ..from }));
    }
    found.truncate(RESTART_CHECKPOINTS_MAX);
    Ok(found)
}

/// How checkpoints are made of a job that was restarted by itself.
fn once_less(policy: CheckpointPolicy) -> CheckpointPolicy {
    CheckpointPolicy { max_restarts: policy.max_restarts.saturating_sub(1), ..policy }
}
