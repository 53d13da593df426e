//! The function-shipping service: requests of one node's ranks, answered in any order.
//!
//! What may have to wait for a disk or a mount goes on beside, on threads of its job ([`crate::files`]), and the
//! connection's later requests with it. Done here is what is in memory: data that the host has cached, input, output.
//! Nothing waits for people: who cannot print, or finds no input,
//! is told so at once, and told again when that has changed ([`Server::tell_printers`]).
//!
//! A call that goes on when its connection breaks is answered on the next one; [`Replies`] sees to it that it is not
//! made again.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::pset::FromPset;
use coppice_protocol::session::{Event, Identity};
use coppice_protocol::ship::{Call, Connection, Heard, Reply, Request, RequestId, Stream};
use rustix::io::Errno;

use crate::files::{ReadStart, Result, WriteAt};
use crate::jobs::{Job, RankState};
use crate::line::{Line, LineError};
use crate::nodes::Answers;
use crate::program::PagesStart;
use crate::server::Server;

#[cfg(doc)]
use coppice_protocol::ship::Replies;

/// A reply with its bulk bytes.
type Answer = (Reply, Vec<u8>);

/// Serves a node's requests until its line ends.
pub(crate) async fn serve(
    server: &Rc<Server>,
    line: &Rc<Line>,
    identity: Identity,
    (answers, connection): (&Rc<Answers>, Connection),
) -> LineError {
    loop {
        line.room().await;
        let frame = match line.next_event().await {
            Ok(Event::Frame(frame)) => frame,
            Ok(_) => return LineError::Message,
            Err(error) => return error,
        };
        let (Some(id), Ok(request)) = (RequestId::of_frame(frame.id), frame.message::<Request>()) else {
            return LineError::Message;
        };
        match hear(answers, connection, id, request.call.changes()).await {
            Heard::New => {}
            // Its answer comes on this line.
            Heard::UnderWay | Heard::Later => continue,
            Heard::Again(reply, bulk) => {
                send(line, id, (reply, bulk));
                continue;
            }
            Heard::Nonsense => return LineError::Message,
        }
        // An ended rank is as unknown as one that never was.
        let rank = server.rank_on(identity.node, request.owner).filter(|(_, rank)| !rank.has_ended());
        let mut answer = Box::pin(answer(Rc::clone(server), rank, request.call, frame.bulk));
        // Once, here and now; whatever it then waits for, it is polled again as a task of its own.
        let first = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        match first {
            Poll::Ready(answer) => {
                if answers.answered(id, &answer.0, &answer.1) {
                    send(line, id, answer);
                }
            }
            Poll::Pending => {
                let (server, answers) = (Rc::clone(server), Rc::clone(answers));
                // At most one for each slot of a boot.
                tokio::task::spawn_local(async move {
                    let answer = answer.await;
                    let is_wanted = answers.answered(id, &answer.0, &answer.1);
                    let line = server.nodes.borrow().ship(identity);
                    // If this line ends, too, the node says the request again on the next.
                    if let Some(line) = line.filter(|_| is_wanted) {
                        send(&line, id, answer);
                    }
                });
            }
        }
    }
}

/// What is to be done with a request, once no earlier one of its slot is being carried out.
async fn hear(answers: &Answers, connection: Connection, id: RequestId, changes: bool) -> Heard {
    loop {
        let answered = answers.next();
        match answers.hear(connection, id, changes) {
            Heard::Later => answered.await,
            heard => return heard,
        }
    }
}

fn send(line: &Line, id: RequestId, (reply, bulk): Answer) {
    if let Err(error) = line.send(id.to_frame(), &reply, bulk) {
        // Every reply is within the limits, so this is a line that has failed.
        tracing::debug!(%error, ?reply, "reply was not sent");
    }
}

/// Answers one request.
async fn answer(server: Rc<Server>, rank: Option<(Rc<Job>, Rc<RankState>)>, call: Call, bulk: Vec<u8>) -> Answer {
    let result = match rank {
        Some((job, rank)) => execute(&server, &job, &rank, call, bulk).await,
        None => Err(Errno::SRCH),
    };
    result.unwrap_or_else(|error| (Reply::Failed(number(error)), Vec::new()))
}

fn number(error: Errno) -> u16 {
    u16::try_from(error.raw_os_error()).unwrap_or(u16::MAX)
}

/// Whose disk it is that is waited for.
#[derive(Clone, Copy)]
struct Disk<'a>(&'a Job, &'a RankState);

