//! The function-shipping service: requests of nodes' ranks, answered in any order.
//!
//! What may have to wait for a disk or a mount is done outside ([`super::calls`]), and later requests go on beside it.
//! Done here is what is in memory: input, output and locks. Nothing waits for people: who cannot print, or finds no
//! input, is told so at once, and told again when that has changed; so it is with locks of files ([`super::locks`]).
//!
//! A call that goes on when its connection breaks is answered on the next one; [`Replies`] sees to it that it is not
//! made again.

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::pset::FromPset;
use coppice_protocol::session::{Frame, Identity};
use coppice_protocol::ship::{self, Call, Connection, Handle, Heard, Owner, Reply, RequestId, Stream};
use rustix::io::Errno;

use super::calls::{Outside, failed};
use super::effect::Answer;
use super::{Machine, Now};
use crate::files::Result;

#[cfg(doc)]
use coppice_protocol::ship::Replies;

/// A request as it came.
#[derive(Debug)]
pub(super) struct Request {
    id: RequestId,
    owner: Owner,
    call: Call,
    bulk: Vec<u8>,
}

impl Request {
    /// What it reads, if it does.
    pub(super) fn reads(&self) -> Option<Handle> {
        if let Call::Read { file, .. } = self.call { Some(file) } else { None }
    }

    /// Whose it is.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// What a frame says; `None` if that is no request.
    pub(super) fn of(frame: Frame) -> Option<Self> {
        let id = RequestId::of_frame(frame.id)?;
        let ship::Request { owner, call } = frame.message().ok()?;
        Some(Self { id, owner, call, bulk: frame.bulk })
    }
}

/// The node does not keep to the protocol.
pub(super) struct Nonsense;

impl Machine {
    /// A node's request on one of its connections. Gives it back if it is to be said again when something was answered.
    pub(super) fn request(
        &mut self,
        identity: Identity,
        connection: Connection,
        request: Request,
        now: Now,
    ) -> core::result::Result<Option<Request>, Nonsense> {
        let Some((replies, _)) = self.nodes.ship(identity) else { return Err(Nonsense) };
        match replies.hear(connection, request.id, request.call.changes()) {
            Heard::New => self.execute(identity, request, now),
            // Its answer comes on this connection.
            Heard::UnderWay => {}
            Heard::Later => return Ok(Some(request)),
            Heard::Again(reply, bulk) => self.send_answer(identity, request.id, (reply, bulk)),
            Heard::Nonsense => return Err(Nonsense),
        }
        Ok(None)
    }

    /// A request is answered.
    pub(super) fn answer(&mut self, identity: Identity, id: RequestId, answer: Answer, now: Now) {
        // A boot that is over asks for nothing.
        let Some((replies, line)) = self.nodes.ship(identity) else { return };
        if replies.answered(id, &answer.0, &answer.1) {
            self.send_answer(identity, id, answer);
        }
        if let Some(line) = line {
            self.look_at_held(line, now);
        }
    }

    fn send_answer(&mut self, identity: Identity, id: RequestId, (reply, bulk): Answer) {
        // If the connection ends, too, the node says the request again on the next.
        let Some((_, Some(line))) = self.nodes.ship(identity) else { return };
        if let Err(error) = self.send(line, id.to_frame(), &reply, bulk) {
            // Every reply is within the limits, so this is a connection that has failed.
            tracing::debug!(%error, ?reply, "reply was not sent");
        }
    }

    /// Does a request that was held.
    pub(super) fn go_on_with(&mut self, identity: Identity, request: Request, now: Now) {
        self.execute(identity, request, now);
    }

    /// Answers one that was held: what it wants comes by itself.
    pub(super) fn need_not(&mut self, identity: Identity, request: &Request, now: Now) {
        self.answer(identity, request.id, (Reply::Later, Vec::new()), now);
    }

