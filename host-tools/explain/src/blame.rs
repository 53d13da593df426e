//! What a failure led to: who was ended because of it, and who failed after it.

use coppice_api::counted;
use coppice_api::job::{RankOutcome, RankView};
use coppice_api::ras::RasView;

use crate::Evidence;
use crate::failure::{is_bad, is_killed};
use crate::words::others;

/// What came of an event, as a part of a sentence. Some ranks are those that it struck itself.
pub(crate) fn consequences(evidence: &Evidence, event: &RasView, is_struck: &dyn Fn(&RankView) -> bool) -> String {
    let is_later = |other: &&RasView| {
        other.job == event.job && other.kind == event.kind && other.rank != event.rank && other.event > event.event
    };
    let again = evidence.ras.iter().filter(is_later).count();
    let ranks = of_ranks(evidence, is_struck);
    match again {
        0 => ranks,
        _ => format!(
            "{ranks}, and the same happened {} more",
            if again == 1 { "once".into() } else { counted(again, "time") }
        ),
    }
}

/// What became of the other ranks, as a part of a sentence.
pub(crate) fn of_ranks(evidence: &Evidence, is_struck: &dyn Fn(&RankView) -> bool) -> String {
    let rest: Vec<&RankView> = evidence.job.rank_reports.iter().filter(|rank| !is_struck(rank)).collect();
    let count = |is_such: &dyn Fn(&RankView) -> bool| rest.iter().filter(|rank| is_such(rank)).count();
    let killed = count(&|rank| is_killed(rank) || rank.outcome == RankOutcome::Lost);
    let failed = count(&|rank| is_bad(rank) && !is_killed(rank) && rank.outcome != RankOutcome::Lost);
    let was = |count: usize| if count == 1 { "was" } else { "were" };
    match (killed, failed) {
        (0, 0) => "no other rank was ended because of it".to_owned(),
        (_, 0) => format!("{} {} ended because of it", others(killed, "rank"), was(killed)),
        (0, _) => format!("{} failed, too", others(failed, "rank")),
        _ => format!("{} {} ended because of it, and {failed} failed, too", others(killed, "rank"), was(killed)),
    }
}
