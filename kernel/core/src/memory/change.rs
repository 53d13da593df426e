//! Changes of a process's memory that may take long, in steps.
//!
//! What is mapped where changes at once: the areas say what is so. What follows of it for pages that are in memory
//! (they go, get other rights, move) is a [`Change`], which the address space keeps, and which is done in steps of
//! bounded length ([`AddressSpace::step`]). Between two steps the address space is free for its other threads, and the
//! core for whoever wants it.
//!
//! - **One change at a time.** Whoever wants to begin another one goes on with that under way until it is over. So a
//!   change belongs to nobody: a thread that began one and goes away leaves nothing half done, as whoever comes next
//!   finishes it; at a process's end that is who takes its memory apart.
//! - **What others see meanwhile.** A page that goes, or loses a right, may still be used until the call that asked for
//!   it has returned, as on Linux. A page that is to be seen otherwise from now on (because something is mapped over
//!   it, or because it moves) may be used as it was, but nothing is brought in where it lies: its range is *closed*,
//!   and a touch that would need a page there waits until the change is over ([`super::Source::Change`]).
//! - **A move loses nothing.** The tables that its pages will need are made first, while the pages still lie where they
//!   were; only that can fail, and then the tables are taken away again and nothing has changed. Nobody else gives up
//!   tables of this address space meanwhile, as that takes a change.

use coppice_hal::addr::{PageRange, UserPage};
use coppice_hal::paging::{Access, Effort, Marks, Verdict};

use super::area::Area;
use super::fault::Resolution;
use super::fetch::{Fetch, Source};
use super::limits::{PAGE, STEP_PAGES};
use super::space::AddressSpace;
use crate::errno::Errno;

/// Pages that are looked up at once to be moved.
const MOVED_AT_ONCE: usize = 32;

/// A piece of a change.
enum Work {
    /// Pages leave the table.
    Drop(PageRange),
    /// Pages get the rights of their area, which are these.
    Protect(PageRange, Access),
    /// Tables are made for pages that are to move, of which these are left.
    Prepare(Move, PageRange),
    /// Those that were made are taken away again, as far as they are for these pages.
    TakeAway(Move, PageRange),
    /// Pages move.
    Move(Move, PageRange),
}

/// A run of pages and where it goes.
#[derive(Clone, Copy)]
struct Move {
    from: PageRange,
    /// Address that the run's first page will have.
    to: u64,
    /// Address behind the area there.
    end: u64,
}

impl Move {
    /// Where a page of the run goes.
    fn target(&self, page: UserPage) -> Option<UserPage> {
        UserPage::containing(self.to + (page.number() - self.from.first_number()) * PAGE)
    }
}

/// A change under way.
#[derive(Default)]
pub(super) struct Change {
    /// What is left to be done, in order.
    work: [Option<Work>; 3],
    /// Where no page is brought in until it is over.
    closed: [Option<PageRange>; 2],
}

impl Change {
    /// Pages of `start..end` leave the table.
    pub(super) fn drop(start: u64, end: u64) -> Self {
        Self::default().and(PageRange::covering(start, end).map(Work::Drop))
    }

    /// Pages of `start..end` get the rights of their areas, which are `access`.
    pub(super) fn protect(start: u64, end: u64, access: Access) -> Self {
        Self::default().and(PageRange::covering(start, end).map(|range| Work::Protect(range, access)))
    }

    /// After what is to be done so far, pages of `start..end` leave the table.
    pub(super) fn and_drop(self, start: u64, end: u64) -> Self {
        self.and(PageRange::covering(start, end).map(Work::Drop))
    }

    /// After what is to be done so far, the `length` bytes at `address`, all of one area, go to `to`, where nothing
    /// will be; the area there ends at `end`.
    pub(super) fn and_move(mut self, address: u64, length: u64, to: u64, end: u64) -> Self {
        let Some(from) = PageRange::covering(address, address + length) else { return self };
        self.closed = [Some(from), PageRange::covering(to, end)];
        self.and(Some(Work::Prepare(Move { from, to, end }, from)))
    }

    /// No page is brought in there until all of it is done.
    pub(super) fn closing(mut self, start: u64, end: u64) -> Self {
        self.closed = [PageRange::covering(start, end), None];
        self
    }

    fn and(mut self, work: Option<Work>) -> Self {
        if let Some(place) = self.work.iter_mut().find(|place| place.is_none()) {
            *place = work;
        }
        self
    }

