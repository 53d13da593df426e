//! Fences that a rank waits in: those of the whole job, which are PMI's barriers, and those of a part of it; and what
//! else ranks do together.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::call::CallId;
use super::client::Client;
use super::dialect::Dialect;
use super::reader::Process;
use super::status::Status;
use super::writer::Writer;
use super::{rank, request};
use crate::ids::Rank;
use crate::limits::{PMIX_KEY_BYTES_MAX, PMIX_WAITS_MAX};
use crate::pmi::{Patience, Server};

/// A fence of the whole job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Fence {
    tag: u32,
    collect: bool,
    /// When it is not waited for any longer, ns.
    pub(super) deadline_ns: Option<u64>,
    /// Nobody waits for its answer any more.
    pub(super) is_given_up: bool,
    /// The rank is in its barrier. Only the first one is.
    is_entered: bool,
}

/// What ranks do together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Purpose {
    /// They wait for each other.
    Fence,
    /// The same, in other words: all ranks of a job are connected.
    Connect(bool),
    /// They make a group of this name, which may have to have a number.
    Construct(Box<[u8]>, bool),
    /// They take it apart.
    Destruct(Box<[u8]>),
}

impl Purpose {
    /// What the request is for.
    fn of(what: request::Together<'_>, wants_number: bool) -> Self {
        match what {
            request::Together::Connect => Self::Connect(true),
            request::Together::Disconnect => Self::Connect(false),
            request::Together::Construct(name) => Self::Construct(name.into(), wants_number),
            request::Together::Destruct(name) => Self::Destruct(name.into()),
        }
    }

    /// Calls for something else are not the same.
    fn call(&self, members: &[Rank]) -> CallId {
        let (word, name): (&[u8], &[u8]) = match self {
            Self::Fence => (b"fence", &[]),
            Self::Connect(true) => (b"connect", &[]),
            Self::Connect(false) => (b"disconnect", &[]),
            Self::Construct(name, _) => (b"construct ", name),
            Self::Destruct(name) => (b"destruct ", name),
        };
        CallId::of(&[word, name].concat(), members)
    }
}

/// A fence of a part of it, or something else that ranks do together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Together {
    tag: u32,
    purpose: Purpose,
    call: CallId,
    members: Box<[Rank]>,
    collect: bool,
    pub(super) deadline_ns: Option<u64>,
    pub(super) is_given_up: bool,
    /// This node knows of it. One that goes on elsewhere makes it known anew.
    #[serde(skip)]
    is_made: bool,
}

impl Together {
    /// What it takes of the memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.members)
    }
}

impl Client {
    /// What waits for an answer.
    pub(super) fn waits(&self) -> usize {
        self.fences.len() + self.calls.len() + self.names.len() + self.gets.len()
    }

