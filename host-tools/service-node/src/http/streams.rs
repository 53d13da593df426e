//! What goes in and out of a running job.
//!
//! Output is passed to the connection piece by piece, and only when the connection has taken a piece is the I/O node
//! told so: a reader that stops stops the ranks that write. Input works the other way round: it is read from the
//! connection only as far as the rank has room.

use std::sync::Arc;

use axum::Json;
use axum::body::HttpBody;
use axum::extract::{Request as HttpRequest, State};
use axum::response::Response;
use coppice_api::body::BYTES_TYPE;
use coppice_api::body::ChannelBody;
use coppice_api::job::TraceQuery;
use coppice_api::schema::{Nothing, Raw};
use coppice_api::stream::{JobEvent, encode_event, output_header};
use coppice_protocol::ids::{JobId, Rank};
use hyper::body::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::{Answered, Api, Bad, Missing, Number, OfJob, Parameters, Usual, document, going_down};
use crate::controller::{Refused, Request};
use crate::feed::{Piece, Pieces, Taker};
use crate::limits::{INPUT_PIECE_BYTES_MAX, STREAM_PIECES_MAX};

/// A job's output and events, for whoever submitted it.
///
/// The job belongs to this connection: it is killed when that is closed before the job has ended. What is not read
/// stops the ranks that write. See the top of this description for how frames are made up.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/stream",
    tag = "streams",
    operation_id = "stream",
    params(OfJob),
    responses(
        (
            status = 200,
            description = "Frames, the last of which is the event `ended`.",
            body = Raw, content_type = BYTES_TYPE
        ),
        Bad, Missing, Usual
    )
)]
pub(super) async fn output(State(api): State<Api>, Number(OfJob { job }): Number<OfJob>) -> Result<Response, Refused> {
    let job = JobId(job);
    api.connections.attached(job);
    let asked = api.clone();
    let attached = async move {
        let pieces = asked.ask(|answer| Request::Attach(job, answer)).await?;
        Ok((Taker::Owner, pieces))
    };
    taken_by(api, job, attached).await
}

/// A job's output and events from now on, for anybody else.
///
/// Closing the connection changes nothing for the job; what is not read stops the ranks that write.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/attach",
    tag = "streams",
    operation_id = "attach",
    params(OfJob),
    responses(
        (
            status = 200,
            description = "Frames, the last of which is the event `ended`.",
            body = Raw, content_type = BYTES_TYPE
        ),
        Bad, Missing, Usual
    )
)]
pub(super) async fn attach(State(api): State<Api>, Number(OfJob { job }): Number<OfJob>) -> Result<Response, Refused> {
    api.connections.expect_watcher()?;
    let (job, asked) = (JobId(job), api.clone());
    taken_by(api, job, async move { asked.ask(|answer| Request::Join(job, answer)).await }).await
}

/// Passes a job's stream on to whoever is attached to it.
async fn taken_by(
    api: Api,
    job: JobId,
    attached: impl Future<Output = Result<(Taker, Pieces), Refused>> + Send + 'static,
) -> Result<Response, Refused> {
    // In a task of its own: a request may be given up at any moment, also when the job has just handed its output over.
    // Then the body is dropped, and the reader is found to be gone.
    let attached = tokio::spawn(async move {
        let (taker, feed) = attached.await?;
        let (pieces, body) = ChannelBody::new(STREAM_PIECES_MAX);
        tokio::spawn(async move {
            if pump(&api, job, taker, feed, &pieces).await.is_none() {
                let _ = api.tell(Request::Left(job, taker)).await;
            }
        });
        Ok(body)
    });
    let body: Result<_, Refused> = attached.await.unwrap_or_else(|_| Err(going_down()));
    Ok(document::of_type(BYTES_TYPE, body?))
}

/// Passes pieces on until the job has ended; nothing if the reader is gone before.
async fn pump(api: &Api, job: JobId, taker: Taker, mut feed: Pieces, pieces: &mpsc::Sender<Bytes>) -> Option<()> {
    loop {
        let piece = tokio::select! {
            piece = feed.recv() => piece?,
            () = pieces.closed() => return None,
        };
        match piece {
            Piece::Output { pset, rank, stream, bytes } => {
                let length = bytes.len();
                let header = output_header(rank.0, stream, u32::try_from(length).unwrap_or(u32::MAX));
                pieces.send(Bytes::copy_from_slice(&header)).await.ok()?;
                pieces.send(bytes).await.ok()?;
                api.tell(Request::Taken(job, taker, pset, length)).await.ok()?;
            }
            Piece::Progress { event, turn } => {
                pieces.send(encode_event(&event).into()).await.ok()?;
                drop(turn);
            }
            Piece::Event(event) => {
                let is_last = matches!(event, JobEvent::Ended(_));
                pieces.send(encode_event(&event).into()).await.ok()?;
                if is_last {
                    return Some(());
                }
            }
        }
    }
}

