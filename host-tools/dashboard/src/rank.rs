//! A rank as it is shown: what its time went to, and what it did.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coppice_api::job::{JobDetail, JobState};
use coppice_api::overlay::{CALLED, COUNTER, GAUGES, OTHERS, RankProfileView, SENT_TO};
use coppice_api::show::{harmless, show_bytes, show_ns};

use crate::charts::shares::of_spans;
use crate::charts::{ChartError, Svg};
use crate::job::{Fact, Row, rows};

/// Rows of a list that are shown: what there was most of.
const ROWS_MAX: usize = 64;

/// What it did, and how much of it.
pub(crate) struct Sum {
    pub(crate) name: String,
    pub(crate) amount: String,
}

/// See this module.
pub(crate) struct Rank {
    pub(crate) job: u64,
    pub(crate) rank: u32,
    pub(crate) node: Option<u32>,
    pub(crate) has_ended: bool,
    pub(crate) facts: Vec<Fact>,
    pub(crate) chart: Option<Svg>,
    pub(crate) called: Vec<Sum>,
    pub(crate) sent: Vec<Sum>,
    pub(crate) counters: Vec<Sum>,
    pub(crate) sums: Vec<Sum>,
}

/// All of a rank's spans together; of what is only there now, the last.
fn totals(profile: &RankProfileView) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::<&str, u64>::new();
    for (name, value) in profile.spans.iter().flat_map(|span| &span.values) {
        let sum = sums.entry(name).or_default();
        *sum = if GAUGES.contains(&name.as_str()) { *value } else { sum.saturating_add(*value) };
    }
    sums
}

/// What has a name that begins so, the most first.
fn named(sums: &BTreeMap<&str, u64>, prefix: &str, amount: impl Fn(u64) -> String) -> Vec<Sum> {
    let mut found: Vec<(&str, u64)> =
        sums.iter().filter_map(|(name, sum)| Some((name.strip_prefix(prefix)?, *sum))).collect();
    found.sort_by_key(|(name, sum)| (Reverse(*sum), *name));
    let sum = |(name, sum): (&str, u64)| Sum { name: harmless(name).into_owned(), amount: amount(sum) };
    found.into_iter().take(ROWS_MAX).map(sum).collect()
}

impl Rank {
    /// A rank, of which `profile` is.
    ///
    /// # Errors
    /// [`ChartError`].
    pub(crate) fn of(detail: &JobDetail, profile: &RankProfileView) -> Result<Self, ChartError> {
        let (job, rank) = (&detail.job, profile.rank);
        let place = rank / job.ranks_per_node.max(1);
        let sums = totals(profile);
        let shown = |name: &str, sum: u64| match profile.units.get(name).map(String::as_str) {
            Some("ns") => show_ns(sum),
            Some("bytes") => show_bytes(sum),
            _ => sum.to_string(),
        };
        let is_plain = |name: &str| [CALLED, SENT_TO, COUNTER].iter().all(|prefix| !name.starts_with(prefix));
        let plain = sums.iter().filter(|(name, sum)| is_plain(name) && **sum > 0).take(ROWS_MAX);
        let to_node = |sum: Sum| match sum.name.as_str() {
            OTHERS => sum,
            node => Sum { name: format!("node {node}"), ..sum },
        };
        let report = detail.rank_reports.iter().find(|report| report.rank == rank);
        Ok(Self {
            job: job.job,
            rank,
            node: usize::try_from(place).ok().and_then(|place| job.nodes.get(place)).copied(),
            has_ended: job.state == JobState::Ended,
            facts: report.map(|report| facts(rows(std::slice::from_ref(report)))).unwrap_or_default(),
            chart: of_spans(&profile.spans)?,
            called: named(&sums, CALLED, |times| times.to_string()),
            sent: named(&sums, SENT_TO, show_bytes).into_iter().map(to_node).collect(),
            counters: named(&sums, COUNTER, |sum| sum.to_string()),
            sums: plain
                .map(|(name, sum)| Sum { name: harmless(name).into_owned(), amount: shown(name, *sum) })
                .collect(),
        })
    }

    /// What it did, list by list: where each is on the page, its heading, and what its names are of.
    pub(crate) fn lists(&self) -> [(&'static str, &'static str, &'static str, &[Sum]); 4] {
        [
            ("counters", "Its own counters", "Counter", &self.counters),
            ("called", "What it called", "Call", &self.called),
            ("sent", "Where it sent", "To", &self.sent),
            ("sums", "What was counted", "What", &self.sums),
        ]
    }
}

/// How it ended, and what it had used by then.
fn facts(rows: Vec<Row>) -> Vec<Fact> {
    let facts = rows.into_iter().flat_map(|row| {
        [
            ("End", row.end),
            ("Reason", row.reason),
            ("Launched in", row.launch),
            ("Ran", row.run),
            ("Page faults", row.faults.to_string()),
            ("Pages fetched", row.fetched.to_string()),
            ("Most memory", row.memory),
            ("Read", row.read),
            ("Written", row.written),
            ("Calls", row.calls.to_string()),
        ]
    });
    facts.filter(|(_, value)| !value.is_empty()).map(|(name, value)| Fact { name, value }).collect()
}

#[cfg(test)]
mod tests {
    use super::Rank;
    use crate::tests::{hostile, matter};

    #[test]
    fn what_it_did_is_added_up() {
        let matter = matter();
        let rank = Rank::of(&matter.evidence.job, &matter.ranks[1]).expect("drawn");
        assert_eq!((rank.node, rank.chart.is_some()), (Some(5), true));
        let sums: Vec<_> = rank.sums.iter().map(|sum| (sum.name.as_str(), sum.amount.as_str())).collect();
        assert_eq!(sums, [("network", "1000 ms"), ("user", "1000 ms")]);
        let sent: Vec<_> = rank.sent.iter().map(|sum| (sum.name.as_str(), sum.amount.as_str())).collect();
        assert_eq!(sent, [("node 4", "2.0 KiB"), ("others", "10 B")]);
        assert!(rank.facts.iter().any(|fact| fact.name == "Calls" && fact.value == "12"));
    }

    #[test]
    fn names_are_harmless() {
        let matter = hostile();
        let rank = Rank::of(&matter.evidence.job, &matter.ranks[1]).expect("drawn");
        assert!(rank.sent.iter().all(|sum| !sum.name.contains('\u{1b}')));
    }
}
