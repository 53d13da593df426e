//! Those who wait for a lock, and whose turn it is.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::Span;
use super::limits::{DEADLOCK_STEPS_MAX, TURN_NS};
use super::table::{File, Holder, Locks, Place};
use crate::ship::Owner;

/// When a turn is over, ns, and a number that no other has.
pub(super) type Turn = (u64, u64);

/// How it is with one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Others have what it waits for.
    Waits,
    /// It was called, and others do not get it until then.
    Called(Turn),
    /// It was called, and did not come.
    Late,
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Wait {
    holder: Holder,
    span: Span,
    /// Its rank's number of it.
    number: u32,
    state: State,
}

impl Wait {
    /// It was not called.
    pub(super) fn new(holder: Holder, span: Span, number: u32) -> Self {
        Self { holder, span, number, state: State::Waits }
    }

    fn is(&self, owner: Owner, number: u32) -> bool {
        self.holder.owner == owner && self.number == number
    }
}

/// Those who wait at one place, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Line {
    waits: VecDeque<Wait>,
}

impl Line {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.waits.len()
    }

    /// Whether one is there.
    pub(super) fn has(&self, owner: Owner, number: u32) -> bool {
        self.waits.iter().any(|wait| wait.is(owner, number))
    }

    /// One comes last.
    pub(super) fn add(&mut self, wait: Wait) {
        self.waits.push_back(wait);
    }

    /// Whether another was called for a lock that stands in the way of this one.
    pub(super) fn is_anothers_turn(&self, holder: Holder, span: &Span, wait: Option<u32>) -> bool {
        self.waits.iter().any(|other| {
            let is_own = other.holder == holder || wait.is_some_and(|wait| other.is(holder.owner, wait));
            matches!(other.state, State::Called(_)) && !is_own && other.span.conflicts(span)
        })
    }

    fn find(&mut self, owner: Owner, number: u32) -> Option<&mut Wait> {
        self.waits.iter_mut().find(|wait| wait.is(owner, number))
    }
}

impl Locks {
    /// Calls those at a place whose locks nothing stands in the way of any more, in order.
    pub(super) fn call(&mut self, place: Place, now_ns: u64, called: &mut Vec<Owner>) {
        let Some(file) = self.files.get_mut(&place) else { return };
        let mut line = core::mem::take(&mut file.line);
        // What those wait for whose turn it is.
        let is_called = |wait: &&Wait| matches!(wait.state, State::Called(_));
        let mut turns: Vec<(Holder, Span)> =
            line.waits.iter().filter(is_called).map(|wait| (wait.holder, wait.span)).collect();
        for wait in line.waits.iter_mut().filter(|wait| !matches!(wait.state, State::Called(_))) {
            if file.in_the_way(wait.holder, &wait.span).is_some() {
                wait.state = State::Waits;
                continue;
            }
            let is_anothers = |(other, span): &(Holder, Span)| *other != wait.holder && span.conflicts(&wait.span);
            if wait.state == State::Late || turns.iter().any(is_anothers) {
                continue;
            }
            turns.push((wait.holder, wait.span));
            self.turns_begun += 1;
            let turn = (now_ns.saturating_add(TURN_NS), self.turns_begun);
            wait.state = State::Called(turn);
            self.turns.insert(turn, (place, wait.holder.owner, wait.number));
            called.push(wait.holder.owner);
        }
        file.line = line;
    }

    /// When the first turn is over, ns.
    #[must_use]
    pub fn first_turn_over_ns(&self) -> Option<u64> {
        self.turns.first_key_value().map(|((until_ns, _), _)| *until_ns)
    }

    /// Turns that are over are others'.
    pub fn turns_over(&mut self, now_ns: u64, called: &mut Vec<Owner>) {
        while let Some(first) = self.turns.first_entry()
            && first.key().0 <= now_ns
        {
            let (place, owner, number) = first.remove();
            if let Some(wait) = self.files.get_mut(&place).and_then(|file| file.line.find(owner, number)) {
                wait.state = State::Late;
            }
            self.call(place, now_ns, called);
        }
    }

    /// A wait that is there did not get its lock, and goes on.
    pub(super) fn goes_on_waiting(&mut self, place: Place, owner: Owner, number: u32) {
        let Some(wait) = self.files.get_mut(&place).and_then(|file| file.line.find(owner, number)) else { return };
        if let State::Called(turn) = core::mem::replace(&mut wait.state, State::Waits) {
            self.turns.remove(&turn);
        }
    }

    /// A wait is no more. Where it was.
    pub(super) fn take_from_line(&mut self, owner: Owner, number: u32) -> Option<Place> {
        let of = self.ranks.get_mut(&owner)?;
        let place = of.waits.remove(&number)?;
        self.count(owner.job, 1, 0);
        self.tidy_rank(owner);
        let line = &mut self.files.get_mut(&place)?.line;
        let at = line.waits.iter().position(|wait| wait.is(owner, number))?;
        if let Some(Wait { state: State::Called(turn), .. }) = line.waits.remove(at) {
            self.turns.remove(&turn);
        }
        Some(place)
    }

    /// Whether somebody who has what a process asks for waits for that process, or for one that does. Open files do
    /// not count, as on Linux: any thread may unlock one.
    pub(super) fn waits_for_itself(&self, (place, asks): (Place, Holder), span: &Span) -> bool {
        let Some(file) = self.files.get(&place) else { return false };
        let (mut seen, mut steps) = (BTreeSet::new(), 0);
        let mut open = processes_in_the_way(file, asks, span);
        while let Some(owner) = open.pop() {
            if owner == asks.owner {
                return true;
            }
            if !seen.insert(owner) {
                continue;
            }
            for (number, place) in self.ranks.get(&owner).into_iter().flat_map(|of| &of.waits) {
                steps += 1;
                if steps > DEADLOCK_STEPS_MAX {
                    return false;
                }
                let Some(file) = self.files.get(place) else { continue };
                let wait = file.line.waits.iter().find(|wait| wait.is(owner, *number));
                if let Some(wait) = wait.filter(|wait| wait.holder.open.is_none()) {
                    open.extend(processes_in_the_way(file, wait.holder, &wait.span));
                }
            }
        }
        false
    }
}

/// The processes whose locks stand in the way of one.
fn processes_in_the_way(file: &File, holder: Holder, span: &Span) -> Vec<Owner> {
    let mut owners = vec![];
    for (other, spans) in &file.held {
        if other.open.is_none() && *other != holder && spans.in_the_way(span).is_some() {
            owners.push(other.owner);
        }
    }
    owners
}