    /// Takes the next piece out.
    fn next(&mut self) -> Option<Work> {
        let next = self.work[0].take();
        self.work.rotate_left(1);
        next
    }

    /// Puts back what is left of a piece.
    fn put_back(&mut self, rest: Option<Work>) {
        if rest.is_some() {
            self.work.rotate_right(1);
            self.work[0] = rest;
        }
    }
}

/// A number that tells a change from those before and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeNumber(u64);

/// What became of changes.
pub(super) struct Changes {
    /// Pages of a step.
    pub(super) step_pages: u32,
    under_way: Option<Change>,
    /// The last one that began.
    last: ChangeNumber,
    /// The one that could not be done, if who began it has not heard of that yet.
    failed: Option<(ChangeNumber, Errno)>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { step_pages: STEP_PAGES, under_way: None, last: ChangeNumber::default(), failed: None }
    }
}

impl Changes {
    /// What became of a change that is over.
    fn outcome(&mut self, number: ChangeNumber) -> Result<(), Errno> {
        match self.failed.take_if(|(failed, _)| *failed == number) {
            Some((_, errno)) => Err(errno),
            None => Ok(()),
        }
    }
}

impl AddressSpace {
    /// Goes on with the change under way, but not for long. Returns whether there is none any more.
    pub fn step(&mut self) -> bool {
        let mut effort = Effort::of(self.changes.step_pages);
        self.step_with(&mut effort)
    }

    /// As [`AddressSpace::step`], with so much effort.
    pub(super) fn step_with(&mut self, effort: &mut Effort) -> bool {
        let Some(mut change) = self.changes.under_way.take() else { return true };
        while !effort.is_spent() {
            let Some(work) = change.next() else { return true };
            let rest = self.work(work, effort);
            change.put_back(rest);
        }
        self.changes.under_way = Some(change);
        false
    }

    /// Whether a change may begin now: none is under way, and nobody has still to hear that one failed. If not, that
    /// under way has come on a step.
    #[must_use]
    pub fn may_change(&mut self) -> bool {
        self.step() && self.changes.failed.is_none()
    }

    /// The change that the last call has begun, if that is not over.
    #[must_use]
    pub fn unfinished(&self) -> Option<ChangeNumber> {
        self.changes.under_way.as_ref().map(|_| self.changes.last)
    }

    /// Goes on with the change with this number, but not for long. Returns what became of it, once, when it is over.
    pub fn finish(&mut self, number: ChangeNumber) -> Option<Result<(), Errno>> {
        // Others may have finished it, and begun another since.
        let is_over = number != self.changes.last || self.step();
        is_over.then(|| self.changes.outcome(number))
    }

    /// What whoever wants to go on with its memory at `address` has to wait for, while a change is under way.
    #[must_use]
    pub fn await_change(&self, address: u64) -> Fetch {
        Fetch::of_change(address)
    }

    /// Begins a change and takes its first step. If that was the last, too, gives what became of it.
    ///
    /// # Errors
    /// The change could not be done.
    pub(super) fn begin(&mut self, change: Change) -> Result<(), Errno> {
        // Whoever may have to wait has asked before: see `may_change`.
        while !self.step() {}
        let number = ChangeNumber(self.changes.last.0 + 1);
        self.changes.last = number;
        self.changes.under_way = Some(change);
        if self.step() { self.changes.outcome(number) } else { Ok(()) }
    }

    /// Whether nothing is to be brought in at a page now.
    pub(super) fn is_closed(&self, page: UserPage) -> bool {
        let Some(change) = &self.changes.under_way else { return false };
        change.closed.iter().flatten().any(|range| range.contains(page))
    }

