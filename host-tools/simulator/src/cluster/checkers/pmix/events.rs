//! What ranks are told: each event once, none that was not for them, in the order in which they were said, and all of
//! them in the end.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::pmix::Course;
use crate::cluster::queue::SECOND_NS;

/// How long after something was said all must have been told it, if nothing was the matter, ns.
const TOLD_NS_MAX: u64 = 20 * SECOND_NS;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Those that the one who notifies was about to say.
    begun: BTreeSet<u64>,
    /// When it was told that they were taken, ns.
    taken_ns: BTreeMap<u64, u64>,
    /// Of which each rank was told.
    told: BTreeMap<u32, BTreeSet<u64>>,
    /// Of whose ends each rank was told.
    ends: BTreeSet<(u32, u32)>,
}

impl Events {
    pub(super) fn begins(&mut self, number: u64) {
        self.begun.insert(number);
    }

    pub(super) fn is_taken(&mut self, number: u64, now_ns: u64) {
        self.taken_ns.insert(number, now_ns);
    }

    /// A rank is told an event of another one.
    pub(super) fn told(&mut self, course: &Course, rank: u32, from: u32, number: u64) -> Result<(), String> {
        if course.notifier != u64::from(from) + 1 || !self.begun.contains(&number) {
            return Err(format!("is told event {number} of rank {from}, who has said no such thing"));
        }
        if !course.is_for(number, rank) {
            return Err(format!("is told event {number} of rank {from}, which is for others"));
        }
        let told = self.told.entry(rank).or_default();
        let last = told.last().copied();
        if !told.insert(number) {
            return Err(format!("is told event {number} of rank {from} twice"));
        }
        match last {
            Some(last) if last > number => Err(format!("is told event {number} of rank {from} behind {last}")),
            _ => match self.missed(course, rank, number) {
                Some(missed) => Err(format!("is told event {number} of rank {from} and not {missed}")),
                None => Ok(()),
            },
        }
    }

    /// One before this of which a rank was not told.
    fn missed(&self, course: &Course, rank: u32, number: u64) -> Option<u64> {
        let told = self.told.get(&rank);
        (0..number).find(|before| course.is_for(*before, rank) && told.is_none_or(|told| !told.contains(before)))
    }

    /// A rank is told that another one has ended.
    pub(super) fn told_of_end(&mut self, rank: u32, of: u32) -> Result<(), String> {
        if rank == of {
            return Err("is told of its own end".to_owned());
        }
        if self.ends.insert((rank, of)) { Ok(()) } else { Err(format!("is told twice that rank {of} has ended")) }
    }

    /// A rank waits no longer for what it has not heard of: what it must have heard of by then.
    pub(super) fn overdue(&self, course: &Course, rank: u32, gone_ns: Option<u64>, now_ns: u64) -> Option<String> {
        let is_long_ago = |at_ns: u64| now_ns.saturating_sub(at_ns) > TOLD_NS_MAX;
        let told = self.told.get(&rank);
        let is_missing = |number: u64| course.is_for(number, rank) && told.is_none_or(|told| !told.contains(&number));
        let event = self.taken_ns.iter().find(|(number, at_ns)| is_missing(**number) && is_long_ago(**at_ns));
        if let Some((number, _)) = event {
            return Some(format!("was not told event {number}"));
        }
        let lost = course.outlived().filter(|_| gone_ns.is_some_and(is_long_ago))?;
        let is_told = self.ends.contains(&(rank, lost));
        (!is_told).then(|| format!("was not told that rank {lost} has ended"))
    }
}