    fn execute(&mut self, identity: Identity, Request { id, owner, call, bulk }: Request, now: Now) {
        let (call, may_come_by_itself) = match call {
            Call::Fill { file, offset, length, anyway } => (Call::Read { file, offset, length }, !anyway),
            call => (call, false),
        };
        let request = Request { id, owner, call, bulk };
        if let Call::Read { file, offset: 0, .. } = request.call {
            self.reads_from_start((identity.node, owner), file, now);
        }
        let request = match may_come_by_itself {
            true => self.unless_it_comes(identity, request, now),
            false => Some(request),
        };
        let Some(Request { call, bulk, .. }) = request else { return };
        let job = self.jobs.rank_on(identity.node, owner);
        if let (Call::Return { file, number }, Some((job, _))) = (&call, &job) {
            // Of a rank that has ended, too: it is its node's.
            let (place, lease) = (job.place, (*file, *number));
            self.returned(identity.node, (place, owner.job), lease, now);
            return self.answer(identity, id, (Reply::Done, Vec::new()), now);
        }
        if let (Call::ReturnNames { number }, Some((job, _))) = (&call, &job) {
            let place = job.place;
            self.names_returned(identity.node, (place, owner.job), *number, now);
            return self.answer(identity, id, (Reply::Done, Vec::new()), now);
        }
        // An ended rank is as unknown as one that never was.
        let Some((job, _)) = job.filter(|(job, rank)| job.ranks.get(*rank).is_some_and(|rank| !rank.has_ended()))
        else {
            return self.answer(identity, id, failed(Errno::SRCH), now);
        };
        let whose = (owner, job.place, job.has_leases());
        let answered = match call {
            Call::Input { length } => self.read_input(owner, length),
            Call::InputReady => {
                let is_ready = !job.reads_input(owner.rank) || job.input.is_ready();
                Ok((Reply::Count(u64::from(is_ready)), Vec::new()))
            }
            Call::Print(stream) => self.print(owner, stream, bulk),
            Call::PrintNothing => {
                job.output.leave(owner.rank);
                self.tell_printers(owner.job);
                Ok((Reply::Done, Vec::new()))
            }
            Call::Lock { .. } | Call::LockNothing { .. } | Call::Unlock(_) | Call::TestLock(_) => {
                self.lock(owner, &call, now)
            }
            Call::Pages { .. }
            | Call::Read { .. }
            | Call::Write { .. }
            | Call::Synchronise { .. }
            | Call::Allocate { .. }
            | Call::PutObject
            | Call::GetObject(_)
            | Call::SettleObjects => return self.do_outside(identity, id, whose, Outside::Data(call, bulk), now),
            _ => return self.do_outside(identity, id, whose, Outside::Names(call), now),
        };
        self.answer(identity, id, answered.unwrap_or_else(failed), now);
    }

    fn read_input(&mut self, owner: Owner, length: u32) -> Result<Answer> {
        let job = self.jobs.get_mut(owner.job).filter(|job| job.reads_input(owner.rank));
        let Some(job) = job else { return Ok((Reply::Data, Vec::new())) };
        let length = usize::try_from(length).map_or(BULK_BYTES_MAX, |length| length.min(BULK_BYTES_MAX));
        let Some(bytes) = job.input.read(length)? else { return Ok((Reply::Later, Vec::new())) };
        if let Some(taken) = u32::try_from(bytes.len()).ok().filter(|taken| *taken > 0) {
            self.outbox.push(FromPset::InputTaken { job: owner.job, bytes: taken });
        }
        Ok((Reply::Data, bytes))
    }

    /// Passes output on to the user, within the job's window. Pieces of a rank go in the order they came: the outbox
    /// keeps it.
    fn print(&mut self, owner: Owner, stream: Stream, bytes: Vec<u8>) -> Result<Answer> {
        let Owner { job, rank } = owner;
        let count = bytes.len();
        if count > 0 {
            let output = &mut self.jobs.get_mut(job).ok_or(Errno::SRCH)?.output;
            let may_print = output.print(rank, count)?;
            self.tell_printers(job);
            if !may_print {
                return Ok((Reply::Later, Vec::new()));
            }
            self.outbox.push(FromPset::Output { job, rank, stream, bytes });
        }
        // At most the request's bulk.
        Ok((Reply::Written { bytes: u32::try_from(count).unwrap_or(u32::MAX), end: 0 }, Vec::new()))
    }
}
