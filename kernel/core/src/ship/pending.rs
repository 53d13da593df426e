//! The calls of a node's ranks, and the connection on which they go.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use coppice_protocol::ids::JobId;
use coppice_protocol::session::{Frame, SendError};
use coppice_protocol::ship::{Answered, Call, Notice, Owner, Reply, Request, RequestId, Requests};

use super::{Bells, Leaseholder};
use crate::errno::Errno;
use crate::executor::oneshot;
use crate::limits::SHIP_CONNECT_WAIT_NS;
use crate::net::Link;

/// What a call returns: the reply and the bytes behind it.
pub type Answer = Result<(Reply, Vec<u8>), Errno>;

/// The bytes behind a request, which may be sent more than once.
pub(super) type Bulk = Option<Arc<Vec<u8>>>;

pub(super) fn share(bulk: Vec<u8>) -> Bulk {
    (!bulk.is_empty()).then(|| Arc::new(bulk))
}

/// Who takes an answer where it comes, without anybody waiting for it. One that is dropped got none. It may be dropped
/// under the lock of all calls, so it makes none then.
pub(crate) trait Taker: Send {
    /// The answer is this.
    fn take(self: Box<Self>, answer: Answer);
}

/// Who gets an answer.
pub(super) enum Caller {
    /// Nobody: it is of no interest.
    Nobody,
    /// A task that waits for it.
    Task(oneshot::Sender<Answer>),
    /// Whoever this is.
    Taker(Box<dyn Taker>),
}

/// An answer, and who is to be given it once nothing is locked.
pub(super) struct Taken {
    taker: Box<dyn Taker>,
    answer: Answer,
}

impl Taken {
    /// Gives it.
    pub(super) fn give(self) {
        self.taker.take(self.answer);
    }
}

/// A call that waits or is under way.
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) bulk: Bulk,
    pub(super) caller: Caller,
    /// When it was made, ns.
    pub(super) since_ns: u64,
}

impl Pending {
    fn is_abandoned(&self) -> bool {
        matches!(&self.caller, Caller::Task(caller) if caller.is_abandoned())
    }

    /// When it fails if there is no connection until then, ns. The last one was lost at `lost_ns`.
    fn overdue_ns(&self, lost_ns: u64) -> u64 {
        self.since_ns.max(lost_ns).saturating_add(SHIP_CONNECT_WAIT_NS)
    }

    #[must_use]
    fn answer(self, answer: Answer) -> Option<Taken> {
        match self.caller {
            Caller::Nobody => {}
            Caller::Task(caller) => {
                // It may have gone away; then nobody wants it.
                let _ = caller.send(answer);
            }
            Caller::Taker(taker) => return Some(Taken { taker, answer }),
        }
        None
    }
}

/// What ranks have to do with the connection.
struct RankState {
    bells: Arc<Bells>,
    /// Threads that print.
    printing: usize,
}

/// See this module.
#[derive(Default)]
pub(super) struct State {
    link: Option<Arc<Link>>,
    /// When the last connection was lost, ns.
    lost_ns: u64,
    /// Each lies by itself: there may be as many as all threads make, and their queue is to be short all the same.
    requests: Requests<Box<Pending>>,
    ranks: BTreeMap<Owner, RankState>,
    /// Who has the leases of jobs here.
    leaseholders: BTreeMap<JobId, Weak<dyn Leaseholder>>,
    /// Answers that could not be had, for who takes them once nothing is locked.
    refused: Vec<Taken>,
}

impl State {
    pub(super) fn link(&self) -> Option<&Arc<Link>> {
        self.link.as_ref()
    }

    /// The bells of a rank, which is known from now on.
    pub(super) fn bells(&mut self, owner: Owner) -> Arc<Bells> {
        let new = || RankState { bells: Arc::new(Bells::new()), printing: 0 };
        Arc::clone(&self.ranks.entry(owner).or_insert_with(new).bells)
    }

    pub(super) fn push(&mut self, pending: Pending) {
        self.requests.push(pending.request.owner, Box::new(pending));
    }

    /// As [`Self::push`], for what others wait for.
    pub(super) fn push_owed(&mut self, pending: Pending) {
        self.requests.push_owed(pending.request.owner, Box::new(pending));
    }

    /// A job's ranks here have leases by this.
    pub(super) fn has_leases(&mut self, job: JobId, holder: Weak<dyn Leaseholder>) {
        self.leaseholders.insert(job, holder);
    }

    /// Who has a job's leases here, and one of its ranks.
    pub(super) fn leaseholder(&self, job: JobId) -> Option<(Arc<dyn Leaseholder>, Owner)> {
        let owner = self.ranks.keys().find(|owner| owner.job == job)?;
        Some((self.leaseholders.get(&job)?.upgrade()?, *owner))
    }

    /// Answers for who takes them now.
    pub(super) fn take_refused(&mut self) -> Vec<Taken> {
        core::mem::take(&mut self.refused)
    }

    /// Sends what waits, as far as there are places and the link has room. If it has none, there are requests under
    /// way, and their replies bring somebody here again.
    pub(super) fn send_waiting(&mut self) {
        let Some(link) = self.link.clone() else { return };
        while !link.is_full()
            && let Some((id, pending)) = self.requests.next(self.ranks.len())
        {
            let sent = if pending.is_abandoned() { None } else { Some(send(&link, id, pending)) };
            let errno = match sent {
                // The link has ended: it is sent on the next one.
                Some(Ok(()) | Err(SendError::NotEstablished)) => continue,
                Some(Err(SendError::TooLong { .. })) => Errno::E2BIG,
                Some(Err(SendError::Full | SendError::OutOfMemory)) | None => Errno::ENOMEM,
            };
            if let Answered::Request(pending) = self.requests.take(id) {
                self.refused.extend(pending.answer(Err(errno)));
            }
        }
    }

