//! The I/O node's table of who has which lock. See the [module](super).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::limits::{LOCKS_PER_FILE_MAX, LOCKS_PER_JOB_MAX, LOCKS_PER_RANK_MAX, WAITS_PER_FILE_MAX};
use super::waits::{Line, Turn, Wait};
use super::{Locked, Span, Spans, Whose};
use crate::ids::JobId;
use crate::lease::FileId;
use crate::ship::{Handle, Owner};

/// What is locked: a file's ranges, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which file.
    pub file: FileId,
    /// It is as flock(2) has it.
    pub whole: bool,
}

impl Place {
    /// Where a lock of a file is.
    #[must_use]
    pub fn of(file: FileId, whose: Whose) -> Self {
        Self { file, whole: whose == Whose::Whole }
    }
}

/// Who has a lock, or asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The rank.
    pub owner: Owner,
    /// Its open file, if it is that one's.
    pub open: Option<Handle>,
}

impl Holder {
    /// A rank or its open file, as it asks.
    #[must_use]
    pub fn of(owner: Owner, file: Handle, whose: Whose) -> Self {
        Self { owner, open: (whose != Whose::Process).then_some(file) }
    }
}

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whose it is.
    pub holder: Holder,
    /// What is locked.
    pub span: Span,
}

impl From<Found> for Locked {
    fn from(Found { holder, span }: Found) -> Self {
        Self { owner: holder.owner, is_open_files: holder.open.is_some(), span }
    }
}

/// Why somebody does not have a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Another holder's is in the way, or somebody else's turn; who wanted to wait does.
    Taken,
    /// Who has it waits for the process that asks.
    Deadlock,
    /// There are too many.
    TooMany,
}

/// Locks of one place.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) held: BTreeMap<Holder, Spans>,
    pub(super) line: Line,
    /// Locks, all holders' together.
    count: usize,
}

impl File {
    /// The first lock that stands in the way of one.
    pub(super) fn in_the_way(&self, holder: Holder, span: &Span) -> Option<Found> {
        let others = self.held.iter().filter(|(other, _)| **other != holder);
        others.filter_map(|(other, spans)| Some(Found { holder: *other, span: spans.in_the_way(span)? })).next()
    }

    /// Whether a rank has anything of it.
    fn has(&self, owner: Owner) -> bool {
        self.held.range(Holder { owner, open: None }..).next().is_some_and(|(holder, _)| holder.owner == owner)
    }
}

/// What a rank has.
#[derive(Debug, Default)]
pub(super) struct OfRank {
    places: BTreeSet<Place>,
    /// Where it waits, by the numbers of its waits.
    pub(super) waits: BTreeMap<u32, Place>,
    locks: usize,
}

/// Who has which locks, and who waits for some.
#[derive(Debug, Default)]
pub struct Locks {
    pub(super) files: BTreeMap<Place, File>,
    pub(super) ranks: BTreeMap<Owner, OfRank>,
    jobs: BTreeMap<JobId, usize>,
    /// Waits that were called, by the time at which their turn is over.
    pub(super) turns: BTreeMap<Turn, (Place, Owner, u32)>,
    pub(super) turns_begun: u64,
}