/// What ranks of a job call, until it ends or the connection does.
///
/// Frames are of the kind that has pieces of records, whose format belongs to this version of Coppice alone: `coppice
/// trace` makes words of them.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/trace",
    tag = "streams",
    operation_id = "trace",
    params(OfJob, TraceQuery),
    responses(
        (status = 200, description = "Frames, until the job ends.", body = Raw, content_type = BYTES_TYPE),
        Bad, Missing, Usual
    )
)]
pub(super) async fn trace(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Parameters(TraceQuery { rank }): Parameters<TraceQuery>,
) -> Result<Response, Refused> {
    let job = JobId(job);
    // In a task of its own, as for the output.
    let begun = tokio::spawn(async move {
        let feed = api.ask(|answer| Request::Trace(job, rank.map(Rank), answer)).await?;
        let (pieces, body) = ChannelBody::new(STREAM_PIECES_MAX);
        tokio::spawn(async move {
            pump_trace(&api, job, feed, &pieces).await;
            // If the job is over nobody traces it.
            let _ = api.tell(Request::EndTrace(job)).await;
        });
        Ok(body)
    });
    let body: Result<_, Refused> = begun.await.unwrap_or_else(|_| Err(going_down()));
    Ok(document::of_type(BYTES_TYPE, body?))
}

/// Passes records on until the job has ended, or the reader is gone.
async fn pump_trace(api: &Api, job: JobId, mut feed: Pieces, pieces: &mpsc::Sender<Bytes>) -> Option<()> {
    loop {
        let piece = tokio::select! {
            piece = feed.recv() => piece?,
            () = pieces.closed() => return None,
        };
        // A tracer is told nothing else.
        let Piece::Output { pset, rank, stream, bytes } = piece else { continue };
        let length = bytes.len();
        let header = output_header(rank.0, stream, u32::try_from(length).unwrap_or(u32::MAX));
        pieces.send(Bytes::copy_from_slice(&header)).await.ok()?;
        pieces.send(bytes).await.ok()?;
        api.tell(Request::TraceTaken(job, pset, length)).await.ok()?;
    }
}

/// A job's standard input: the body as it comes, until its end or the job's.
///
/// It is read only as far as the rank that reads has room. Its end is the end of the rank's standard input.
#[utoipa::path(
    put,
    path = "/v1/jobs/{job}/input",
    tag = "streams",
    operation_id = "input",
    params(OfJob),
    request_body(content = Raw, content_type = BYTES_TYPE, description = "What the rank reads."),
    responses((status = 200, description = "The job has all of it, or has ended.", body = Nothing), Bad, Missing, Usual)
)]
pub(super) async fn input(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    request: HttpRequest,
) -> Answered<()> {
    let job = JobId(job);
    let room = api.ask(|answer| Request::OpenInput(job, answer)).await?;
    let mut body = std::pin::pin!(request.into_body());
    loop {
        let frame = tokio::select! {
            frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context)) => frame,
            () = closed(&room) => return Ok(Json(())),
        };
        // A connection that breaks ends the input like its regular end does.
        let Some(Ok(frame)) = frame else { break };
        let Ok(bytes) = frame.into_data() else { continue };
        for piece in bytes.chunks(INPUT_PIECE_BYTES_MAX) {
            let permits = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let Ok(permit) = room.acquire_many(permits).await else { return Ok(Json(())) };
            permit.forget();
            api.tell(Request::Input(job, piece.to_vec())).await?;
        }
    }
    api.tell(Request::Input(job, Vec::new())).await?;
    Ok(Json(()))
}

/// Waits until the job has ended.
async fn closed(room: &Arc<Semaphore>) {
    // More permits than there ever are: granted never, refused when the semaphore is closed.
    let _ = room.acquire_many(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX)).await;
}
