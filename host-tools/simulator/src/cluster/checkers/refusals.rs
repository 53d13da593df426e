//! Nobody is refused for want of what nobody has: an I/O node that says that too many roots are being opened has had so
//! many, and not long ago.

use std::collections::BTreeMap;

use coppice_io_node::limits::OPENINGS_MAX;
use coppice_protocol::ids::PsetId;

use crate::checkers::Violation;
use crate::cluster::queue::SECOND_NS;

/// How long what an I/O node says may be on its way, ns: the service node may be stopped for a minute.
const SAID_NS_MAX: u64 = 120 * SECOND_NS;

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Refusals {
    /// When each I/O node last had as many roots being opened as it may, ns.
    full_ns: BTreeMap<PsetId, u64>,
    found: Vec<Violation>,
}

impl Refusals {
    /// An I/O node has so many roots being opened.
    pub(in crate::cluster) fn opening(&mut self, pset: PsetId, count: usize, now_ns: u64) {
        if count >= OPENINGS_MAX {
            self.full_ns.insert(pset, now_ns);
        }
    }

    /// An I/O node does not start a rank.
    pub(in crate::cluster) fn refused(&mut self, pset: PsetId, reason: &str, now_ns: u64) {
        let is_full = self.full_ns.get(&pset).is_some_and(|full_ns| full_ns.saturating_add(SAID_NS_MAX) >= now_ns);
        if reason.contains("wait for root directories") && !is_full {
            self.found.push(Violation::new(format!("pset {pset} refuses a rank as {reason}, and that is not so")));
        }
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}

#[cfg(test)]
mod tests {
    use coppice_io_node::limits::OPENINGS_MAX;
    use coppice_protocol::ids::PsetId;

    use super::{Refusals, SAID_NS_MAX};

    #[test]
    fn who_is_refused_for_want_of_a_place_finds_all_taken() {
        let is_found = |count, at_ns| {
            let mut refusals = Refusals::default();
            refusals.opening(PsetId(1), count, 5);
            refusals.refused(PsetId(1), "32 jobs of the pset wait for root directories that do not answer", at_ns);
            refusals.found().pop().is_some()
        };
        assert!(!is_found(OPENINGS_MAX, 5 + SAID_NS_MAX));
        assert!(is_found(OPENINGS_MAX, 6 + SAID_NS_MAX));
        assert!(is_found(OPENINGS_MAX - 1, 6));
    }
}
