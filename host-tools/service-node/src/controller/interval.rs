//! How often checkpoints pay: more often costs pauses, more seldom costs what is lost with a node.
//!
//! Young (1974) found that the least is lost with √(2CM) between checkpoints that cost C each, of a job that something
//! ends once in M on average; Daly (2006) carried that on for costs that are not small against M.

use std::time::Duration;

use coppice_api::checkpoint::CheckpointPolicy;
use coppice_api::job::Submission;

use crate::limits::{CHECKPOINT_INTERVAL_CHOSEN_MAX, CHECKPOINT_INTERVAL_CHOSEN_MIN};

/// From the beginning of a checkpoint to that of the next, when one costs so much and the job is lost once in so long.
fn best(cost: Duration, mean_time: Duration) -> Duration {
    let (cost, mean_time) = (cost.as_secs_f64(), mean_time.as_secs_f64());
    let share = cost / (2.0 * mean_time);
    // Daly's is without the checkpoint itself; from there on it does not pay to make one more often than it is needed.
    let best = if share < 1.0 {
        (2.0 * cost * mean_time).sqrt() * (1.0 + share.sqrt() / 3.0 + share / 9.0)
    } else {
        mean_time + cost
    };
    let (min, max) = (CHECKPOINT_INTERVAL_CHOSEN_MIN, CHECKPOINT_INTERVAL_CHOSEN_MAX);
    Duration::from_secs_f64(best.clamp(min.as_secs_f64(), max.as_secs_f64()))
}

/// What pays for a job that stood so long for its last checkpoint, if it is left to us.
pub(super) fn chosen(job: &Submission, pause_us: u64) -> Option<Duration> {
    let CheckpointPolicy { node_mtbf_ms, .. } = job.checkpoint_policy?;
    let nodes = job.nodes_wanted().max(1);
    // Whichever of its nodes fails first ends it.
    Some(best(Duration::from_micros(pause_us), Duration::from_millis(node_mtbf_ms?.max(1)) / nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const S: Duration = Duration::from_secs(1);

    /// In ms, as nobody needs it closer.
    fn ms(cost: Duration, mean_time: Duration) -> u128 {
        best(cost, mean_time).as_millis()
    }

    #[test]
    fn small_costs_are_youngs() {
        // √(2 · 0.05 s · 90 000 s) = 94.868 s; Daly adds a third of √(2.8e-7) of that.
        assert_eq!(ms(50 * MS, 90_000 * S), 94_884);
        // √(2 · 1 s · 648 000 s) = 1138.42 s.
        assert_eq!(ms(S, 648_000 * S), 1_138_753);
    }

    #[test]
    fn large_costs_are_dalys() {
        // C = M/2: √(2CM) = M; 1 + √0.25/3 + 0.25/9 = 1.19444.
        assert_eq!(ms(500 * S, 1000 * S), 1_194_444);
        // C = 2M is where it ends: M + C, and behind it.
        assert_eq!(ms(2000 * S, 1000 * S), 3_000_000);
        assert_eq!(ms(5000 * S, 1000 * S), 6_000_000);
        let below = ms(1999 * S, 1000 * S);
        assert!((2_880_000..3_000_000).contains(&below), "{below}");
    }

    #[test]
    fn what_is_chosen_is_bounded() {
        assert_eq!(best(Duration::ZERO, 1000 * S), CHECKPOINT_INTERVAL_CHOSEN_MIN);
        assert_eq!(best(MS, S), CHECKPOINT_INTERVAL_CHOSEN_MIN);
        assert_eq!(best(100_000 * S, Duration::MAX), CHECKPOINT_INTERVAL_CHOSEN_MAX);
        assert_eq!(best(Duration::MAX, MS), CHECKPOINT_INTERVAL_CHOSEN_MAX);
    }
}
