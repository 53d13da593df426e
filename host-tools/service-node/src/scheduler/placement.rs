//! Which of the free nodes a job gets: those where least has to be loaded and least is thrown away.
//!
//! First come nodes that hold pages of the job's program, most pages first: there a launch finds what it needs. Then
//! come clean nodes, where nothing is lost. Then come nodes that hold other programs, the one whose last program was
//! used longest ago first: what is discarded there is missed least. Nodes that are equal in all that come by number.

use std::cmp::Reverse;

use coppice_api::counted;
use coppice_api::retain::{PlacedNode, PlacementReason};
use coppice_protocol::ids::NodeId;

/// A free node, as far as its choice for a job depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// Pages of the job's program it is believed to hold.
    pub pages: u64,
    /// It holds nothing of any program.
    pub clean: bool,
    /// When its last program was given the node, ns since 1970; 0 if it ran none.
    pub used_at_ns: u64,
}

impl Candidate {
    fn placed(&self, reason: PlacementReason) -> PlacedNode {
        PlacedNode { node: self.node.0, reason, pages: self.pages }
    }

    fn reason_by_number(&self) -> PlacementReason {
        if self.clean { PlacementReason::Clean } else { PlacementReason::LeastRecentlyUsed }
    }

    fn reason(&self) -> PlacementReason {
        if self.pages > 0 { PlacementReason::Retained } else { self.reason_by_number() }
    }
}

/// Free nodes in order of preference, each with the reason it would be chosen for.
#[must_use]
pub fn rank(candidates: &[Candidate]) -> Vec<PlacedNode> {
    let mut ranked: Vec<(&Candidate, PlacementReason)> =
        candidates.iter().map(|candidate| (candidate, candidate.reason())).collect();
    ranked.sort_by_key(|(candidate, reason)| {
        let (class, used_at_ns) = match reason {
            PlacementReason::Retained => (0, 0),
            PlacementReason::Clean => (1, 0),
            _ => (2, candidate.used_at_ns),
        };
        (class, Reverse(candidate.pages), used_at_ns, candidate.node)
    });
    ranked.into_iter().map(|(candidate, reason)| candidate.placed(reason)).collect()
}

/// The nodes of a block, in order of ranks: the `count` most preferred ones, put in order of their numbers so that
/// neighbours stay together and a job that is run again has its ranks where they were. Fewer if there are too few.
#[must_use]
pub fn choose(candidates: &[Candidate], count: usize) -> Vec<PlacedNode> {
    let mut chosen = rank(candidates);
    chosen.truncate(count);
    chosen.sort_by_key(|placed| placed.node);
    chosen
}

/// The nodes of a block of a job that wants nothing of what is retained: the ones with the lowest numbers.
#[must_use]
pub fn choose_by_number(candidates: &[Candidate], count: usize) -> Vec<PlacedNode> {
    let mut chosen: Vec<PlacedNode> =
        candidates.iter().map(|candidate| candidate.placed(candidate.reason_by_number())).collect();
    chosen.sort_by_key(|placed| placed.node);
    chosen.truncate(count);
    chosen
}

/// The nodes of a block whose nodes the user named, in that order.
#[must_use]
pub fn as_listed(candidates: &[Candidate]) -> Vec<PlacedNode> {
    candidates.iter().map(|candidate| candidate.placed(PlacementReason::Listed)).collect()
}

