//! The function-shipping service: requests of one node's ranks, answered in any order.
//!
//! Most calls are done where they are read, without another task or thread. What has to wait (for the user, for the
//! disk) goes on beside, and the connection's later requests with it, up to [`REQUESTS_IN_FLIGHT_MAX`]; at that the
//! connection is not read any more.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use coppice_protocol::limits::{BULK_BYTES_MAX, REQUESTS_IN_FLIGHT_MAX};
use coppice_protocol::pset::FromPset;
use coppice_protocol::session::{Event, Identity};
use coppice_protocol::ship::{Call, Reply, Request, Stream};
use rustix::io::Errno;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::files::{ReadStart, Result, WriteAt};
use crate::jobs::{Job, RankState};
use crate::line::{Line, LineError};
use crate::outbox::Outbox;
use crate::server::Server;

/// A reply with its bulk bytes.
type Answer = (Reply, Vec<u8>);

/// Serves a node's requests until its line ends.
pub(crate) async fn serve(server: &Server, line: &Rc<Line>, identity: Identity) -> LineError {
    // Dropped with this future, which ends what is still under way.
    let mut waiting = JoinSet::new();
    let under_way = Arc::new(Semaphore::new(REQUESTS_IN_FLIGHT_MAX));
    loop {
        line.room().await;
        let Ok(permit) = Arc::clone(&under_way).acquire_owned().await else { return LineError::Message };
        while waiting.try_join_next().is_some() {}
        let frame = match line.next_event().await {
            Ok(Event::Frame(frame)) => frame,
            Ok(_) => return LineError::Message,
            Err(error) => return error,
        };
        let Ok(request) = frame.message::<Request>() else { return LineError::Message };
        let id = frame.id;
        // An ended rank is as unknown as one that never was.
        let rank = server.rank_on(identity.node, request.owner).filter(|(_, rank)| !rank.has_ended());
        let mut answer = Box::pin(answer(rank, request.call, frame.bulk, server.outbox.clone()));
        // Once, here and now; whatever it then waits for, it is polled again as a task of its own.
        let first = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        match first {
            Poll::Ready(answer) => reply(line, id, answer),
            Poll::Pending => {
                let line = Rc::clone(line);
                waiting.spawn_local(async move {
                    let answer = answer.await;
                    line.room().await;
                    reply(&line, id, answer);
                    drop(permit);
                });
            }
        }
    }
}

fn reply(line: &Line, id: u64, (reply, bulk): Answer) {
    if let Err(error) = line.send(id, &reply, bulk) {
        // Every reply is within the limits, so this is a line that has failed.
        tracing::debug!(%error, ?reply, "reply was not sent");
    }
}

/// Answers one request.
async fn answer(rank: Option<(Rc<Job>, Rc<RankState>)>, call: Call, bulk: Vec<u8>, outbox: Outbox) -> Answer {
    let result = match rank {
        Some((job, rank)) => execute(&job, &rank, call, bulk, &outbox).await,
        None => Err(Errno::SRCH),
    };
    result.unwrap_or_else(|error| (Reply::Failed(number(error)), Vec::new()))
}

fn number(error: Errno) -> u16 {
    u16::try_from(error.raw_os_error()).unwrap_or(u16::MAX)
}

/// Runs `work` on a thread that may wait for the disk.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Errno::IO))
}

async fn finish_read(read: ReadStart) -> Result<Answer> {
    let bytes = match read {
        ReadStart::Done(bytes) => bytes,
        ReadStart::Waits(read) => on_thread(move || read.finish()).await?,
    };
    Ok((Reply::Data, bytes))
}

fn written((bytes, end): (usize, u64)) -> Answer {
    // At most the request's bulk.
    (Reply::Written { bytes: u32::try_from(bytes).unwrap_or(u32::MAX), end }, Vec::new())
}

async fn execute(job: &Job, rank: &RankState, call: Call, bulk: Vec<u8>, outbox: &Outbox) -> Result<Answer> {
    macro_rules! files {
        ($files:ident => $work:expr) => {
            rank.with_files(|$files| $work).ok_or(Errno::SRCH)??
        };
    }
    let is_input_rank = job.reads_input(rank.owner().rank);
    match call {
        Call::Pages { program, first, count } => return finish_read(job.program().pages(program, first, count)?).await,
        Call::Read { file, offset, length } => {
            return finish_read(files!(files => files.read(file, offset, length))).await;
        }
        Call::Write { file, offset } => {
            let at = offset.map_or(WriteAt::End, WriteAt::Offset);
            let write = files!(files => files.write(file, at));
            let result = if write.synchronous { on_thread(move || write.run(&bulk)).await } else { write.run(&bulk) };
            return Ok(written(result?));
        }
        Call::Input { .. } if !is_input_rank => return Ok((Reply::Data, Vec::new())),
        Call::Input { length } => {
            let length = usize::try_from(length).map_or(BULK_BYTES_MAX, |length| length.min(BULK_BYTES_MAX));
            let bytes = rank.stop.unless_stopped(job.input.read(length)).await?;
            if let Some(taken) = u32::try_from(bytes.len()).ok().filter(|taken| *taken > 0) {
                outbox.send(FromPset::InputTaken { job: job.id(), bytes: taken }).await;
            }
            return Ok((Reply::Data, bytes));
        }
        Call::InputReady { .. } if !is_input_rank => return Ok((Reply::Count(1), Vec::new())),
        Call::InputReady { wait_ms } => {
            let limit = std::time::Duration::from_millis(u64::from(wait_ms));
            let ready = async { Ok(tokio::time::timeout(limit, job.input.ready()).await.is_ok()) };
            let ready = rank.stop.unless_stopped(ready).await?;
            return Ok((Reply::Count(u64::from(ready)), Vec::new()));
        }
        Call::Print(stream) => return print(job, rank, stream, bulk, outbox).await,
        Call::List { directory, position, length } => {
            let listing = files!(files => files.list(directory, position, length));
            let (records, next) =
                if listing.large { on_thread(move || listing.run()).await? } else { listing.run()? };
            return Ok((Reply::Entries { next }, records));
        }
        Call::Synchronise { file, data_only } => {
            let call = files!(files => files.synchronise(file, data_only));
            on_thread(move || call.run()).await?;
        }
        Call::Allocate { file, mode, offset, length } => {
            let call = files!(files => files.allocate(file, mode, offset, length));
            on_thread(move || call.run()).await?;
        }
        other => return rank.with_files(|files| crate::dispatch::execute(files, other)).ok_or(Errno::SRCH)?,
    }
    Ok((Reply::Done, Vec::new()))
}

/// Passes output on to the user, within the job's window.
async fn print(job: &Job, rank: &RankState, stream: Stream, bytes: Vec<u8>, outbox: &Outbox) -> Result<Answer> {
    let count = bytes.len();
    if count > 0 {
        rank.stop
            .unless_stopped(async {
                let _turn = rank.printing.lock().await;
                job.output.take(count).await?;
                let owner = rank.owner();
                outbox.send(FromPset::Output { job: owner.job, rank: owner.rank, stream, bytes }).await;
                Ok(())
            })
            .await?;
    }
    Ok(written((count, 0)))
}
