//! Calls that are under way outside, and whose turn it is to wait for the disk.
//!
//! A call is answered once: when it is done, or with `EIO` as soon as its rank has ended, whom nothing is owed any
//! more. What is done on a thread goes on there, and keeps its place among those of its rank and its job, but none of
//! its node's: a mount that never answers is not to keep the node from others.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::lease::FileId;
use coppice_protocol::session::Identity;
use coppice_protocol::ship::{Call, Handle, Owner, Reply, RequestId};
use rustix::io::Errno;

use super::effect::{Answer, Effect, PlaceId};
use super::jobs::Job;
use super::leases::{Opening, Party};
use super::manifests::ToCheck;
use super::names::AboutNames;
use super::{Machine, Now};
use crate::limits::{BLOCKING_THREADS_PER_JOB_MAX, BLOCKING_THREADS_PER_RANK_MAX};

/// A call that is done outside; no two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One of them: who is to be answered, and whose it is.
#[derive(Debug)]
struct UnderWay {
    identity: Identity,
    request: RequestId,
    owner: Owner,
    place: PlaceId,
    /// It was answered already.
    is_answered: bool,
    stage: Stage,
    about: About,
    names: AboutNames,
    /// The file that it changes by a handle.
    changes: Option<Handle>,
    /// What it looks up, if that is to be taken up.
    looks_up: Option<Box<Call>>,
}

impl UnderWay {
    fn party(&self) -> Party {
        Machine::party(self.identity.node, self.place, self.owner.job)
    }
}

/// What it means for files that nodes have leases of.
#[derive(Debug)]
enum About {
    /// Nothing.
    Nothing,
    /// It opens one.
    Open(Box<Opening>),
    /// It closes one.
    Close(Handle),
    /// It looks at one that is not open, and is to be made again if somebody has not written all of it.
    Look(Call),
    /// Nobody makes it: it looks whether the host has changed one.
    Host(FileId),
    /// It asks what is in a manifest.
    Manifest(ToCheck),
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Being done without a thread that may wait for the disk, or being tried.
    Out,
    /// Prepared, until it is its turn among the calls of its rank, and then of its job.
    InLine,
    /// On a thread that may wait for the disk.
    OnThread,
    /// Done, until others have given leases back.
    ForLease,
}

/// Those of a rank, or of a job, that have a thread or stand in line for one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: usize,
    line: VecDeque<CallId>,
}

impl Turns {
    /// Whether it is this one's turn; else it stands in line.
    fn take(&mut self, call: CallId, max: usize) -> bool {
        let is_free = self.taken < max;
        if is_free {
            self.taken += 1;
        } else {
            self.line.push_back(call);
        }
        is_free
    }

    /// One is done: whose turn it is then, which takes its place.
    fn give(&mut self) -> Option<CallId> {
        let next = self.line.pop_front();
        if next.is_none() {
            self.taken -= 1;
        }
        next
    }

    /// One does not want its turn any more. True: it had not come.
    fn leave(&mut self, call: CallId) -> bool {
        let before = self.line.len();
        self.line.retain(|other| *other != call);
        self.line.len() < before
    }
}

/// All of them: at most as many as nodes have slots, and those on threads whose ranks have ended.
#[derive(Debug, Default)]
pub(super) struct Calls {
    table: BTreeMap<CallId, UnderWay>,
    begun: u64,
}

impl Calls {
    /// How many are under way.
    pub(super) fn count(&self) -> usize {
        self.table.len()
    }

    /// One that opens a file and is not answered yet: where its rank is, and whose it is.
    pub(super) fn opening(&mut self, id: CallId) -> Option<(NodeId, PlaceId, Owner, &mut Opening)> {
        let call = self.table.get_mut(&id).filter(|call| !call.is_answered)?;
        let About::Open(opening) = &mut call.about else { return None };
        Some((call.identity.node, call.place, call.owner, opening))
    }

    /// One that looks at a file and is not answered yet: where its rank is, and whose it is.
    pub(super) fn looking(&self, id: CallId) -> Option<(NodeId, PlaceId, Owner)> {
        let call = self.table.get(&id).filter(|call| !call.is_answered && matches!(call.about, About::Look(_)))?;
        Some((call.identity.node, call.place, call.owner))
    }

