//! Where the time of all ranks went, as epochs of an overlay say it.
//!
//! A share is a part of the time of all threads. It stands for as much of the time that passed: if ranks waited for
//! files for half of their time, the job would have taken half as long without. Where some ranks wait for something and
//! the others for them, all of that time is lost ([`Times::held_up`]), though most of it counts as waiting for others.

use coppice_api::overlay::{EpochView, MetricView};

use crate::Evidence;

/// What a thread's time may go to, as epochs call it.
pub(crate) const PHASES: [&str; 9] = ["user", "kernel", "futex", "network", "file", "input", "sleep", "page", "ready"];

/// What waiting for other ranks and threads counts as.
pub(crate) const FOR_OTHERS: [&str; 2] = ["network", "futex"];

/// All of something, millionths.
pub(crate) const WHOLE_PPM: u64 = 1_000_000;

/// The time of all ranks.
pub(crate) struct Times<'a> {
    epochs: &'a [EpochView],
    /// Of all threads, ns.
    whole_ns: u128,
    /// That passed, ns.
    elapsed_ns: u64,
    /// Of that, what epochs there are of, ns: of long jobs some were thinned out.
    gathered_ns: u64,
    /// Threads of a rank in most epochs, at least one.
    threads: u64,
}

/// What something that ranks waited for has cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldUp {
    /// Of the time that passed, ns.
    pub(crate) lost_ns: u64,
    /// Of that, what counts as waiting for others, ns.
    pub(crate) of_others_ns: u64,
}

/// What an epoch says of something, if it does.
pub(crate) fn of<'a>(epoch: &'a EpochView, metric: &str) -> Option<&'a MetricView> {
    epoch.metrics.iter().find(|found| found.metric == metric)
}

fn sum_of(epoch: &EpochView, metric: &str) -> u128 {
    of(epoch, metric).map_or(0, |metric| u128::from(metric.sum))
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Threads of a rank: the median of what epochs come to, as in the first and the last one there were fewer, and a node
/// that looks late has more of their time in one and less in the next.
fn threads(epochs: &[EpochView]) -> u64 {
    let in_epoch = |epoch: &EpochView| {
        let one_each = u128::from(epoch.ranks) * u128::from(epoch.period_ns);
        let all: u128 = PHASES.iter().map(|phase| sum_of(epoch, phase)).sum();
        (one_each > 0).then(|| narrow((all + one_each / 2) / one_each))
    };
    let mut each: Vec<u64> = epochs.iter().filter_map(in_epoch).collect();
    each.sort_unstable();
    each.get(each.len() / 2).copied().unwrap_or(1).max(1)
}

impl<'a> Times<'a> {
    /// What was gathered of a job, if anything was.
    pub(crate) fn of(evidence: &'a Evidence) -> Option<Self> {
        let epochs = &evidence.profile.epochs[..];
        let (first, last) = (epochs.first()?, epochs.last()?);
        let whole_ns: u128 = PHASES.iter().map(|phase| Self::sum_in(epochs, phase)).sum();
        if whole_ns == 0 {
            return None;
        }
        let begin_ns = first.end_ns.saturating_sub(first.period_ns);
        let spanned_ns = last.end_ns.saturating_sub(begin_ns);
        // It began amid its first epoch and ended amid its last, and may have been over before that was.
        let since_ns = evidence.view().started_at_ns.map_or(spanned_ns, |at| evidence.end_ns().saturating_sub(at));
        let elapsed_ns = spanned_ns.min(since_ns).max(1);
        let gathered_ns = narrow(epochs.iter().map(|epoch| u128::from(epoch.period_ns)).sum());
        let gathered_ns = gathered_ns.clamp(1, elapsed_ns);
        Some(Self { epochs, whole_ns, elapsed_ns, gathered_ns, threads: threads(epochs) })
    }

    fn sum_in(epochs: &[EpochView], metric: &str) -> u128 {
        epochs.iter().map(|epoch| sum_of(epoch, metric)).sum()
    }

    /// The epochs.
    pub(crate) fn epochs(&self) -> &'a [EpochView] {
        self.epochs
    }

    /// How long was looked at the ranks, ns.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// How many threads a rank has in most epochs, at least one.
    pub(crate) fn threads(&self) -> u64 {
        self.threads
    }

    /// What all ranks have of something.
    pub(crate) fn sum(&self, metric: &str) -> u64 {
        narrow(Self::sum_in(self.epochs, metric))
    }

    /// Which part of all of their time that is, millionths.
    pub(crate) fn share_ppm(&self, metric: &str) -> u64 {
        self.ppm(Self::sum_in(self.epochs, metric))
    }

    /// Which part of all of their time this is, millionths.
    pub(crate) fn ppm(&self, thread_ns: u128) -> u64 {
        narrow(thread_ns.min(self.whole_ns) * u128::from(WHOLE_PPM) / self.whole_ns)
    }

    /// How much of the time that passed such a part is, ns.
    pub(crate) fn lost_ns(&self, ppm: u64) -> u64 {
        narrow(u128::from(self.elapsed_ns) * u128::from(ppm.min(WHOLE_PPM)) / u128::from(WHOLE_PPM))
    }

    /// How much of the time that passed it is what a rank lost in all epochs together, with all of its threads, ns.
    pub(crate) fn of_rank_ns(&self, all_threads_ns: u128) -> u64 {
        let in_epochs = u128::from(narrow(all_threads_ns) / self.threads);
        let all = in_epochs * u128::from(self.elapsed_ns) / u128::from(self.gathered_ns);
        narrow(all).min(self.elapsed_ns)
    }

    /// Which part of the time that passed this is, millionths.
    pub(crate) fn part_ppm(&self, ns: u64) -> u64 {
        narrow(u128::from(ns.min(self.elapsed_ns)) * u128::from(WHOLE_PPM) / u128::from(self.elapsed_ns))
    }

    /// What waiting for this has cost: in each epoch as much as it has of all ranks' time, or, if others waited
    /// meanwhile for those who had most of it, as much as that is.
    pub(crate) fn held_up(&self, metric: &str) -> HeldUp {
        let mut lost = 0;
        let mut own = 0;
        for epoch in self.epochs {
            let Some(found) = of(epoch, metric) else { continue };
            let count = u128::from(found.count.max(1));
            let mean = u128::from(found.sum) / count;
            let others = FOR_OTHERS.iter().map(|phase| sum_of(epoch, phase)).sum::<u128>() / count;
            let most = found.top.first().map_or(0, |top| u128::from(top.value));
            lost += most.min(mean + others).max(mean);
            own += mean;
        }
        let lost_ns = self.of_rank_ns(lost);
        HeldUp { lost_ns, of_others_ns: lost_ns.saturating_sub(self.of_rank_ns(own)) }
    }

    /// Who has most of something, and how much, over all epochs: as far as epochs name who has much of it.
    pub(crate) fn most(&self, metric: &str) -> Option<(u32, u64)> {
        let mut by_rank = std::collections::BTreeMap::<u32, u128>::new();
        for top in self.epochs.iter().filter_map(|epoch| of(epoch, metric)).flat_map(|metric| &metric.top) {
            *by_rank.entry(top.rank).or_default() += u128::from(top.value);
        }
        let most = by_rank.into_iter().max_by_key(|(rank, value)| (*value, std::cmp::Reverse(*rank)))?;
        Some((most.0, narrow(most.1)))
    }
}
