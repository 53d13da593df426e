//! What overlays gather is exact about what is in it: no epoch is there twice, no rank is in one that the job does not
//! have, and what comes late only adds ranks.

use std::collections::BTreeMap;

use coppice_api::overlay::EpochView;
use coppice_protocol::ids::JobId;

use crate::checkers::Violation;

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Overlays {
    /// Jobs that have one, with their ranks.
    jobs: BTreeMap<JobId, u32>,
    /// How many ranks are in each epoch of each start of each of them.
    epochs: BTreeMap<(JobId, u32, u64), u64>,
    found: Vec<Violation>,
}

impl Overlays {
    /// A job has one, and so many ranks.
    pub(in crate::cluster) fn submitted(&mut self, job: JobId, ranks: u32) {
        self.jobs.insert(job, ranks);
    }

    /// An epoch is recorded. Whether all ranks are in it.
    pub(in crate::cluster) fn recorded(&mut self, job: JobId, epoch: &EpochView) -> bool {
        let EpochView { generation, epoch: number, ranks, of, .. } = *epoch;
        let mut wrong = |what: &str| self.found.push(Violation::new(format!("epoch {number} of job {job} {what}")));
        match self.jobs.get(&job) {
            None => wrong("is of a job that was to have no overlay"),
            Some(all) if *all != of || ranks > u64::from(of) => wrong(&format!("has {ranks} ranks of {of}, of {all}")),
            Some(_) => {}
        }
        for metric in &epoch.metrics {
            let in_order = metric.top.is_sorted_by_key(|top| u64::MAX - top.value);
            if !in_order || metric.top.iter().any(|top| top.rank >= of) || metric.least_rank >= of {
                wrong(&format!("has {} of ranks that are not there: {metric:?}", metric.metric));
            }
            if metric.top.first().is_some_and(|top| top.value < metric.least || metric.sum < top.value) {
                wrong(&format!("has {} that do not fit together: {metric:?}", metric.metric));
            }
        }
        if let Some(before) = self.epochs.insert((job, generation, number), ranks)
            && before >= ranks
        {
            self.found.push(Violation::new(format!(
                "epoch {number} of job {job} is recorded again with {ranks} ranks, after {before}"
            )));
        }
        ranks == u64::from(of)
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::overlay::{EpochView, MetricView, TopView};
    use coppice_protocol::ids::JobId;

    use super::Overlays;

    fn epoch(number: u64, ranks: u64) -> EpochView {
        EpochView {
            generation: 1,
            epoch: number,
            period_ns: 1,
            end_ns: 1,
            came_ns: 1,
            ranks,
            of: 4,
            missing: String::new(),
            metrics: Vec::new(),
            alike: Vec::new(),
            node_count: 0,
            nodes: Vec::new(),
            totals: Vec::new(),
            counters: Vec::new(),
            counters_dropped: 0,
        }
    }

    fn metric(top: &[(u32, u64)], least: u64, sum: u64) -> MetricView {
        MetricView {
            metric: "calls".into(),
            unit: "times".into(),
            count: 0,
            sum,
            least,
            least_rank: 0,
            mean: 0,
            deviation: 0,
            p50: 0,
            p90: 0,
            p99: 0,
            top: top.iter().map(|(rank, value)| TopView { rank: *rank, value: *value }).collect(),
            histogram: Vec::new(),
        }
    }

    #[test]
    fn epochs_only_grow() {
        let mut overlays = Overlays::default();
        overlays.submitted(JobId(1), 4);
        assert!(!overlays.recorded(JobId(1), &epoch(7, 2)) && overlays.recorded(JobId(1), &epoch(7, 4)));
        assert!(overlays.found().is_empty());
        for (job, wrong) in [(1, epoch(7, 4)), (1, epoch(8, 5)), (2, epoch(7, 1))] {
            overlays.recorded(JobId(job), &wrong);
            assert!(overlays.found().pop().is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn values_fit_together() {
        let mut overlays = Overlays::default();
        overlays.submitted(JobId(1), 4);
        for (number, of, is_right) in [
            (1, metric(&[(2, 9), (1, 4)], 4, 13), true),
            (2, metric(&[(2, 4), (1, 9)], 4, 13), false),
            (3, metric(&[(4, 9)], 9, 9), false),
            (4, metric(&[(1, 9)], 10, 9), false),
            (5, metric(&[(1, 9)], 9, 8), false),
        ] {
            overlays.recorded(JobId(1), &EpochView { metrics: vec![of], ..epoch(number, 2) });
            assert_eq!(overlays.found().pop().is_none(), is_right, "{number}");
        }
    }
}