    /// There is a connection: what was under way is sent again, and who waits for people or locks asks again.
    pub(super) fn connected(&mut self, link: Arc<Link>) {
        for (id, pending) in self.requests.again() {
            if let Err(error) = send(&link, id, pending) {
                // Both ends' queues hold all that can be under way; without memory for that, the link is of no use.
                log::error!("ship: cannot say a request again: {error}");
                link.abort();
                break;
            }
        }
        self.link = Some(link);
        for rank in self.ranks.values() {
            rank.bells.output.ring();
            rank.bells.input.ring();
            rank.bells.lock.ring();
        }
        self.send_waiting();
    }

    pub(super) fn disconnected(&mut self, now_ns: u64) {
        self.link = None;
        self.lost_ns = now_ns;
        // Nothing comes for them.
        let _ = self.requests.again();
    }

    /// Hands a reply to its caller. Whether somebody waited for it, and who is to be given it now.
    ///
    /// # Errors
    /// It is no reply, or nobody asked.
    pub(super) fn answer(&mut self, frame: Frame) -> Result<(bool, Option<Taken>), &'static str> {
        let answered = RequestId::of_frame(frame.id).map(|id| self.requests.take(id));
        let pending = match answered {
            Some(Answered::Request(pending)) => pending,
            Some(Answered::Forgotten) => return Ok((false, None)),
            Some(Answered::Unknown) | None => return Err("a reply that nobody asked for"),
        };
        let taken = match frame.message::<Reply>() {
            Ok(Reply::Failed(errno)) => pending.answer(Err(Errno::from_wire(errno))),
            Ok(reply) => pending.answer(Ok((reply, frame.bulk))),
            Err(_) => {
                self.refused.extend(pending.answer(Err(Errno::EIO)));
                return Err("a reply that makes no sense");
            }
        };
        Ok((true, taken))
    }

    /// A rank can print again, or read, or have a lock.
    pub(super) fn ring(&self, owner: Owner, notice: &Notice) {
        let Some(rank) = self.ranks.get(&owner) else { return };
        match notice {
            Notice::Output(_) => rank.bells.output.ring(),
            Notice::Input(_) => rank.bells.input.ring(),
            Notice::Lock(_) => rank.bells.lock.ring(),
            Notice::Recall { .. } | Notice::RecallNames { .. } => {}
        }
    }

    /// A thread of the rank is about to print.
    pub(super) fn printer_came(&mut self, owner: Owner) {
        if let Some(rank) = self.ranks.get_mut(&owner) {
            rank.printing += 1;
        }
    }

    /// A thread of the rank prints no more. If it was the last, and it gave up, the I/O node is told.
    pub(super) fn printer_gone(&mut self, owner: Owner, gave_up: bool, now_ns: u64) {
        let Some(rank) = self.ranks.get_mut(&owner) else { return };
        rank.printing = rank.printing.saturating_sub(1);
        if rank.printing == 0 && gave_up {
            let request = Request { owner, call: Call::PrintNothing };
            self.push(Pending { request, bulk: None, caller: Caller::Nobody, since_ns: now_ns });
            self.send_waiting();
        }
    }

    /// The calls of a rank are of no interest any more, nor is it.
    pub(super) fn forget(&mut self, owner: Owner) {
        self.ranks.remove(&owner);
        let other = self.ranks.keys().find(|other| other.job == owner.job).copied();
        if other.is_none() {
            self.leaseholders.remove(&owner.job);
        }
        for mut pending in self.requests.forget(owner) {
            // A lease is its node's, which still has to give it back.
            if let (Some(other), Call::Return { .. } | Call::ReturnNames { .. }) = (other, &pending.request.call) {
                pending.request.owner = other;
                self.requests.push_owed(other, pending);
            }
        }
        if self.link.is_none() {
            let _ = self.requests.again();
        }
        self.send_waiting();
    }

    /// Whether nothing is on its way for ranks that are gone.
    pub(super) fn is_quiet(&self) -> bool {
        self.link.as_ref().is_none_or(|link| !self.requests.any_forgotten() && link.is_drained())
    }

    /// When the first call fails if there is no connection until then, ns.
    pub(super) fn first_overdue_ns(&self) -> Option<u64> {
        self.requests.iter().map(|pending| pending.overdue_ns(self.lost_ns)).min()
    }

    /// Has calls fail that have waited too long for a connection.
    pub(super) fn fail_overdue(&mut self, now_ns: u64) {
        let lost_ns = self.lost_ns;
        for pending in self.requests.give_up(|pending| now_ns >= pending.overdue_ns(lost_ns)) {
            self.refused.extend(pending.answer(Err(Errno::EIO)));
        }
    }
}

/// For models, in which no I/O node answers.
#[cfg(all(test, feature = "model"))]
impl State {
    /// The leases that are to be given back.
    pub(super) fn given_back(&self) -> Vec<u64> {
        let number = |pending: &Pending| match pending.request.call {
            Call::Return { number, .. } => Some(number),
            _ => None,
        };
        self.requests.iter().filter_map(|pending| number(pending)).collect()
    }

    /// What is to be written cannot be.
    pub(super) fn fail_writes(&mut self) -> Vec<Taken> {
        let failed = self.requests.give_up(|pending| matches!(pending.request.call, Call::Write { .. }));
        failed.into_iter().filter_map(|pending| pending.answer(Err(Errno::EIO))).collect()
    }
}

fn send(link: &Link, id: RequestId, pending: &Pending) -> Result<(), SendError> {
    link.send_shared(id.to_frame(), &pending.request, pending.bulk.clone())
}
