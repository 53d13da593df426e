//! One rank that is slow, or work that is unevenly spread.
//!
//! Ranks that wait for each other wait unequally long if they have unequally much to do: what they waited on average
//! longer than the one that waited least is lost by that, epoch by epoch. It comes of their work if the rank that
//! computed longest did so for at least half of that longer than the mean, and the one that waited least may wait for
//! something else otherwise. If for most of what is lost it was the same rank that computed longest, and in all epochs
//! together it did so well apart from the second, that rank is slow; otherwise the work is unevenly spread.

use std::collections::BTreeMap;

use coppice_api::job::{RankOutcome, RankView};
use coppice_api::overlay::{EpochView, MetricView};
use coppice_api::show::show_ns;

use crate::times::{FOR_OTHERS, Times, WHOLE_PPM, of};
use crate::words::{capital, percent, rank as named, times as as_often};
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time that passed, millionths.
const LOST_PPM_MIN: u64 = 100_000;

/// The rank that computes longest is well apart if the second is not nearer to it than this part of its distance from
/// the mean of the others, in quarters.
const APART_QUARTERS: u128 = 3;

/// What is lost comes of computing if one of so many parts of it was computed longer.
const COMPUTED_PARTS: u128 = 2;

/// One rank is to blame if it was the one that computed longest for so many thirds of what was lost.
const BLAMED_THIRDS: u128 = 2;

/// A rank that runs on alone, of a job's time, millionths: less is how jobs end.
const ALONE_PPM_MIN: u64 = 250_000;

/// What a job is over in is no rank's doing, ns.
const ALONE_NS_MIN: u64 = 200_000_000;

/// What one epoch says.
struct Uneven {
    rank: u32,
    lost: u128,
}

fn in_epoch(epoch: &EpochView) -> Option<Uneven> {
    let user = of(epoch, "user").filter(|user| user.count >= 2)?;
    let waits = FOR_OTHERS.iter().filter_map(|phase| of(epoch, phase));
    let wait = waits.filter(|wait| wait.count >= 2).max_by_key(|wait| wait.sum)?;
    let lost = mean(wait).checked_sub(u128::from(wait.least))?;
    let first = user.top.first()?;
    let more = u128::from(first.value).checked_sub(mean(user))?;
    if lost == 0 || more * COMPUTED_PARTS < lost {
        return None;
    }
    Some(Uneven { rank: first.rank, lost })
}

/// Whether a rank has so much that it is well apart from who has most otherwise, and all others on average.
fn is_apart(own: u128, second: u128, others: u128) -> bool {
    own.saturating_sub(second) * 4 >= own.saturating_sub(others) * APART_QUARTERS
}

fn mean(metric: &MetricView) -> u128 {
    u128::from(metric.sum) / u128::from(metric.count.max(1))
}

/// Looks for it in what was gathered.
pub(crate) fn find(evidence: &Evidence, times: &Times<'_>) -> Option<Finding> {
    let mut lost = 0;
    let mut led = BTreeMap::<u32, u128>::new();
    for uneven in times.epochs().iter().filter_map(in_epoch) {
        lost += uneven.lost;
        *led.entry(uneven.rank).or_default() += uneven.lost;
    }
    let lost_ns = times.of_rank_ns(lost);
    if times.part_ppm(lost_ns) < LOST_PPM_MIN {
        return None;
    }
    let (rank, of_it) = led.into_iter().max_by_key(|(_, lost)| *lost)?;
    let Computed { own, second, mean_of_others } = computed(times, rank);
    let waited = percent(times.share_ppm("network").saturating_add(times.share_ppm("futex")));
    let share = percent(times.part_ppm(lost_ns));
    let who = named(rank, evidence.node_of(rank));
    let job = evidence.view().job;
    let command = format!("coppice profile {job} --rank {rank}");
    if of_it * 3 >= lost * BLAMED_THIRDS && is_apart(own.into(), second.into(), mean_of_others.into()) {
        let text = format!(
            "{} is slow: it computed for {}, {} as long as the mean of the others ({}), and all ranks waited for each \
             other for {waited} of their time; that cost {} ({share}).",
            capital(&who),
            show_ns(own),
            as_often(own.into(), mean_of_others.into()),
            show_ns(mean_of_others),
            show_ns(lost_ns),
        );
        return Some(Finding::new(Cause::SlowRank, lost_ns, &text).try_this("See what that rank did", command));
    }
    let most_often = percent(u64::try_from(of_it.saturating_mul(WHOLE_PPM.into()) / lost.max(1)).unwrap_or(u64::MAX));
    let text = format!(
        "The work is unevenly spread (imbalance): ranks waited for those that have more to do, for {waited} of their \
         time, which cost {} ({share}); when {most_often} of that was lost, {who} computed longest.",
        show_ns(lost_ns),
    );
    Some(Finding::new(Cause::Imbalance, lost_ns, &text).try_this("See what one of those with much to do did", command))
}

