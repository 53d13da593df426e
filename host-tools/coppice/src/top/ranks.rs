//! What single ranks of a job do at the moment, by what its overlay tells of them: totals in turn, of which what came
//! since their last turn is of interest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coppice_api::overlay::{EpochView, OverlayView, SENT_TO, TotalView};

/// Epochs of which it is kept how much of their time all ranks were in their programs.
const HISTORY_MAX: usize = 512;

/// What is known of the ranks of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    generation: u32,
    epoch: Option<u64>,
    ranks: BTreeMap<u32, Known>,
    /// The share of time in programs of all ranks in each epoch, in thousandths.
    pub(super) history: VecDeque<u64>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    end_ns: u64,
    totals: BTreeMap<String, u64>,
    now: Now,
}

/// What a rank did between its last two turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Now {
    /// What its time went to, most first: parts of 1.
    pub(super) shares: Vec<(String, f64)>,
    /// Calls a second, if it is known since when.
    pub(super) calls: Option<f64>,
    /// Bytes a second to other nodes.
    pub(super) sent: Option<f64>,
    /// Bytes by where they went since the overlay began, most first.
    pub(super) peers: Vec<(String, u64)>,
    /// Pages of 4 KiB that it has.
    pub(super) pages: u64,
}

impl Now {
    /// The share of its time in something.
    pub(super) fn share(&self, metric: &str) -> f64 {
        self.shares.iter().find(|(name, _)| name == metric).map_or(0.0, |(_, share)| *share)
    }
}

impl Ranks {
    /// Takes what an overlay tells.
    pub(super) fn take(&mut self, overlay: &OverlayView) {
        let Some(last) = &overlay.last else { return };
        if last.generation != self.generation {
            *self = Self { generation: last.generation, ..Self::default() };
        }
        if self.epoch != Some(last.epoch) {
            self.history.push_back((in_program(last) * 1000.0) as u64);
            if self.history.len() > HISTORY_MAX {
                self.history.pop_front();
            }
        }
        self.epoch = Some(last.epoch);
        let times: BTreeSet<&str> =
            last.metrics.iter().filter(|metric| metric.unit == "ns").map(|metric| metric.metric.as_str()).collect();
        for total in &last.totals {
            let known = self.ranks.entry(total.rank).or_default();
            // The same epoch again, with what came late.
            if known.end_ns < last.end_ns {
                *known = Known::after(known, last.end_ns, total, &times);
            }
        }
    }

    /// What a rank does, if that was told.
    pub(super) fn get(&self, rank: u32) -> Option<&Now> {
        self.ranks.get(&rank).map(|known| &known.now)
    }
}

impl Known {
    fn after(before: &Self, end_ns: u64, total: &TotalView, times: &BTreeSet<&str>) -> Self {
        let value = |name: &str| total.values.get(name).copied().unwrap_or_default();
        let since = |name: &str| value(name).saturating_sub(before.totals.get(name).copied().unwrap_or_default());
        let whole: u128 = times.iter().map(|name| u128::from(since(name))).sum();
        let share = |name: &&str| ((*name).to_owned(), since(name) as f64 / whole.max(1) as f64);
        let mut shares: Vec<(String, f64)> = times.iter().map(share).filter(|(_, share)| *share > 0.0).collect();
        shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let seconds = (before.end_ns > 0).then(|| (end_ns - before.end_ns) as f64 / 1e9);
        let rate = |name: &str| seconds.map(|seconds| since(name) as f64 / seconds);
        let sent =
            total.values.iter().filter_map(|(name, bytes)| Some((name.strip_prefix(SENT_TO)?.to_owned(), *bytes)));
        let mut peers: Vec<(String, u64)> = sent.collect();
        peers.sort_by_key(|(_, bytes)| Reverse(*bytes));
        let now = Now { shares, calls: rate("calls"), sent: rate("bytes-sent"), peers, pages: value("pages-resident") };
        Self { end_ns, totals: total.values.clone(), now }
    }
}

/// The share of time that all ranks were in their programs, a part of 1.
fn in_program(epoch: &EpochView) -> f64 {
    shares(epoch).into_iter().find(|(name, _)| name == "user").map_or(0.0, |(_, share)| share)
}

/// What the time of all ranks went to, most first: parts of 1.
pub(super) fn shares(epoch: &EpochView) -> Vec<(String, f64)> {
    let times = || epoch.metrics.iter().filter(|metric| metric.unit == "ns" && metric.sum > 0);
    let whole: u128 = times().map(|metric| u128::from(metric.sum)).sum();
    let mut shares: Vec<(String, f64)> =
        times().map(|metric| (metric.metric.clone(), metric.sum as f64 / whole as f64)).collect();
    shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    shares
}

/// Shares in words, such as `user 75 %, network 20 %`; so many of them, and none below a hundredth.
pub(super) fn in_words(shares: &[(String, f64)], most: usize) -> String {
    let shown = shares.iter().take(most).filter(|(_, share)| *share >= 0.01);
    let words: Vec<String> = shown.map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
    words.join(", ")
}
