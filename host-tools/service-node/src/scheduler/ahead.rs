//! Whether a program is sent to all nodes of a job ahead of the launch, or each node fetches what it touches.
//!
//! Both times are reckoned from what is known beforehand. *Fetched*, what the nodes of a pset lack of the pages that
//! they touch goes over the one link of their I/O node, and no node is done before its own pages have come one run
//! after the other. *Sent ahead*, the whole program goes over each link about once, however many nodes there are: first
//! through the I/O nodes, where there are several psets, then through the nodes of each. It is sent ahead where that
//! gains enough to be worth it; where little is gained, programs begin sooner if they are not waited for.
//!
//! What a program touches is what a node fetched of it, or held, when it last ran. Of one that never ran little is
//! assumed, as what it does not touch is sent in vain.

use std::collections::BTreeMap;

use coppice_api::ahead::{AheadDecision, Reckoning};
use coppice_api::counted;
use coppice_api::staging::Scheme;
use coppice_protocol::ids::PsetId;
use coppice_protocol::limits::PAGES_PER_REQUEST_MAX;
use coppice_protocol::program::PAGE_BYTES;

/// Fewer nodes than this fetch for themselves: two or three times the pages are no more than what is sent in vain.
pub const AHEAD_NODES_MIN: u32 = 4;

/// What has to be gained at least, ns: far more than it takes to begin a transfer.
pub const AHEAD_GAIN_NS_MIN: u64 = 100_000_000;

/// What is assumed to be touched of a program that never ran, in tenths: of the programs that were looked at the one
/// that touched least of its code touched 25 of 82 pages.
const TOUCHED_TENTHS: u64 = 3;

/// Time of a transfer in two trees as a share of what the bytes take on a link, in percent: booted nodes were whole
/// after 1.1 to 1.3 times that. In the published scheme it is three times.
const TWO_TREES_PERCENT: u64 = 120;
const TREE_PERCENT: u64 = 300;

/// Beside that each level of a tree takes so many tenths of a piece's time and of the latency.
const LEVEL_TENTHS: u64 = 22;

/// What is known before a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch<'a> {
    /// Length of the program, bytes.
    pub program_bytes: u64,
    /// The pset of each of the job's nodes, and how many pages of the program it is believed to hold and may use.
    pub held_pages: &'a [(PsetId, u64)],
    /// Pages that a node had or fetched when the program last ran.
    pub pages_touched: Option<u64>,
    /// Bandwidth of each link, bytes/s, if somebody said it.
    pub link_bytes_per_second: Option<u64>,
    /// Latency from node to node, ns.
    pub latency_ns: u64,
    /// What a piece of a transfer takes on a link, ns.
    pub piece_ns: u64,
    /// How it would be sent.
    pub scheme: Scheme,
}

/// Decides.
#[must_use]
pub fn decide(launch: &Launch<'_>) -> AheadDecision {
    let nodes = u32::try_from(launch.held_pages.len()).unwrap_or(u32::MAX);
    if nodes < AHEAD_NODES_MIN {
        return not_staged(&format!("only {}", counted(nodes, "node")));
    }
    let Some(link_bytes_per_second) = launch.link_bytes_per_second else {
        return not_staged("nobody said how fast the links are");
    };
    let reckoned = reckon(launch, nodes, link_bytes_per_second.max(1));
    let (ahead, fetched) = (show(reckoned.staged_ns), show(reckoned.demand_ns));
    let staged = reckoned.demand_ns >= reckoned.staged_ns.saturating_add(AHEAD_GAIN_NS_MIN);
    let how = if reckoned.is_measured { "as last time" } else { "assumed" };
    let touched = format!("{} a node, {how}", counted(reckoned.pages_touched, "page"));
    let summary = match (staged, reckoned.pages_missing) {
        (true, _) => format!("staged: {ahead} to {nodes} nodes, fetched {fetched} ({touched})"),
        (false, 0) => format!("not staged: {nodes} nodes hold what they touch ({touched})"),
        (false, _) => format!("not staged: {ahead} to {nodes} nodes, fetched {fetched} ({touched})"),
    };
    AheadDecision { staged, summary, reckoned: Some(reckoned) }
}

/// It is not, for a reason that does not depend on times.
#[must_use]
pub fn not_staged(why: &str) -> AheadDecision {
    AheadDecision { staged: false, summary: format!("not staged: {why}"), reckoned: None }
}