    /// One that waits until names may be changed, and is not answered yet.
    pub(super) fn waiting_for_names(&mut self, id: CallId) -> Option<(Party, Owner, &mut AboutNames)> {
        let call = self.table.get_mut(&id).filter(|call| call.names.is_waiting() && !call.is_answered)?;
        Some((call.party(), call.owner, &mut call.names))
    }

    /// Whether it is being looked whether the host has changed files.
    pub(super) fn are_looking_for_host(&self) -> bool {
        self.table.values().any(|call| matches!(call.about, About::Host(_)))
    }

    /// One does not wait any more.
    pub(super) fn goes_out(&mut self, id: CallId) {
        if let Some(call) = self.table.get_mut(&id) {
            call.stage = Stage::Out;
        }
    }

    /// One waits for leases.
    pub(super) fn waits_for_lease(&mut self, id: CallId) {
        if let Some(call) = self.table.get_mut(&id) {
            call.stage = Stage::ForLease;
        }
    }

    /// Whether calls are being made that change a file by this handle.
    pub(super) fn are_changing(&self, (place, owner): (PlaceId, Owner), handle: Handle) -> bool {
        let is_it = |call: &UnderWay| call.owner == owner && call.place == place && call.changes == Some(handle);
        self.table.values().any(is_it)
    }

    /// Whether one waits for leases.
    pub(super) fn is_waiting_for_lease(&self, id: CallId) -> bool {
        self.table.get(&id).is_some_and(|call| call.stage == Stage::ForLease && !call.is_answered)
    }
}

/// What a call needs outside.
pub(super) enum Outside {
    /// Data of files, pages, or objects of checkpoints.
    Data(Call, Vec<u8>),
    /// Everything else.
    Names(Call),
}

impl Machine {
    /// Has a call of a rank done outside.
    pub(super) fn do_outside(
        &mut self,
        identity: Identity,
        request: RequestId,
        (owner, place, has_leases): (Owner, PlaceId, bool),
        mut what: Outside,
        now: Now,
    ) {
        self.calls.begun += 1;
        let id = CallId(self.calls.begun);
        let rank = owner.rank;
        let (names, waits) = match &mut what {
            Outside::Names(call) if has_leases => self.names_begin(Self::party(identity.node, place, owner.job), call),
            _ => (AboutNames::nothing(), false),
        };
        let about = match &mut what {
            Outside::Names(Call::Open { flags, .. }) if has_leases => match Opening::of(*flags) {
                Some((opening, opened_with)) => {
                    *flags = opened_with;
                    About::Open(Box::new(opening))
                }
                None => About::Nothing,
            },
            Outside::Names(Call::Close(handle)) => About::Close(*handle),
            Outside::Names(call @ Call::Stat { .. }) if has_leases => About::Look(call.clone()),
            Outside::Names(Call::Manifest { made, entries }) => {
                About::Manifest(self.manifest_to_check(owner.job, (*made, *entries)))
            }
            _ => About::Nothing,
        };
        let looks_up = match &what {
            Outside::Names(call) if has_leases && call.looks_at_names() => Some(Box::new(call.clone())),
            _ => None,
        };
        let changes = match &what {
            Outside::Data(call, _) | Outside::Names(call) => call.changes_file(),
        };
        let (is_answered, stage) = (false, Stage::Out);
        let mut call =
            UnderWay { identity, request, owner, place, is_answered, stage, about, names, changes, looks_up };
        let what = match what {
            Outside::Names(what) if waits => {
                call.names.waits_with(what);
                self.calls.table.insert(id, call);
                return self.wait_for_names(id, now);
            }
            what => what,
        };
        let to_check = if let About::Manifest(to_check) = &call.about { Some(to_check.clone()) } else { None };
        self.calls.table.insert(id, call);
        self.effects.push(match (what, to_check) {
            (Outside::Data(call, bulk), _) => Effect::Try { id, place, rank, call, bulk },
            (Outside::Names(_), Some(to_check)) => Effect::Manifest { id, place, rank, to_check },
            (Outside::Names(call), None) => Effect::Names { id, place, rank, call },
        });
    }