impl Locks {
    /// Somebody wants a lock at that time. With `wait`, a number of its own, it waits if that is taken, or goes on
    /// waiting; its place in line stays. Who is called by it is put into `called`.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn lock(
        &mut self,
        (place, holder): (Place, Holder),
        span: Span,
        wait: Option<u32>,
        now_ns: u64,
        called: &mut Vec<Owner>,
    ) -> Result<(), Denied> {
        let owner = holder.owner;
        let file = self.files.entry(place).or_default();
        let had = file.held.get(&holder).and_then(|spans| spans.all().first()).filter(|_| place.whole).copied();
        if had.is_some_and(|had| had.exclusive == span.exclusive) {
            self.withdraw(owner, wait, now_ns, called);
            return Ok(());
        }
        // What is locked as a whole is unlocked before it is locked otherwise, as on Linux.
        let gives_up = had.is_some();
        if gives_up {
            self.forget(place, holder);
        }
        let Some(file) = self.files.get(&place) else { return Err(Denied::Taken) };
        let waits_already = wait.is_some_and(|wait| file.line.has(owner, wait));
        let is_taken =
            file.in_the_way(holder, &span).is_some() || !gives_up && file.line.is_anothers_turn(holder, &span, wait);
        let result = if is_taken {
            self.is_taken((place, holder), span, wait, waits_already)
        } else {
            self.grant((place, holder), span, wait, waits_already)
        };
        self.call(place, now_ns, called);
        self.tidy(place);
        result
    }

    fn is_taken(
        &mut self,
        (place, holder): (Place, Holder),
        span: Span,
        wait: Option<u32>,
        waits_already: bool,
    ) -> Result<(), Denied> {
        let Some(wait) = wait else { return Err(Denied::Taken) };
        let owner = holder.owner;
        if holder.open.is_none() && self.waits_for_itself((place, holder), &span) {
            self.take_from_line(owner, wait);
            return Err(Denied::Deadlock);
        }
        if waits_already {
            self.goes_on_waiting(place, owner, wait);
            return Err(Denied::Taken);
        }
        let waits = self.files.get(&place).map_or(0, |file| file.line.count());
        if waits >= WAITS_PER_FILE_MAX || !self.has_room(owner, 1) {
            return Err(Denied::TooMany);
        }
        self.take_from_line(owner, wait);
        if let Some(file) = self.files.get_mut(&place) {
            file.line.add(Wait::new(holder, span, wait));
        }
        self.ranks.entry(owner).or_default().waits.insert(wait, place);
        self.count(owner.job, 0, 1);
        Err(Denied::Taken)
    }

    fn grant(
        &mut self,
        (place, holder): (Place, Holder),
        span: Span,
        wait: Option<u32>,
        waits_already: bool,
    ) -> Result<(), Denied> {
        let owner = holder.owner;
        let room = |file: &File| file.count + 2 <= LOCKS_PER_FILE_MAX;
        // One may become two, with another between them.
        if !self.files.get(&place).is_some_and(room) || !self.has_room(owner, 2) {
            return Err(Denied::TooMany);
        }
        if waits_already && let Some(wait) = wait {
            self.take_from_line(owner, wait);
        }
        self.change((place, holder), |spans| spans.lock(span));
        Ok(())
    }

    /// What stands in the way of a lock.
    #[must_use]
    pub fn test(&self, place: Place, holder: Holder, span: &Span) -> Option<Found> {
        self.files.get(&place)?.in_the_way(holder, span)
    }

    /// A holder has none of these bytes locked any more.
    ///
    /// # Errors
    /// [`Denied::TooMany`]: two would be left of one, and that is one too many.
    pub fn unlock(
        &mut self,
        (place, holder): (Place, Holder),
        (first, last): (u64, u64),
        now_ns: u64,
        called: &mut Vec<Owner>,
    ) -> Result<(), Denied> {
        let Some(file) = self.files.get(&place) else { return Ok(()) };
        let Some(spans) = file.held.get(&holder) else { return Ok(()) };
        let splits = spans.within(first, last).first().is_some_and(|span| span.first < first && span.last > last);
        if splits && (file.count >= LOCKS_PER_FILE_MAX || !self.has_room(holder.owner, 1)) {
            return Err(Denied::TooMany);
        }
        self.change((place, holder), |spans| spans.unlock(first, last));
        self.call(place, now_ns, called);
        self.tidy(place);
        Ok(())
    }

    /// Somebody does not wait any more.
    pub fn withdraw(&mut self, owner: Owner, wait: Option<u32>, now_ns: u64, called: &mut Vec<Owner>) {
        if let Some(place) = wait.and_then(|wait| self.take_from_line(owner, wait)) {
            self.call(place, now_ns, called);
            self.tidy(place);
        }
    }

    /// An open file is no more. `is_last`: its rank has the file open by no other.
    pub fn closed(
        &mut self,
        (owner, open): (Owner, Handle),
        file: FileId,
        is_last: bool,
        now_ns: u64,
        called: &mut Vec<Owner>,
    ) {
        for whole in [false, true] {
            let place = Place { file, whole };
            self.forget(place, Holder { owner, open: Some(open) });
            if is_last {
                self.forget(place, Holder { owner, open: None });
            }
            self.call(place, now_ns, called);
            self.tidy(place);
        }
    }

    /// A rank is no more.
    pub fn gone(&mut self, owner: Owner, now_ns: u64, called: &mut Vec<Owner>) {
        let Some(of) = self.ranks.get(&owner) else { return };
        let (mut places, waits) = (of.places.clone(), of.waits.clone());
        for (wait, place) in waits {
            self.take_from_line(owner, wait);
            places.insert(place);
        }
        for place in places {
            let held = self.files.get(&place).into_iter().flat_map(|file| file.held.keys());
            let holders: Vec<Holder> = held.filter(|holder| holder.owner == owner).copied().collect();
            for holder in holders {
                self.forget(place, holder);
            }
            self.call(place, now_ns, called);
            self.tidy(place);
        }
    }

    /// How many there are: places, and ranks with locks or waits.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        (self.files.len(), self.ranks.len())
    }

    fn has_room(&self, owner: Owner, more: usize) -> bool {
        let of_rank = self.ranks.get(&owner).map_or(0, |of| of.locks + of.waits.len());
        let of_job = self.jobs.get(&owner.job).copied().unwrap_or(0);
        of_rank + more <= LOCKS_PER_RANK_MAX && of_job + more <= LOCKS_PER_JOB_MAX
    }

    /// A holder has none of a place's locks any more.
    fn forget(&mut self, place: Place, holder: Holder) {
        if self.files.get(&place).is_some_and(|file| file.held.contains_key(&holder)) {
            self.change((place, holder), |spans| *spans = Spans::new());
        }
    }

    /// Changes what a holder has.
    fn change(&mut self, (place, holder): (Place, Holder), change: impl FnOnce(&mut Spans)) {
        let Some(file) = self.files.get_mut(&place) else { return };
        let spans = file.held.entry(holder).or_default();
        let before = spans.count();
        change(spans);
        let now = spans.count();
        file.count = file.count + now - before;
        if now == 0 {
            file.held.remove(&holder);
        }
        let has_any = file.has(holder.owner);
        let of = self.ranks.entry(holder.owner).or_default();
        of.locks = of.locks + now - before;
        if has_any {
            of.places.insert(place);
        } else {
            of.places.remove(&place);
        }
        self.count(holder.owner.job, before, now);
        self.tidy_rank(holder.owner);
    }

    /// A job has so many more or less, of what it had so many of.
    pub(super) fn count(&mut self, job: JobId, before: usize, now: usize) {
        let of_job = self.jobs.entry(job).or_default();
        *of_job = *of_job + now - before;
        if *of_job == 0 {
            self.jobs.remove(&job);
        }
    }

    /// A rank is not known if it has nothing and waits for nothing.
    pub(super) fn tidy_rank(&mut self, owner: Owner) {
        if self.ranks.get(&owner).is_some_and(|of| of.places.is_empty() && of.waits.is_empty()) {
            self.ranks.remove(&owner);
        }
    }

    /// Nor is a place of which nobody has or wants anything.
    fn tidy(&mut self, place: Place) {
        if self.files.get(&place).is_some_and(|file| file.held.is_empty() && file.line.count() == 0) {
            self.files.remove(&place);
        }
    }
}
