//! Nobody is given up who had nothing: a machine, an I/O node or the fabric is ended by the service node only if
//! something went wrong that touches it, or did a short while ago. A disk that does not answer, a full database, a user
//! who is slow, and a service node that was stopped are no reasons.

use std::collections::BTreeMap;

use coppice_protocol::ids::{NodeId, PsetId};

use crate::checkers::Violation;
use crate::cluster::queue::SECOND_NS;

/// How long after a fault is over somebody may be given up for it, ns: silence is noticed after 12 s, and what follows
/// from one that was given up takes its time. Only time counts in which the service node is not stopped.
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
    /// Until when something is wrong with each, ns.
    excused: BTreeMap<Who, u64>,
    /// From when until when the service node was stopped, ns: in order, and apart from each other.
    stopped: Vec<(u64, u64)>,
    found: Vec<Violation>,
}

impl GivenUp {
    /// Something is wrong with them until then.
    pub(in crate::cluster) fn excuse(&mut self, who: Who, until_ns: u64) {
        let excused = self.excused.entry(who).or_default();
        *excused = until_ns.max(*excused);
    }

    /// The service node does nothing from now on until then.
    pub(in crate::cluster) fn host_stops(&mut self, now_ns: u64, until_ns: u64) {
        match self.stopped.last_mut() {
            Some((_, last_ns)) if *last_ns >= now_ns => *last_ns = until_ns.max(*last_ns),
            _ => self.stopped.push((now_ns, until_ns)),
        }
    }

    /// The service node that was stopped is gone.
    pub(in crate::cluster) fn host_ends(&mut self, now_ns: u64) {
        if let Some((_, last_ns)) = self.stopped.last_mut() {
            *last_ns = now_ns.min(*last_ns);
        }
    }

    /// How long the service node could work since then, ns.
    pub(in crate::cluster) fn worked_ns(&self, since_ns: u64, now_ns: u64) -> u64 {
        let stopped_ns =
            |(from_ns, until_ns): &(u64, u64)| now_ns.min(*until_ns).saturating_sub(since_ns.max(*from_ns));
        now_ns.saturating_sub(since_ns) - self.stopped.iter().map(stopped_ns).sum::<u64>()
    }

    fn is_excused(&self, who: Who, now_ns: u64) -> bool {
        self.excused.get(&who).is_some_and(|until_ns| self.worked_ns(*until_ns, now_ns) <= AFTERMATH_NS)
    }

    /// One that is there, in this pset, is ended by the service node.
    pub(in crate::cluster) fn given_up(&mut self, who: Who, pset: Option<PsetId>, now_ns: u64) {
        let reasons = [Some(Who::Fabric), pset.map(Who::IoNode), Some(who)];
        if !reasons.into_iter().flatten().any(|who| self.is_excused(who, now_ns)) {
            self.found.push(Violation::new(format!("{who:?} is given up, and nothing was the matter with it")));
        }
        // Whoever depends on it has reason to fail for a while, too.
        self.excuse(who, now_ns);
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}

#[cfg(test)]
mod tests {
    use super::{AFTERMATH_NS, GivenUp, Who};
    use crate::cluster::queue::SECOND_NS;

    #[test]
    fn an_excuse_lasts_while_the_service_node_can_do_nothing_about_it() {
        let given_up_at = |ends: Option<u64>, at_ns: u64| {
            let mut given_up = GivenUp::default();
            given_up.host_stops(10 * SECOND_NS, 40 * SECOND_NS);
            given_up.host_stops(20 * SECOND_NS, 70 * SECOND_NS);
            given_up.excuse(Who::Fabric, 17 * SECOND_NS);
            if let Some(ends_ns) = ends {
                given_up.host_ends(ends_ns);
            }
            given_up.given_up(Who::Fabric, None, at_ns);
            given_up.found().pop().is_some()
        };
        assert!(!given_up_at(None, 70 * SECOND_NS + AFTERMATH_NS));
        assert!(given_up_at(None, 70 * SECOND_NS + AFTERMATH_NS + 1), "it had its time");
        assert!(!given_up_at(Some(30 * SECOND_NS), 30 * SECOND_NS + AFTERMATH_NS));
        assert!(given_up_at(Some(30 * SECOND_NS), 30 * SECOND_NS + AFTERMATH_NS + 1), "another one works");
    }
}