    /// Does a part of a piece of work, and gives what is left of it, or what comes then.
    fn work(&mut self, work: Work, effort: &mut Effort) -> Option<Work> {
        match work {
            Work::Drop(range) => {
                let (walked, rest) = self.table.walk_part(range, effort, |_, _| Verdict::Drop);
                self.stats.pages -= walked.dropped;
                (!rest.is_empty()).then_some(Work::Drop(rest))
            }
            Work::Protect(range, access) => {
                let (_, rest) = self.table.walk_part(range, effort, |_, entry| {
                    let marks = entry.get().marks;
                    let allowed = match marks.contains(Marks::COPY_ON_WRITE) {
                        true => access.read_only(),
                        false => access,
                    };
                    entry.set(allowed, marks);
                    Verdict::Keep
                });
                (!rest.is_empty()).then_some(Work::Protect(rest, access))
            }
            Work::Prepare(what, range) => self.prepare(what, range, effort),
            Work::TakeAway(what, range) => {
                let (pages, rest) = self.next_pages(range, effort);
                pages.iter().flatten().filter_map(|page| what.target(*page)).for_each(|page| self.table.prune(page));
                (!rest.is_empty()).then_some(Work::TakeAway(what, rest))
            }
            Work::Move(what, range) => {
                let (pages, rest) = self.next_pages(range, effort);
                self.table.together(|table| {
                    for (page, target) in pages.iter().flatten().filter_map(|page| Some((*page, what.target(*page)?))) {
                        assert!(table.relocate(page, target), "the tables were made, and nothing is brought in there");
                    }
                });
                // Only at the end are the tables taken away that are left empty: before, one that the run has left may
                // be one that was made for pages further on in it.
                Some(if rest.is_empty() { Work::Drop(what.from) } else { Work::Move(what, rest) })
            }
        }
    }

    /// Makes the tables that pages will need where they go. When all are there the areas say so, and the pages go.
    fn prepare(&mut self, what: Move, range: PageRange, effort: &mut Effort) -> Option<Work> {
        let (pages, rest) = self.next_pages(range, effort);
        for page in pages.into_iter().flatten() {
            let Some(target) = what.target(page) else { continue };
            if !self.prepare_table(target) {
                self.changes.failed = Some((self.changes.last, Errno::ENOMEM));
                return Some(Work::TakeAway(what, what.from.up_to(page)));
            }
        }
        if !rest.is_empty() {
            return Some(Work::Prepare(what, rest));
        }
        self.move_area(what);
        Some(Work::Move(what, what.from))
    }

    /// Makes the tables on the way to a page, if there is memory for them.
    fn prepare_table(&mut self, page: UserPage) -> bool {
        loop {
            if self.table.prepare(page) {
                return true;
            }
            if !self.give_up() {
                return false;
            }
        }
    }

    /// The area goes, so that from now on its pages are asked for where they will be.
    fn move_area(&mut self, what: Move) {
        let (address, bytes) = (what.from.first_number() * PAGE, what.from.count() * PAGE);
        let Some((start, area)) = self.areas.find(address) else { return };
        let area = Area { end: what.end, content: area.content.advanced(address - start), ..area.clone() };
        self.areas.remove(address, address + bytes);
        self.areas.insert(what.to, area);
    }

    /// The next pages of a range that are in memory, and what of the range comes behind them.
    fn next_pages(&self, range: PageRange, effort: &mut Effort) -> ([Option<UserPage>; MOVED_AT_ONCE], PageRange) {
        let mut pages = [None; MOVED_AT_ONCE];
        let mut places = pages.iter_mut();
        let mut part = Effort::of(MOVED_AT_ONCE as u32);
        let rest = self.table.look(range, &mut part, |page| {
            if let Some(place) = places.next() {
                *place = Some(page);
            }
        });
        // What is done with each of them costs about as much as its visit.
        effort.spend(2 * MOVED_AT_ONCE as u32);
        (pages, rest)
    }

    /// Brings pages of `start..end` into memory, but not for long. Returns where it has come to, which is `end` if
    /// there is nothing left to be done, and what must be fetched before it goes on there.
    pub fn populate(&mut self, start: u64, end: u64, access: Access) -> (u64, Option<Fetch>) {
        let limit = end.min(start.saturating_add(u64::from(STEP_PAGES) * PAGE));
        let mut at = start;
        while at < limit {
            if self.frames.available_frames() == 0 {
                return (end, None);
            }
            match self.resolve(at, access) {
                Resolution::Ready => at += PAGE,
                Resolution::Fetch(fetch) => return (at, Some(fetch)),
                Resolution::Signal(_) | Resolution::OutOfMemory => return (end, None),
            }
        }
        (at, None)
    }

    /// Finishes the change under way and forgets what became of it: the process is at its end. Returns whether that is
    /// done; it is not for long otherwise.
    pub(super) fn end_changes(&mut self, effort: &mut Effort) -> bool {
        let over = self.step_with(effort);
        if over {
            self.changes = Changes::default();
        }
        over
    }
}

impl Fetch {
    /// Nothing is to be read, but a change is to be over.
    fn of_change(address: u64) -> Self {
        Self::nothing(Source::Change, address)
    }
}
