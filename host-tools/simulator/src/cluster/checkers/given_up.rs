//! Nobody is given up who had nothing: a machine, an I/O node or the fabric is ended by the service node only if
//! something went wrong that touches it, or did a short while ago. A disk that does not answer, a full database, a user
//! who is slow, and a service node that was stopped are no reasons.

use std::collections::BTreeMap;

use coppice_protocol::ids::{NodeId, PsetId};

use crate::checkers::Violation;
use crate::cluster::queue::SECOND_NS;

/// How long after a fault is over somebody may be given up for it, ns: silence is noticed after 12 s, and what follows
/// from one that was given up takes its time.
const AFTERMATH_NS: u64 = 30 * SECOND_NS;

/// Who can be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cluster) enum Who {
    Fabric,
    IoNode(PsetId),
    Machine(NodeId),
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct GivenUp {
    /// Until when each has an excuse, ns.
    excused: BTreeMap<Who, u64>,
    /// The service node is stopped until then, ns: what it would have noticed it notices when it goes on.
    host_stopped_until_ns: u64,
    found: Vec<Violation>,
}

impl GivenUp {
    /// Something is wrong with them until then.
    pub(in crate::cluster) fn excuse(&mut self, who: Who, until_ns: u64) {
        let until_ns = until_ns.max(self.host_stopped_until_ns);
        let excused = self.excused.entry(who).or_default();
        *excused = until_ns.saturating_add(AFTERMATH_NS).max(*excused);
    }

    /// The service node does nothing until then.
    pub(in crate::cluster) fn host_stops(&mut self, now_ns: u64, until_ns: u64) {
        self.host_stopped_until_ns = until_ns.max(self.host_stopped_until_ns);
        for excused in self.excused.values_mut().filter(|excused| **excused >= now_ns) {
            *excused = until_ns.saturating_add(AFTERMATH_NS).max(*excused);
        }
    }

    /// One that is there, in this pset, is ended by the service node.
    pub(in crate::cluster) fn given_up(&mut self, who: Who, pset: Option<PsetId>, now_ns: u64) {
        let reasons = [Some(Who::Fabric), pset.map(Who::IoNode), Some(who)];
        let is_excused = |who: Who| self.excused.get(&who).is_some_and(|until_ns| *until_ns >= now_ns);
        if !reasons.into_iter().flatten().any(is_excused) {
            self.found.push(Violation::new(format!("{who:?} is given up, and nothing was the matter with it")));
        }
        // Whoever depends on it has reason to fail for a while, too.
        self.excuse(who, now_ns);
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}