/// A decision in one line. `retain`: the job uses what is retained.
#[must_use]
pub fn summary(nodes: &[PlacedNode], retain: bool) -> String {
    let all = counted(nodes.len(), "node");
    let is_listed = nodes.iter().any(|placed| placed.reason == PlacementReason::Listed);
    if !retain {
        let how = if is_listed { "as listed" } else { "by number" };
        return format!("{all} {how}, retained pages are not used");
    }
    let warm = nodes.iter().filter(|placed| placed.pages > 0).count();
    let pages = nodes.iter().fold(0u64, |sum, placed| sum.saturating_add(placed.pages));
    let hold = if warm == 1 { "holds" } else { "hold" };
    let held = format!("{hold} {} of the program", counted(pages, "page"));
    let count = |reason| nodes.iter().filter(|placed| placed.reason == reason).count();
    let mut parts = Vec::new();
    if is_listed {
        parts.push(format!("{all} as listed"));
        parts.extend((warm > 0).then(|| format!("{warm} {held}")));
    } else {
        parts.extend((warm > 0).then(|| format!("{} {held}", counted(warm, "node"))));
        for (reason, words) in
            [(PlacementReason::Clean, "clean"), (PlacementReason::LeastRecentlyUsed, "least recently used")]
        {
            let number = count(reason);
            if number > 0 {
                let subject = if parts.is_empty() { counted(number, "node") } else { number.to_string() };
                parts.push(format!("{subject} {words}"));
            }
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use coppice_api::retain::PlacementReason::{Clean, LeastRecentlyUsed, Listed, Retained};
    use coppice_api::retain::{PlacedNode, PlacementReason};
    use coppice_protocol::ids::NodeId;
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::{Candidate, as_listed, choose, choose_by_number, rank, summary};

    fn candidate(node: u32, pages: u64, clean: bool, used_at_ns: u64) -> Candidate {
        Candidate { node: NodeId(node), pages, clean, used_at_ns }
    }

    fn numbers(placed: &[PlacedNode]) -> Vec<u32> {
        placed.iter().map(|placed| placed.node).collect()
    }

    /// One of each kind, in no order.
    fn mixed() -> Vec<Candidate> {
        vec![
            candidate(0, 0, false, 70),
            candidate(1, 0, true, 0),
            candidate(2, 9, false, 90),
            candidate(3, 0, false, 60),
            candidate(4, 10, false, 95),
            candidate(5, 0, true, 80),
            candidate(6, 9, false, 10),
        ]
    }

    #[test]
    fn warm_then_clean_then_least_recently_used() {
        let ranked = rank(&mixed());
        assert_eq!(numbers(&ranked), [4, 2, 6, 1, 5, 3, 0]);
        let reasons: Vec<_> = ranked.iter().map(|placed| placed.reason).collect();
        assert_eq!(reasons, [Retained, Retained, Retained, Clean, Clean, LeastRecentlyUsed, LeastRecentlyUsed]);
        assert_eq!(numbers(&choose(&mixed(), 5)), [1, 2, 4, 5, 6], "ranks go by number");
    }

    #[test]
    fn without_retention_nodes_go_by_number() {
        let chosen = choose_by_number(&mixed(), 3);
        assert_eq!(numbers(&chosen), [0, 1, 2]);
        let reasons: Vec<_> = chosen.iter().map(|placed| placed.reason).collect();
        assert_eq!(reasons, [LeastRecentlyUsed, Clean, LeastRecentlyUsed]);
        assert_eq!(chosen[2].pages, 9, "what it holds is said all the same");
    }

    #[test]
    fn decisions_are_told_in_one_line() {
        let placed = |reason, pages| PlacedNode { node: 0, reason, pages };
        let (warm, clean, lru) = (placed(Retained, 128), placed(Clean, 0), placed(LeastRecentlyUsed, 0));
        let cases: [(&[PlacedNode], bool, &str); 10] = [
            (&[warm, warm, warm, clean], true, "3 nodes hold 384 pages of the program, 1 clean"),
            (&[warm], true, "1 node holds 128 pages of the program"),
            (&[placed(Retained, 1), lru], true, "1 node holds 1 page of the program, 1 least recently used"),
            (&[warm, clean, lru, lru], true, "1 node holds 128 pages of the program, 1 clean, 2 least recently used"),
            (&[clean, clean], true, "2 nodes clean"),
            (&[clean, lru], true, "1 node clean, 1 least recently used"),
            (&[lru], true, "1 node least recently used"),
            (&[lru, clean], false, "2 nodes by number, retained pages are not used"),
            (&[placed(Listed, 7), placed(Listed, 0)], true, "2 nodes as listed, 1 holds 7 pages of the program"),
            (&[placed(Listed, 7)], false, "1 node as listed, retained pages are not used"),
        ];
        for (nodes, retain, line) in cases {
            assert_eq!(summary(nodes, retain), line);
        }
        assert_eq!(numbers(&as_listed(&[candidate(4, 0, true, 0), candidate(1, 0, true, 0)])), [4, 1]);
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        // Few values, so that ties are common.
        let one = (0..3u64, any::<bool>(), 0..4u64);
        proptest::collection::vec(one, 0..20).prop_flat_map(|kinds| {
            let list: Vec<Candidate> = kinds
                .into_iter()
                .zip(0..)
                .map(|((pages, clean, used), node)| candidate(node * 3, pages, clean && pages == 0, used))
                .collect();
            Just(list).prop_shuffle()
        })
    }

    /// How much a node is to be preferred, the lower the more, written independently of [`rank`].
    fn cost(of: &Candidate) -> (u8, u64) {
        if of.pages > 0 {
            (0, u64::MAX - of.pages)
        } else if of.clean {
            (1, 0)
        } else {
            (2, of.used_at_ns)
        }
    }

    proptest! {
        #[test]
        fn the_best_free_nodes_are_chosen(candidates in candidates(), count in 0usize..24) {
            let chosen = choose(&candidates, count);
            prop_assert_eq!(chosen.len(), count.min(candidates.len()));
            let find = |node: u32| candidates.iter().find(|candidate| candidate.node.0 == node);
            // Only free nodes, none twice, each with its own reason.
            let mut once = numbers(&chosen);
            once.dedup();
            prop_assert_eq!(once.len(), chosen.len());
            prop_assert!(chosen.is_sorted_by_key(|placed| placed.node));
            for placed in &chosen {
                let of = find(placed.node);
                prop_assert!(of.is_some_and(|of| of.pages == placed.pages));
                let wanted = of.map(|of| match cost(of).0 { 0 => Retained, 1 => Clean, _ => LeastRecentlyUsed });
                prop_assert_eq!(Some(placed.reason), wanted);
            }
            // Whoever is left out is not to be preferred to anybody who was chosen.
            let is_chosen = |candidate: &&Candidate| chosen.iter().any(|placed| placed.node == candidate.node.0);
            let key = |candidate: &Candidate| (cost(candidate), candidate.node);
            let worst = candidates.iter().filter(is_chosen).map(key).max();
            let best_left = candidates.iter().filter(|candidate| !is_chosen(candidate)).map(key).min();
            if let (Some(worst), Some(best_left)) = (worst, best_left) {
                prop_assert!(worst < best_left);
            }
        }

        #[test]
        fn no_warm_node_is_left_while_another_is_taken(candidates in candidates(), count in 0usize..24) {
            let chosen = choose(&candidates, count);
            let is_cold = |placed: &PlacedNode| placed.reason != PlacementReason::Retained;
            let warm = candidates.iter().filter(|candidate| candidate.pages > 0);
            let left = warm.filter(|warm| chosen.iter().all(|placed| placed.node != warm.node.0)).count();
            prop_assert!(left == 0 || !chosen.iter().any(is_cold));
        }

        #[test]
        fn the_order_they_are_given_in_does_not_matter(candidates in candidates(), count in 0usize..24) {
            let mut sorted = candidates.clone();
            sorted.sort_by_key(|candidate| candidate.node);
            prop_assert_eq!(rank(&candidates), rank(&sorted));
            prop_assert_eq!(choose(&candidates, count), choose(&sorted, count));
            prop_assert_eq!(choose_by_number(&candidates, count), choose_by_number(&sorted, count));
        }
    }
}
