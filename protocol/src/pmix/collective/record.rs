//! What a node knows of calls as data.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::failures::{GivenUp, MISSED_MAX};
use super::{Collectives, Outcome};
use crate::ids::Rank;
use crate::limits::{PMIX_COLLECTIVE_BYTES_MAX, PMIX_COLLECTIVES_MAX};
use crate::pmix::call::CallId;

/// What a node knows of calls, for a checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CollectivesRecord {
    outcomes: Vec<((CallId, Rank), Outcome)>,
    told: Vec<((u32, u64), (CallId, Outcome))>,
    over: Vec<(u32, (u64, BTreeSet<u64>))>,
    missed: Vec<((CallId, u32), u32)>,
    given_up: GivenUp,
    numbers: Vec<(CallId, u64)>,
    last_number: u64,
    last_serial: u64,
}

impl CollectivesRecord {
    /// Whether it is of a job with so many nodes, and within the limits.
    pub(crate) fn is_within_limits(&self, nodes: u32) -> bool {
        let outcomes = self.outcomes.iter().map(|(_, outcome)| outcome);
        let all = outcomes.chain(self.told.iter().map(|(_, (_, outcome))| outcome));
        let longest = all.map(|outcome| outcome.parts.len()).max().unwrap_or_default();
        longest <= PMIX_COLLECTIVE_BYTES_MAX
            && self.numbers.len() <= PMIX_COLLECTIVES_MAX
            && self.told.iter().all(|((node, _), _)| *node < nodes)
            && self.over.iter().all(|(node, _)| *node < nodes)
            && self.missed.len() <= MISSED_MAX
            && self.missed.iter().all(|((_, node), _)| *node < nodes)
            && self.given_up.is_within_limits(nodes)
    }
}

impl Collectives {
    /// For a checkpoint.
    pub(crate) fn record(&self) -> CollectivesRecord {
        CollectivesRecord {
            outcomes: self.outcomes.iter().map(|(to, outcome)| (*to, outcome.clone())).collect(),
            told: self.told.iter().map(|(to, told)| (*to, told.clone())).collect(),
            over: self.over.iter().map(|(node, over)| (*node, over.clone())).collect(),
            missed: self.missed.iter().map(|(of, count)| (*of, *count)).collect(),
            given_up: self.given_up.clone(),
            numbers: self.numbers.iter().map(|(call, number)| (*call, *number)).collect(),
            last_number: self.last_number,
            last_serial: self.last_serial,
        }
    }

    /// As it was written down.
    pub(crate) fn again(me: u32, record: CollectivesRecord) -> Self {
        let CollectivesRecord { outcomes, told, over, missed, given_up, numbers, last_number, last_serial } = record;
        Self {
            released: outcomes.iter().map(|((_, rank), _)| *rank).collect(),
            outcomes: outcomes.into_iter().collect(),
            told: told.into_iter().collect(),
            over: over.into_iter().collect(),
            missed: missed.into_iter().collect(),
            given_up,
            numbers: numbers.into_iter().collect(),
            last_number,
            last_serial,
            ..Self::new(me)
        }
    }
}
