//! Nobody goes round in circles: what is due is not due again at once for ever, and what does not work is not tried
//! again without a pause.

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::ids::PsetId;

use super::given_up::Who;
use crate::checkers::Violation;
use crate::cluster::queue::SECOND_NS;

/// Times in a simulated second that something may be due at the service node.
const DUE_MAX: u64 = 5_000;
/// Starts of one machine or helper in a simulated minute, beside those that follow from something that happened to it
/// or to what it rests on.
const STARTS_MAX: u64 = 30;
const MINUTE_NS: u64 = 60 * SECOND_NS;
/// Changes of the database in a simulated second that may fail. Users and machines that are switched on make for some.
const REFUSED_MAX: u64 = 200;

/// A count within a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    stretch: u64,
    count: u64,
}

impl Count {
    fn add(&mut self, stretch: u64, by: u64) -> u64 {
        if self.stretch != stretch {
            *self = Self { stretch, count: 0 };
        }
        self.count += by;
        self.count
    }

    fn within(self, stretch: u64) -> u64 {
        if self.stretch == stretch { self.count } else { 0 }
    }
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Rates {
    due: Count,
    refused: Count,
    refused_before: u64,
    starts: BTreeMap<Who, Count>,
    /// Reasons that each had to be started anew.
    struck: BTreeMap<Who, Count>,
    /// Starts of the service node.
    hosts: Count,
    found: Vec<Violation>,
}

impl Rates {
    /// Something was due at the service node, which has had so many changes refused by now.
    pub(in crate::cluster) fn host_due(&mut self, refused: u64, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        if self.due.add(second, 1) > DUE_MAX {
            self.found.push(Violation::new("something is due at the service node again and again".to_owned()));
        }
        let more = refused - std::mem::replace(&mut self.refused_before, refused);
        // Of those since something was last due, users may have made some in each second.
        let seconds = second.saturating_sub(self.refused.stretch).max(1);
        if self.refused.add(second, more.div_ceil(seconds)) > REFUSED_MAX {
            self.found.push(Violation::new("the database is tried again and again without a pause".to_owned()));
        }
    }

    /// A service node starts, after so many refused changes of others.
    pub(in crate::cluster) fn host_starts(&mut self, refused: u64, now_ns: u64) {
        self.refused_before = refused;
        self.hosts.add(now_ns / MINUTE_NS, 1);
    }

    /// A fault touches somebody, who may have to be started anew.
    pub(in crate::cluster) fn struck(&mut self, who: Who, now_ns: u64) {
        self.struck.entry(who).or_default().add(now_ns / MINUTE_NS, 1);
    }

    /// One that belongs to this pset, if to any, is started.
    pub(in crate::cluster) fn started(&mut self, who: Who, pset: Option<PsetId>, now_ns: u64) {
        let minute = now_ns / MINUTE_NS;
        let rests_on: BTreeSet<Who> =
            [Some(who), pset.map(Who::IoNode), Some(Who::Fabric)].into_iter().flatten().collect();
        let struck = rests_on.iter().filter_map(|who| self.struck.get(who)).map(|count| count.within(minute));
        let reasons = struck.sum::<u64>() + self.hosts.within(minute);
        if self.starts.entry(who).or_default().add(minute, 1) > STARTS_MAX + reasons {
            self.found.push(Violation::new(format!("{who:?} is started again and again")));
        }
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}

#[cfg(test)]
mod tests {
    use super::{REFUSED_MAX, Rates, SECOND_NS, STARTS_MAX, Who};

    #[test]
    fn what_is_refused_in_many_seconds_is_not_taken_for_one() {
        let is_found = |seconds: u64| {
            let mut rates = Rates::default();
            rates.host_due(0, 0);
            rates.host_due(3 * REFUSED_MAX, seconds * SECOND_NS);
            rates.found().pop().is_some()
        };
        assert!(is_found(1) && is_found(2));
        assert!(!is_found(3));
    }

    #[test]
    fn starts_that_follow_from_faults_are_no_circles() {
        let is_found = |struck: u64| {
            let mut rates = Rates::default();
            (0..struck).for_each(|_| rates.struck(Who::Fabric, 1));
            (0..STARTS_MAX + 5).for_each(|_| rates.started(Who::Fabric, None, 2));
            rates.found().pop().is_some()
        };
        assert!(is_found(4));
        assert!(!is_found(5));
    }
}