    /// The ranks that are meant, of which this one has to be one, in order; nothing for all of the job.
    pub(super) fn members(&self, members: &[Process<'_>], server: &Server) -> Result<Option<Box<[Rank]>>, Status> {
        if self.waits() >= PMIX_WAITS_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let space = server.space_name().as_bytes();
        let size = server.size();
        let mut ranks: Vec<u32> = Vec::new();
        for member in members {
            if member.space != space {
                // A group is named as if it were a job; its ranks are those of its members, counted.
                let group = server.group(member.space).ok_or(Status::NOT_FOUND)?;
                let place = member.rank as usize;
                let meant = if member.rank == rank::WILDCARD { Some(group) } else { group.get(place..=place) };
                ranks.extend(meant.ok_or(Status::BAD_PARAM)?.iter().map(|rank| rank.0));
            } else if member.rank == rank::WILDCARD {
                return Ok(None);
            } else {
                ranks.push(member.rank);
            }
        }
        ranks.sort_unstable();
        ranks.dedup();
        if ranks.binary_search(&self.rank.0).is_err() || ranks.last().is_none_or(|last| *last >= size) {
            return Err(Status::BAD_PARAM);
        }
        Ok((ranks.len() < size as usize).then(|| ranks.into_iter().map(Rank).collect()))
    }

    /// Takes a fence of these. Then see [`Self::go_on_with_fences`].
    pub(super) fn begin_fence(
        &mut self,
        tag: u32,
        members: Option<Box<[Rank]>>,
        (collect, deadline_ns): (bool, Option<u64>),
    ) {
        let (is_given_up, is_made) = (false, false);
        match members {
            None => {
                let is_entered = false;
                self.fences.push_back(Fence { tag, collect, deadline_ns, is_given_up, is_entered });
            }
            Some(members) => {
                let purpose = Purpose::Fence;
                let call = purpose.call(&members);
                let together = Together { tag, purpose, call, members, collect, deadline_ns, is_given_up, is_made };
                self.calls.push(together);
            }
        }
    }

    /// Takes something else that ranks do together. Then see [`Self::go_on_with_fences`].
    pub(super) fn begin_together(
        &mut self,
        tag: u32,
        (what, wants_number): (request::Together<'_>, bool),
        members: &[Process<'_>],
        deadline_ns: Option<u64>,
        server: &Server,
    ) -> Result<(), Status> {
        let all = || (0..server.size()).map(Rank).collect();
        let members: Box<[Rank]> = match what {
            request::Together::Destruct(name) => server.group(name).ok_or(Status::NOT_FOUND)?.into(),
            request::Together::Construct(name) if name.is_empty() || name.len() > PMIX_KEY_BYTES_MAX => {
                return Err(Status::BAD_PARAM);
            }
            _ => self.members(members, server)?.unwrap_or_else(all),
        };
        if self.waits() >= PMIX_WAITS_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        if !members.contains(&self.rank) {
            return Err(Status::BAD_PARAM);
        }
        let purpose = Purpose::of(what, wants_number);
        let (call, collect, is_given_up, is_made) = (purpose.call(&members), false, false, false);
        self.calls.push(Together { tag, purpose, call, members, collect, deadline_ns, is_given_up, is_made });
        Ok(())
    }

    /// Enters those whose turn it is, and answers those that are over or have waited long enough.
    pub(super) fn go_on_with_fences(&mut self, dialect: Dialect, server: &mut Server, now_ns: u64) {
        if self.fences.front().is_some_and(|fence| fence.is_entered)
            && server.take_release(self.rank)
            && let Some(fence) = self.fences.pop_front()
            && !fence.is_given_up
        {
            self.say_status(fence.tag, dialect, Status::SUCCESS);
        }
        self.give_up_fences(dialect, server, now_ns);
        self.give_up_lost_fences(dialect, server);
        while let Some(fence) = self.fences.front().copied().filter(|fence| !fence.is_entered) {
            match self.enter(fence, dialect, server, now_ns) {
                Ok(()) => self.fences.iter_mut().take(1).for_each(|first| first.is_entered = true),
                Err(status) => {
                    self.fences.pop_front();
                    self.say_status(fence.tag, dialect, status);
                }
            }
        }
        // One that has no end waits behind one that had.
        let mut behind = self.fences.iter().skip(1);
        if self.fences.front().is_some_and(|first| first.is_entered && first.deadline_ns.is_some())
            && behind.any(|fence| fence.deadline_ns.is_none())
        {
            server.waits_without_end(self.rank, now_ns);
        }
        self.go_on_with_calls(dialect, server, now_ns);
    }

    fn enter(&self, fence: Fence, dialect: Dialect, server: &mut Server, now_ns: u64) -> Result<(), Status> {
        // Otherwise whoever wants it fetches it.
        if fence.collect && server.brings_keys() {
            server.publish(self.rank, dialect)?;
        }
        let patience = Patience { has_deadline: fence.deadline_ns.is_some(), hears_of_loss: true };
        if server.enter(self.rank, patience, now_ns) { Ok(()) } else { Err(Status::BAD_PARAM) }
    }

    /// Answers those who have waited long enough. The first one goes on waiting if other nodes count on it already.
    fn give_up_fences(&mut self, dialect: Dialect, server: &mut Server, now_ns: u64) {
        let mut late = Vec::new();
        for fence in &mut self.fences {
            if !fence.is_given_up && fence.deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns) {
                fence.is_given_up = true;
                late.push(fence.tag);
            }
        }
        for tag in late {
            self.say_status(tag, dialect, Status::TIMEOUT);
        }
        if self.fences.front().is_some_and(|fence| fence.is_given_up && fence.is_entered) && server.withdraw(self.rank)
        {
            self.fences.pop_front();
        }
        self.fences.retain(|fence| !fence.is_given_up || fence.is_entered);
    }

    /// Answers all, if the job has gone on without a rank.
    fn give_up_lost_fences(&mut self, dialect: Dialect, server: &mut Server) {
        if !server.has_lost_ranks() {
            return;
        }
        for fence in core::mem::take(&mut self.fences) {
            if fence.is_entered {
                server.leave_lost_barrier(self.rank);
            }
            if !fence.is_given_up {
                self.say_status(fence.tag, dialect, Status::UNREACHABLE);
            }
        }
    }

    fn go_on_with_calls(&mut self, dialect: Dialect, server: &mut Server, now_ns: u64) {
        let mut place = 0;
        while let Some(together) = self.calls.get(place).cloned() {
            let is_first = !self.calls.iter().take(place).any(|before| before.call == together.call);
            let outcome = if is_first { self.make(&together, dialect, server, now_ns) } else { None };
            let is_late = together.deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns);
            let is_over = match outcome {
                Some(outcome) => {
                    self.end_call(&together, outcome, dialect, server);
                    true
                }
                None if is_late && !together.is_given_up => {
                    self.say_status(together.tag, dialect, Status::TIMEOUT);
                    !is_first || server.leave_call(self.rank, together.call)
                }
                None => false,
            };
            if is_over {
                self.calls.remove(place);
                continue;
            }
            if let Some(kept) = self.calls.get_mut(place) {
                kept.is_made |= is_first;
                kept.is_given_up |= is_late;
            }
            place += 1;
        }
    }

    /// Answers a call with what came of it.
    fn end_call(&mut self, together: &Together, outcome: (Status, u64), dialect: Dialect, server: &mut Server) {
        let (mut status, number) = outcome;
        let mut answers_number = false;
        match &together.purpose {
            _ if status != Status::SUCCESS => {}
            Purpose::Fence | Purpose::Connect(_) => {}
            Purpose::Construct(name, wants_number) => {
                status = server.desk().make_group(name, &together.members).err().unwrap_or(status);
                answers_number = *wants_number && status == Status::SUCCESS;
            }
            Purpose::Destruct(name) => server.desk().remove_group(name),
        }
        if together.is_given_up {
            return;
        }
        let mut answer = Writer::new(dialect);
        answer.status(status);
        if answers_number {
            answer.packed(1).size(usize::try_from(number).unwrap_or(usize::MAX));
        }
        self.say(together.tag, &answer);
    }

    /// Makes a call whose turn it is, unless that was done; says what came of it, if it is over.
    fn make(&self, together: &Together, dialect: Dialect, server: &mut Server, now_ns: u64) -> Option<(Status, u64)> {
        let call = (self.rank, together.call);
        if !together.is_made {
            let collected = together.collect.then_some(dialect);
            if let Err(status) = server.join(call, &together.members, collected, now_ns) {
                return Some((status, 0));
            }
        }
        server.take_outcome(self.rank, together.call)
    }
}