impl Disk<'_> {
    /// Runs `work` on a thread that may wait for the disk. A rank and a job have only so many of them, whatever their
    /// disk does, until the threads are done, also if nobody waits for them any more.
    async fn on_thread<T: Send + 'static>(self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.1.unless_ended(self.begin(work)).await
    }

    async fn begin<T: Send + 'static>(self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let Self(job, rank) = self;
        let of_rank = Arc::clone(&rank.disk).acquire_owned().await.map_err(|_| Errno::IO)?;
        let of_job = Arc::clone(&job.disk).acquire_owned().await.map_err(|_| Errno::IO)?;
        let place = job.place.clone();
        let work = move || {
            let result = work();
            drop((of_rank, of_job, place));
            result
        };
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(Errno::IO))
    }
}

async fn finish_read(disk: Disk<'_>, read: ReadStart) -> Result<Vec<u8>> {
    match read {
        ReadStart::Done(bytes) => Ok(bytes),
        ReadStart::Waits(read) => disk.on_thread(move || read.finish()).await,
    }
}

async fn finish_pages(disk: Disk<'_>, PagesStart { pages, beside: started }: PagesStart) -> Result<Answer> {
    let pages = finish_read(disk, pages).await?;
    let mut beside = Vec::with_capacity(started.len());
    for node in started {
        beside.push(finish_read(disk, node).await?.try_into().map_err(|_| Errno::IO)?);
    }
    Ok((Reply::Pages { beside }, pages))
}

fn written((bytes, end): (usize, u64)) -> Answer {
    // At most the request's bulk.
    (Reply::Written { bytes: u32::try_from(bytes).unwrap_or(u32::MAX), end }, Vec::new())
}

async fn execute(server: &Server, job: &Job, rank: &RankState, call: Call, bulk: Vec<u8>) -> Result<Answer> {
    macro_rules! files {
        ($files:ident => $work:expr) => {
            rank.with_files(|$files| $work).ok_or(Errno::SRCH)??
        };
    }
    let is_input_rank = job.reads_input(rank.owner().rank);
    let disk = Disk(job, rank);
    match call {
        Call::Pages { program, first, count } => {
            return finish_pages(disk, job.program().pages(program, first, count)?).await;
        }
        Call::Read { file, offset, length } => {
            return Ok((Reply::Data, finish_read(disk, files!(files => files.read(file, offset, length))).await?));
        }
        Call::Write { file, offset } => {
            let at = offset.map_or(WriteAt::End, WriteAt::Offset);
            let write = files!(files => files.write(file, at));
            let result = if write.may_wait { disk.on_thread(move || write.run(&bulk)).await } else { write.run(&bulk) };
            return Ok(written(result?));
        }
        Call::Input { .. } if !is_input_rank => return Ok((Reply::Data, Vec::new())),
        Call::Input { length } => {
            let length = usize::try_from(length).map_or(BULK_BYTES_MAX, |length| length.min(BULK_BYTES_MAX));
            let read = job.input.borrow_mut().read(length)?;
            let Some(bytes) = read else { return Ok((Reply::Later, Vec::new())) };
            if let Some(taken) = u32::try_from(bytes.len()).ok().filter(|taken| *taken > 0) {
                server.outbox.send(FromPset::InputTaken { job: job.id(), bytes: taken }).await;
            }
            return Ok((Reply::Data, bytes));
        }
        Call::InputReady => {
            let is_ready = !is_input_rank || job.input.borrow_mut().is_ready();
            return Ok((Reply::Count(u64::from(is_ready)), Vec::new()));
        }
        Call::Print(stream) => return print(server, job, rank, stream, bulk).await,
        Call::PrintNothing => {
            job.output.borrow_mut().leave(rank.owner().rank);
            server.tell_printers(job);
        }
        Call::List { directory, position, length } => {
            let listed = rank.on_its_thread(move |files| files.list(directory, position, length)?.run());
            let (records, next) = listed.await?;
            return Ok((Reply::Entries { next }, records));
        }
        Call::Synchronise { file, data_only } => {
            let call = files!(files => files.synchronise(file, data_only));
            disk.on_thread(move || call.run()).await?;
        }
        Call::Allocate { file, mode, offset, length } => {
            let call = files!(files => files.allocate(file, mode, offset, length));
            disk.on_thread(move || call.run()).await?;
        }
        other => return rank.on_its_thread(move |files| crate::dispatch::execute(files, other)).await,
    }
    Ok((Reply::Done, Vec::new()))
}

/// Passes output on to the user, within the job's window. Pieces of a rank go in the order they came: the outbox keeps
/// it.
async fn print(server: &Server, job: &Job, rank: &RankState, stream: Stream, bytes: Vec<u8>) -> Result<Answer> {
    let count = bytes.len();
    if count > 0 {
        let owner = rank.owner();
        let may_print = job.output.borrow_mut().print(owner.rank, count)?;
        server.tell_printers(job);
        if !may_print {
            return Ok((Reply::Later, Vec::new()));
        }
        server.outbox.send(FromPset::Output { job: owner.job, rank: owner.rank, stream, bytes }).await;
    }
    Ok(written((count, 0)))
}