    /// What was tried may have to wait for the disk: it is prepared, and run when it is its turn.
    pub fn waits(&mut self, id: CallId, now: Now) {
        let Some(call) = self.calls.table.get_mut(&id) else { return };
        let job = self.jobs.at(call.owner.job, call.place);
        let Some(job) = job.filter(|_| !call.is_answered) else {
            // Nobody is owed it any more.
            self.effects.push(Effect::Cancel(id));
            return self.will_not_be_made(id, now);
        };
        call.stage = Stage::InLine;
        let is_turn =
            job.ranks.get_mut(call.owner.rank).is_some_and(|rank| rank.turns.take(id, BLOCKING_THREADS_PER_RANK_MAX))
                && job.turns.take(id, BLOCKING_THREADS_PER_JOB_MAX);
        if is_turn {
            self.run(id);
        }
    }

    fn run(&mut self, id: CallId) {
        if let Some(call) = self.calls.table.get_mut(&id) {
            call.stage = Stage::OnThread;
            self.effects.push(Effect::Run(id));
        }
    }

    /// A call is done, or a step of one.
    pub fn done(&mut self, id: CallId, answer: Answer, now: Now) {
        let answer = match self.calls.table.get_mut(&id) {
            Some(call) => call.names.hear(answer),
            None => answer,
        };
        let answer = match self.calls.opening(id) {
            Some(_) => self.open_goes_on(id, answer, now),
            None => self.look_goes_on(id, answer, now),
        };
        if let Some(answer) = answer {
            self.finish(id, answer, now);
        }
    }

    /// A call that waited for leases is made again.
    pub(super) fn look_again(&mut self, id: CallId) {
        let Some(call) = self.calls.table.get_mut(&id) else { return };
        let About::Look(look) = &call.about else { return };
        call.stage = Stage::Out;
        let (place, rank, call) = (call.place, call.owner.rank, look.clone());
        self.effects.push(Effect::Names { id, place, rank, call });
    }

    /// A call is done, with this answer.
    pub(super) fn finish(&mut self, id: CallId, mut answer: Answer, now: Now) {
        let Some(call) = self.calls.table.remove(&id) else { return };
        if let About::Manifest(checked) = &call.about {
            self.manifest_checked(call.owner.job, checked, &mut answer.0);
        } else if let Some(looked_up) = &call.looks_up {
            self.take_up(call.owner.job, looked_up, &answer, call.names.is_plain());
        }
        let kept = self.names_end(call.party(), &call.names);
        if let (About::Host(file), (Reply::Status(status), _)) = (&call.about, &answer) {
            self.host_has(*file, status, now);
        }
        self.changed_late(&call, now);
        if let About::Close(handle) = call.about {
            let status = if let (Reply::Status(status), _) = &answer { Some(status) } else { None };
            let party = Self::party(call.identity.node, call.place, call.owner.job);
            self.closed_handle((party, call.owner), handle, status, now);
            self.unlock_closed(call.owner, handle, now);
        }
        if call.stage == Stage::OnThread
            && let Some(job) = self.jobs.at(call.owner.job, call.place)
        {
            let next = next_turns(job, call.owner);
            next.into_iter().flatten().for_each(|id| self.run(id));
        }
        if !call.is_answered {
            if let (Reply::Opened { handle, status, .. }, _) = &answer {
                self.may_be_locked(call.owner, *handle, status);
            }
            let answer = self.keepable(call.names, kept, answer);
            self.answer(call.identity, call.request, answer, now);
        }
    }

    /// A call that nobody is owed will not be made.
    fn will_not_be_made(&mut self, id: CallId, now: Now) {
        if let Some(call) = self.calls.table.remove(&id) {
            self.changed_late(&call, now);
        }
    }

    /// A call of a rank that may have ended changes a file no longer.
    fn changed_late(&mut self, call: &UnderWay, now: Now) {
        if let Some(handle) = call.changes.filter(|_| call.is_answered)
            && !self.calls.are_changing((call.place, call.owner), handle)
        {
            self.closed_handle((call.party(), call.owner), handle, None, now);
        }
    }

    /// Closes a file that nobody knows of.
    pub(super) fn close_unknown(&mut self, whose: (PlaceId, Owner), handle: Handle) {
        self.for_nobody(whose, Call::Close(handle), About::Nothing);
    }