fn reckon(launch: &Launch<'_>, nodes: u32, link_bytes_per_second: u64) -> Reckoning {
    let pages = launch.program_bytes.div_ceil(PAGE_BYTES);
    let assumed = pages.saturating_mul(TOUCHED_TENTHS).div_ceil(10);
    let pages_touched = launch.pages_touched.unwrap_or(assumed).min(pages);
    let missing = launch.held_pages.iter().map(|(_, held)| pages_touched.saturating_sub(*held));
    let pages_missing = missing.clone().fold(0, u64::saturating_add);
    let pages_missing_most = missing.clone().max().unwrap_or(0);
    // What goes over the link of each I/O node, and how many nodes are behind it.
    let mut psets = BTreeMap::<PsetId, (u64, u32)>::new();
    for ((pset, _), missing) in launch.held_pages.iter().zip(missing.clone()) {
        let (pages, nodes) = psets.entry(*pset).or_default();
        (*pages, *nodes) = (pages.saturating_add(missing), nodes.saturating_add(1));
    }
    let pset_pages = psets.values().map(|(pages, _)| *pages).max().unwrap_or(0);
    let pset_nodes = psets.values().map(|(_, nodes)| *nodes).max().unwrap_or(0);
    let link_ns = |bytes: u64| saturated(u128::from(bytes) * 1_000_000_000 / u128::from(link_bytes_per_second));

    let trips = pages_missing_most.div_ceil(PAGES_PER_REQUEST_MAX.into());
    let alone_ns = link_ns(pages_missing_most.saturating_mul(PAGE_BYTES))
        .saturating_add(trips.saturating_mul(launch.latency_ns.saturating_mul(2)));
    let demand_ns = link_ns(pset_pages.saturating_mul(PAGE_BYTES)).max(alone_ns);

    let percent = match launch.scheme {
        Scheme::TwoTrees => TWO_TREES_PERCENT,
        Scheme::Tree => TREE_PERCENT,
    };
    let levels_of = |members: u32| u64::from(members.checked_ilog2().map_or(0, |log2| log2 + 1));
    // Home is one of the I/O nodes, which are above the nodes.
    let levels = levels_of(pset_nodes) + levels_of(u32::try_from(psets.len()).unwrap_or(u32::MAX).saturating_sub(1));
    let level_ns = launch.piece_ns.saturating_add(launch.latency_ns).saturating_mul(LEVEL_TENTHS) / 10;
    let bytes_ns = u128::from(link_ns(launch.program_bytes)) * u128::from(percent) / 100;
    let staged_ns = saturated(bytes_ns).saturating_add(levels.saturating_mul(level_ns));
    Reckoning {
        program_bytes: launch.program_bytes,
        nodes,
        nodes_holding: u32::try_from(missing.filter(|missing| *missing == 0).count()).unwrap_or(u32::MAX),
        pages_touched,
        is_measured: launch.pages_touched.is_some(),
        pages_missing,
        pages_missing_most,
        link_bytes_per_second,
        latency_ns: launch.latency_ns,
        demand_ns,
        staged_ns,
    }
}