/// How long ranks computed, as far as epochs name them, ns.
struct Computed {
    own: u64,
    /// Whoever else computed longest.
    second: u64,
    /// All others on average.
    mean_of_others: u64,
}

fn computed(times: &Times<'_>, rank: u32) -> Computed {
    let (mut own, mut others) = (0, 0);
    let mut named = BTreeMap::<u32, u128>::new();
    for user in times.epochs().iter().filter_map(|epoch| of(epoch, "user")) {
        let Some(top) = user.top.iter().find(|top| top.rank == rank) else { continue };
        own += u128::from(top.value);
        let rest = u128::from(user.sum).saturating_sub(top.value.into());
        others += rest / u128::from(user.count.saturating_sub(1).max(1));
        for top in user.top.iter().filter(|top| top.rank != rank) {
            *named.entry(top.rank).or_default() += u128::from(top.value);
        }
    }
    let second = named.into_values().max().unwrap_or_default();
    let narrow = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
    Computed { own: narrow(own), second: narrow(second), mean_of_others: narrow(others) }
}

/// Looks for a rank that ran on when the others were done, in the record of a job that ended well.
pub(crate) fn by_record(evidence: &Evidence) -> Option<Finding> {
    let ranks = &evidence.job.rank_reports;
    let is_well = |rank: &RankView| rank.outcome == RankOutcome::Exited && rank.exit == Some(0);
    if !evidence.has_ended() || ranks.len() < 2 || !ranks.iter().all(is_well) {
        return None;
    }
    let mut by_time: Vec<&RankView> = ranks.iter().collect();
    by_time.sort_by_key(|rank| std::cmp::Reverse(rank.counters.run_ns));
    let [first, second, ..] = by_time[..] else { return None };
    let run = |rank: &RankView| u128::from(rank.counters.run_ns);
    let all: u128 = ranks.iter().map(run).sum();
    let others = (all - run(first)) / (by_time.len() as u128 - 1);
    let mean = all / by_time.len() as u128;
    let lost_ns = u64::try_from(run(first) - mean).unwrap_or(u64::MAX);
    let is_little = u128::from(lost_ns) * u128::from(WHOLE_PPM) < run(first) * u128::from(ALONE_PPM_MIN);
    if is_little || lost_ns < ALONE_NS_MIN {
        return None;
    }
    let who = named(first.rank, Some(first.node));
    let (own, rest) = (show_ns(first.counters.run_ns), show_ns(u64::try_from(others).unwrap_or(u64::MAX)));
    let (cause, text) = if is_apart(run(first), run(second), others) {
        (Cause::SlowRank, format!("{} is slow: it ran for {own}, the others for {rest} on average.", capital(&who)))
    } else {
        let text = format!(
            "The work is unevenly spread (imbalance): {who} ran longest, for {own}, the others for {rest} on average."
        );
        (Cause::Imbalance, text)
    };
    let finding = Finding::new(cause, lost_ns, &text);
    Some(finding.try_this("See in the record how long each ran", format!("coppice job {}", evidence.view().job)))
}

#[cfg(test)]
mod tests {
    use super::is_apart;

    #[test]
    fn one_rank_is_apart_if_the_second_is_near_the_others() {
        assert!(is_apart(80, 10, 10) && is_apart(80, 27, 10) && !is_apart(80, 28, 10));
        // As much work as a rank's number says is unevenly spread, and nobody's fault.
        assert!(!is_apart(4, 3, 2) && !is_apart(3, 2, 1) && !is_apart(80, 80, 10));
        assert!(is_apart(5, 0, 9) && is_apart(0, 0, 0), "nothing is negative");
    }
}
