//! What ranks have done since they were looked at last.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::Rank;
use coppice_protocol::overlay::{METRICS, Metric, Stacks, Unit, Values};

use crate::process::Process;

/// What ranks had done when they were looked at last.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<Rank, Values>);

impl Samples {
    /// What a rank has done so far.
    pub(super) fn look(process: &Process) -> Values {
        process.measure(true);
        process.values()
    }

    /// Where a rank was since this was asked last, as far as it was to be looked, and how often it is to be from now on.
    pub(super) fn places(process: &Process, sample_period_ns: Option<u64>) -> Stacks {
        process.sample(sample_period_ns.unwrap_or_default());
        process.take_stacks()
    }

    /// Nobody looks at them any more.
    pub(super) fn end(processes: &[Arc<Process>]) {
        for process in processes {
            process.sample(0);
            process.measure(false);
        }
    }

    /// What they have done since then, if they have done this by now.
    pub(super) fn since_last(&mut self, now: Vec<(Rank, Values)>) -> BTreeMap<Rank, Values> {
        let before = core::mem::take(&mut self.0);
        self.0 = now.into_iter().collect();
        let since = |(rank, now): (&Rank, &Values)| (*rank, difference(before.get(rank), now));
        self.0.iter().map(since).collect()
    }
}

/// By metric. One that has become less counts from the beginning: its process was made again.
fn difference(before: Option<&Values>, now: &Values) -> Values {
    let mut since = *now;
    if let Some(before) = before {
        for metric in Metric::ALL.into_iter().filter(|metric| metric.unit() != Unit::PagesNow) {
            let place = metric as usize;
            since[place] = now[place].checked_sub(before[place]).unwrap_or(now[place]);
        }
    }
    since
}

const _: () = assert!(METRICS == Metric::ALL.len());

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::Rank;
    use coppice_protocol::overlay::{METRICS, Metric};

    use super::Samples;

    #[test]
    fn what_is_told_is_what_came_since() {
        let mut samples = Samples::default();
        let at = |value: u64| [value; METRICS];
        let first = samples.since_last(alloc::vec![(Rank(3), at(10)), (Rank(4), at(7))]);
        assert_eq!((first[&Rank(3)], first[&Rank(4)]), (at(10), at(7)), "one that is new counts from its beginning");
        let second = samples.since_last(alloc::vec![(Rank(3), at(25))]);
        assert_eq!(second.len(), 1, "one that is gone says nothing");
        assert_eq!(second[&Rank(3)][Metric::Calls as usize], 15);
        assert_eq!(second[&Rank(3)][Metric::PagesResident as usize], 25, "what is there now is no difference");
        let third = samples.since_last(alloc::vec![(Rank(3), at(4))]);
        assert_eq!(third[&Rank(3)], at(4), "one that was made again begins anew");
    }
}
