//! Nobody goes round in circles: what is due is not due again at once for ever, and what does not work is not tried
//! again without a pause.

use std::collections::BTreeMap;

use super::given_up::Who;
use crate::checkers::Violation;
use crate::cluster::queue::SECOND_NS;

/// Times in a simulated second that something may be due at the service node.
const DUE_MAX: u64 = 5_000;
/// Starts of one machine or helper in a simulated minute. Faults that kill it one after the other make for some.
const STARTS_MAX: u64 = 90;
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
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Rates {
    due: Count,
    refused: Count,
    refused_before: u64,
    starts: BTreeMap<Who, Count>,
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
        if self.refused.add(second, more) > REFUSED_MAX {
            self.found.push(Violation::new("the database is tried again and again without a pause".to_owned()));
        }
    }

    /// A service node starts, after so many refused changes of others.
    pub(in crate::cluster) fn host_starts(&mut self, refused: u64) {
        self.refused_before = refused;
    }

    pub(in crate::cluster) fn started(&mut self, who: Who, now_ns: u64) {
        if self.starts.entry(who).or_default().add(now_ns / (60 * SECOND_NS), 1) > STARTS_MAX {
            self.found.push(Violation::new(format!("{who:?} is started again and again")));
        }
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}
