//! What is kept of jobs' output, and waiting for jobs.
//!
//! A log is read on threads, some of it at a time, and as fast as the connection takes it. Who reads a log holds up
//! nobody: the job does not know of him.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use coppice_api::body::BYTES_TYPE;
use coppice_api::body::ChannelBody;
use coppice_api::job::JobView;
use coppice_api::output::{LogQuery, given_back};
use coppice_api::schema::Raw;
use coppice_api::shown;
use coppice_api::stream::{JobEvent, encode_event};
use coppice_protocol::ids::JobId;
use hyper::body::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::{Answered, Api, Bad, Missing, Number, OfJob, Parameters, Usual, answer, document};
use crate::controller::{KeptLog, Refused, Request};
use crate::host_files::HostFiles;
use crate::limits::{HOST_FILE_TIME_MAX, LOG_PARTS_MAX, LOG_THREADS_MAX};
use crate::output::LogState;
use crate::output::read::{Part, Position, ReadError, Wanted, read};

/// Threads for logs, of which all that are read at a time wait for their turn.
#[derive(Clone, Debug)]
pub(super) struct LogFiles {
    files: HostFiles,
    turns: Arc<Semaphore>,
}

impl Default for LogFiles {
    fn default() -> Self {
        Self { files: HostFiles::default(), turns: Arc::new(Semaphore::new(LOG_THREADS_MAX)) }
    }
}

/// A job as it is when it has ended: this is answered then, however long that takes.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/wait",
    tag = "jobs",
    operation_id = "wait",
    params(OfJob),
    responses((status = 200, description = "The job, ended.", body = JobView), Bad, Missing, Usual)
)]
pub(super) async fn wait(State(api): State<Api>, Number(OfJob { job }): Number<OfJob>) -> Answered<JobView> {
    api.connections.expect_watcher()?;
    answer(api.ask(|answer| Request::Wait(JobId(job), answer)).await)
}

/// What is kept of a job's output.
///
/// A reader holds up nobody: the job does not know of him.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/log",
    tag = "streams",
    operation_id = "log",
    params(OfJob, LogQuery),
    responses(
        (
            status = 200,
            description = "Frames, the last of which is the event `kept` or `unreadable`.",
            body = Raw, content_type = BYTES_TYPE
        ),
        Bad, Missing, Usual
    )
)]
pub(super) async fn log(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Parameters(query): Parameters<LogQuery>,
) -> Result<Response, Refused> {
    api.connections.expect_watcher()?;
    let job = JobId(job);
    let log = api.ask(|answer| Request::Log(job, answer)).await?;
    let (pieces, body) = ChannelBody::new(LOG_PARTS_MAX);
    tokio::spawn(async move { pump(&api, job, log, query, &pieces).await });
    Ok(document::of_type(BYTES_TYPE, body))
}

/// Passes on what is kept, until there is no more; nothing if the reader is gone before.
async fn pump(api: &Api, job: JobId, log: KeptLog, query: LogQuery, pieces: &mpsc::Sender<Bytes>) -> Option<()> {
    let last = match all_of(api, job, log, query, pieces).await? {
        Ok(event) => event,
        Err(reason) => JobEvent::Unreadable { reason },
    };
    pieces.send(encode_event(&last).into()).await.ok()
}

/// The same without the last frame, which this gives; or why not all can be read.
async fn all_of(
    api: &Api,
    job: JobId,
    mut log: KeptLog,
    query: LogQuery,
    pieces: &mpsc::Sender<Bytes>,
) -> Option<Result<JobEvent, String>> {
    // Of a job under way what there is by now, if no more is asked for. What has ended is written in a moment.
    let follows = query.follow || !log.is_under_way;
    let mut position = Position::default();
    loop {
        let state = log.state.as_mut().map(|state| *state.borrow_and_update());
        loop {
            let part = match part(api, job, &log, position, state, Wanted::from(&query)).await {
                Ok(part) => part,
                Err(reason) => return Some(Err(reason)),
            };
            position = part.position;
            if !part.frames.is_empty() {
                pieces.send(part.frames.into()).await.ok()?;
            }
            if part.is_all {
                break;
            }
        }
        let is_open = state.is_some_and(|state| !state.closed);
        let Some(state) = log.state.as_mut().filter(|_| is_open && follows) else { break };
        tokio::select! {
            changed = state.changed() => if changed.is_err() { break },
            () = pieces.closed() => return None,
        }
    }
    let detail = match api.ask(|answer| Request::Job(job, answer)).await {
        Ok(detail) => detail,
        Err(refused) => return Some(Err(refused.message)),
    };
    let mut output = detail.job.output.unwrap_or(log.output);
    // It is recorded only when the log is closed.
    output.cut = output.cut.or(log.state.as_ref().and_then(|state| state.borrow().cut));
    let is_short = output.bytes.is_some_and(|bytes| position.output < bytes) && (follows || !log.is_under_way);
    Some(if is_short && output.given_back {
        Err(given_back(job.0))
    } else if is_short {
        Err(format!("the log of job {job} is damaged: it ends behind byte {} of the output", position.output))
    } else {
        Ok(JobEvent::Kept(output))
    })
}

/// Why a log is not there that was.
async fn why_gone(api: &Api, job: JobId, log: &KeptLog) -> String {
    match api.ask(|answer| Request::Log(job, answer)).await {
        Ok(_) => format!("the log of job {job} was removed: there is no '{}'", shown(&log.path)),
        // It made room for others just now.
        Err(refused) => refused.message,
    }
}

/// What comes next in a log that is so far.
async fn part(
    api: &Api,
    job: JobId,
    log: &KeptLog,
    from: Position,
    state: Option<LogState>,
    wanted: Wanted,
) -> Result<Part, String> {
    let end = state.filter(|state| !state.closed).map(|state| state.length);
    if end.is_some_and(|end| end <= from.at) {
        return Ok(Part { frames: Vec::new(), position: from, is_all: true });
    }
    let path = log.path.clone();
    let what = format!("the log of job {job}");
    // The semaphore is never closed; were it, going on without it does no harm.
    let _turn = api.logs.turns.acquire().await;
    let done = api.logs.files.work(&what, HOST_FILE_TIME_MAX, move || read(&path, from, end, wanted)).await;
    match done.map_err(|refused| refused.message)? {
        Ok(part) => Ok(part),
        // Without output there is no file.
        Err(ReadError::Absent) if log.output.bytes.unwrap_or(0) == 0 && from == Position::default() => {
            Ok(Part { frames: Vec::new(), position: from, is_all: true })
        }
        Err(ReadError::Absent) => Err(why_gone(api, job, log).await),
        Err(error) => Err(format!("cannot read the log of job {job}: {error}")),
    }
}