fn saturated(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

fn show(ns: u64) -> String {
    format!("{} ms", ns.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use coppice_api::staging::Scheme;
    use coppice_protocol::ids::PsetId;
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assume, proptest};

    use super::{AHEAD_NODES_MIN, Launch, decide};

    const MIB: u64 = 1 << 20;

    /// A program of so many bytes on so many nodes that hold nothing, over links of 100 Mbit/s.
    fn launch(program_bytes: u64, held_pages: &[(PsetId, u64)], pages_touched: Option<u64>) -> Launch<'_> {
        Launch {
            program_bytes,
            held_pages,
            pages_touched,
            link_bytes_per_second: Some(12_500_000),
            latency_ns: 50_000,
            piece_ns: 2_700_000,
            scheme: Scheme::TwoTrees,
        }
    }

    #[test]
    fn large_programs_on_many_nodes_are_sent_ahead() {
        let touched = |mib: u64| Some(mib * MIB / 4096);
        // Length, nodes, pages touched, and whether it is sent ahead.
        let cases = [
            // Nothing is known: three tenths of it are taken to be touched.
            (40 * MIB, 16, None, true),
            (40 * MIB, 4, None, false),
            (40 * MIB, 5, None, true),
            (8 * MIB, 8, None, true),
            // Small ones: 2 MiB as BusyBox has, or a test's program.
            (2 * MIB, 8, None, true),
            (2 * MIB, 4, None, false),
            (300_000, 8, None, false),
            (300_000, 8, touched(1), true),
            (100_000, 8, touched(1), false),
            (20_000, 100, None, false),
            // All of it, or next to nothing, was touched.
            (40 * MIB, 4, touched(40), true),
            (40 * MIB, 3, touched(40), false),
            (40 * MIB, 1, touched(40), false),
            (40 * MIB, 16, touched(1), false),
            (40 * MIB, 128, touched(1), true),
        ];
        for (bytes, nodes, touched, expected) in cases {
            let held = vec![(PsetId(0), 0); nodes];
            let decision = decide(&launch(bytes, &held, touched));
            assert_eq!(decision.staged, expected, "{bytes} bytes to {nodes} nodes: {decision:?}");
        }
    }

    #[test]
    fn what_nodes_hold_is_not_fetched() {
        let all = 40 * MIB / 4096;
        let mut held = vec![(PsetId(0), all); 16];
        let decision = decide(&launch(40 * MIB, &held, Some(all)));
        assert_eq!(decision.summary, "not staged: 16 nodes hold what they touch (10240 pages a node, as last time)");
        held[3].1 = 0;
        let decision = decide(&launch(40 * MIB, &held, Some(all)));
        assert!(!decision.staged, "one node fetches it faster than it gets it: {decision:?}");
        assert_eq!(decision.reckoned.expect("reckoned").nodes_holding, 15);
        held[..4].fill((PsetId(0), 0));
        assert!(decide(&launch(40 * MIB, &held, Some(all))).staged);
    }

    #[test]
    fn a_decision_says_what_it_rests_on() {
        let held = [(PsetId(0), 0); 8];
        let decision = decide(&launch(12_500_000, &held, None));
        assert_eq!(decision.summary, "staged: 1225 ms to 8 nodes, fetched 2402 ms (916 pages a node, assumed)");
        let reckoned = decision.reckoned.expect("reckoned");
        assert_eq!((reckoned.pages_touched, reckoned.pages_missing, reckoned.is_measured), (916, 8 * 916, false));
        let unknown = Launch { link_bytes_per_second: None, ..launch(12_500_000, &held, None) };
        assert_eq!(decide(&unknown).summary, "not staged: nobody said how fast the links are");
        assert_eq!(decide(&launch(12_500_000, &held[..3], None)).summary, "not staged: only 3 nodes");
        assert_eq!(decide(&launch(12_500_000, &held[..1], None)).summary, "not staged: only 1 node");
        // The published scheme takes longer.
        let tree = Launch { scheme: Scheme::Tree, ..launch(12_500_000, &held, None) };
        assert!(!decide(&tree).staged);
        // Where nodes are far away, round trips count.
        let far = Launch { latency_ns: 50_000_000, ..launch(12_500_000, &held[..4], None) };
        let reckoned = decide(&far).reckoned.expect("reckoned");
        assert!(reckoned.demand_ns > 29 * 100_000_000, "{reckoned:?}");
    }

    /// Each pset's nodes fetch over a link of their own.
    #[test]
    fn the_fullest_pset_says_how_long_fetching_takes() {
        let in_psets = |psets: &[u32]| -> Vec<(PsetId, u64)> {
            let of = |(pset, nodes): (u32, &u32)| (0..*nodes).map(move |_| (PsetId(pset), 0));
            (0..).zip(psets).flat_map(of).collect()
        };
        let all = Some(40 * MIB / 4096);
        let [one, two, four] = [&[16][..], &[4, 12], &[4; 4]].map(|psets| {
            let held = in_psets(psets);
            decide(&launch(40 * MIB, &held, all)).reckoned.expect("reckoned")
        });
        assert_eq!(two.demand_ns, one.demand_ns / 4 * 3);
        assert_eq!(four.demand_ns, one.demand_ns / 4);
        assert_eq!(one.pages_missing, four.pages_missing);
        // 16 nodes are five levels; 12 are four, below one of I/O nodes; 4 are three, below two of I/O nodes.
        assert_eq!([two.staged_ns, four.staged_ns], [one.staged_ns; 2]);
        assert!(!decide(&launch(40 * MIB, &in_psets(&[1; 16]), all)).staged, "each has a link for itself");
    }

    fn any_launch() -> impl Strategy<Value = (u64, Vec<(PsetId, u64)>, Option<u64>, u64, u32)> {
        let held = vec(((0..3_u32).prop_map(PsetId), 0..20_000_u64), 1..40);
        (1..1_u64 << 40, held, any::<Option<u64>>(), any::<u64>(), any::<u32>())
    }

    proptest! {
        #[test]
        fn whatever_makes_fetching_worse_never_speaks_against_sending_ahead(
            (bytes, held, touched, link, latency_ns) in any_launch(),
            more in 0..20_000_u64,
            less in 0..20_000_u64,
        ) {
            let one = Launch {
                link_bytes_per_second: Some(link),
                latency_ns: latency_ns.into(),
                ..launch(bytes, &held, touched)
            };
            let decision = decide(&one);
            prop_assert!(decision.staged || decision.summary.starts_with("not staged: "));
            prop_assume!(held.len() >= AHEAD_NODES_MIN as usize);
            let reckoned = decision.reckoned.expect("reckoned");
            prop_assert!(reckoned.pages_missing_most <= reckoned.pages_touched);
            // More is touched.
            let more = Launch { pages_touched: Some(reckoned.pages_touched.saturating_add(more)), ..one.clone() };
            prop_assert!(!decision.staged || decide(&more).staged);
            // Nodes hold less.
            let emptier: Vec<_> = held.iter().map(|(pset, held)| (*pset, held.saturating_sub(less))).collect();
            let emptier = Launch { held_pages: &emptier, ..one.clone() };
            prop_assert!(!decision.staged || decide(&emptier).staged);
            // A node that holds nothing joins: fetching takes that much longer.
            let joined: Vec<_> = held.iter().copied().chain([(PsetId(0), 0)]).collect();
            let other = decide(&Launch { held_pages: &joined, ..one.clone() }).reckoned.expect("reckoned");
            prop_assert!(other.demand_ns >= reckoned.demand_ns && other.staged_ns >= reckoned.staged_ns);
            // Nobody waits who has everything.
            let full: Vec<_> = held.iter().map(|(pset, _)| (*pset, u64::MAX)).collect();
            let full = Launch { held_pages: &full, ..one };
            prop_assert!(!decide(&full).staged);
        }
    }
}