    /// Looks whether the host has changed a file that a rank has open.
    pub(super) fn look_for_host(&mut self, whose: (PlaceId, Owner), handle: Handle, file: FileId) {
        self.for_nobody(whose, Call::HandleStat(handle), About::Host(file));
    }

    /// Has something done that nobody is answered.
    fn for_nobody(&mut self, (place, owner): (PlaceId, Owner), call: Call, about: About) {
        let node = self.jobs.at(owner.job, place).and_then(|job| job.ranks.get(owner.rank)).map(|rank| rank.node);
        let Some(node) = node else { return };
        self.calls.begun += 1;
        let id = CallId(self.calls.begun);
        let identity = Identity { node, generation: Generation(0) };
        let (request, stage) = (RequestId::new(0, 0), Stage::Out);
        let names = AboutNames::nothing();
        let under_way = UnderWay {
            identity,
            request,
            owner,
            place,
            is_answered: true,
            stage,
            about,
            names,
            changes: None,
            looks_up: None,
        };
        self.calls.table.insert(id, under_way);
        self.effects.push(Effect::Names { id, place, rank: owner.rank, call });
    }

    /// A rank has ended: its calls are answered, and those that were not begun are not any more.
    pub(super) fn owe_nothing(&mut self, owner: Owner, place: PlaceId, now: Now) {
        let is_its = |call: &UnderWay| call.owner == owner && call.place == place && !call.is_answered;
        let mut owed = Vec::new();
        for (id, call) in self.calls.table.iter_mut().filter(|(_, call)| is_its(call)) {
            call.is_answered = true;
            owed.push((*id, call.stage, call.identity, call.request));
        }
        let in_line = |stage: Stage| stage == Stage::InLine;
        if let Some(job) = self.jobs.at(owner.job, place) {
            leave_lines(job, owner, owed.iter().filter(|owed| in_line(owed.1)).map(|owed| owed.0));
        }
        for (id, stage, identity, request) in owed {
            if stage != Stage::Out
                && stage != Stage::OnThread
                && let Some(call) = self.calls.table.remove(&id)
            {
                self.names_end(call.party(), &call.names);
            }
            if in_line(stage) {
                self.effects.push(Effect::Cancel(id));
            }
            self.answer(identity, request, failed(Errno::IO), now);
        }
    }
}

/// A call of that rank has given its thread back: which calls have one now. The rank's next one stands in the job's
/// line first.
fn next_turns(job: &mut Job, owner: Owner) -> [Option<CallId>; 2] {
    let of_rank = job.ranks.get_mut(owner.rank).and_then(|rank| rank.turns.give());
    let of_job = job.turns.give();
    let more = of_rank.filter(|call| job.turns.take(*call, BLOCKING_THREADS_PER_JOB_MAX));
    [of_job, more]
}

/// Calls of that rank, all that stand in line, leave the lines they stand in.
fn leave_lines(job: &mut Job, owner: Owner, calls: impl Iterator<Item = CallId>) {
    for call in calls {
        let was_in_jobs = job.turns.leave(call);
        if let Some(rank) = job.ranks.get_mut(owner.rank) {
            rank.turns.line.clear();
            if was_in_jobs {
                rank.turns.give();
            }
        }
    }
}

/// The answer that says that a call failed.
pub(crate) fn failed(error: Errno) -> Answer {
    let number = u16::try_from(error.raw_os_error()).unwrap_or(u16::MAX);
    (Reply::Failed(number), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::{CallId, Turns};

    #[test]
    fn turns_come_in_order_and_are_given_on() {
        let mut turns = Turns::default();
        assert!(turns.take(CallId(1), 2) && turns.take(CallId(2), 2));
        assert!(!turns.take(CallId(3), 2) && !turns.take(CallId(4), 2) && !turns.take(CallId(5), 2));
        assert!(turns.leave(CallId(4)) && !turns.leave(CallId(1)));
        assert_eq!(turns.give(), Some(CallId(3)));
        assert_eq!((turns.give(), turns.taken), (Some(CallId(5)), 2));
        assert_eq!((turns.give(), turns.give(), turns.taken), (None, None, 0));
    }
}
