//! What ranks have done since they were looked at last.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::SyscallCount;
use coppice_protocol::ids::Rank;
use coppice_protocol::overlay::{
    Calls, CounterName, Deeds, Gathered, METRICS, Metric, NodeValues, Peers, Stacks, Tallies, Values,
};

use super::auxiliary;
use crate::process::Process;

/// What is seen of a rank at once: all of it is what it has done so far, so that whoever looks takes nothing away from
/// who looks next.
pub(super) struct Seen {
    values: Values,
    /// Counters that it offers.
    counters: Vec<(CounterName, u64)>,
    /// Bytes that it sent to other nodes.
    sent_to: Peers,
    calls: Vec<SyscallCount>,
}

/// What a rank had done when it was looked at last.
struct Before {
    values: Values,
    tallies: Tallies,
}

/// What ranks had done when they were looked at last, and the node.
#[derive(Default)]
pub(super) struct Samples {
    ranks: BTreeMap<Rank, Before>,
    /// Ranks that have ended. Whoever looked at one before that may say so only now.
    ended: BTreeSet<Rank>,
    node: Option<NodeValues>,
}

impl Samples {
    /// Looks at a rank.
    pub(super) fn look(process: &Process) -> Seen {
        process.measure(true);
        Self::look_last(process)
    }

    /// Looks at a rank that has ended.
    pub(super) fn look_last(process: &Process) -> Seen {
        let (values, calls) = process.deeds();
        Seen { values, counters: process.offered.all(), sent_to: process.sent_to.so_far(), calls }
    }

    /// Where a rank was since this was asked last, as far as it was to be looked, and how often it is to be from now
    /// on.
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

    /// What a rank has done since it was looked at last, which has ended.
    pub(super) fn ended(&mut self, rank: Rank, seen: Seen) -> Deeds {
        let before = self.ranks.remove(&rank);
        self.ended.insert(rank);
        let (deeds, _) = seen.since(before);
        deeds
    }

    /// What they have done since then, if they have done this by now, and the node this.
    pub(super) fn since_last(&mut self, now: Vec<(Rank, Seen)>, node: NodeValues) -> Gathered {
        let mut gathered = Gathered::default();
        for (rank, seen) in now {
            if self.ended.contains(&rank) {
                continue;
            }
            // One that is data for a while is not seen, and goes on where it was.
            let (Deeds { values, counters, tallies }, now) = seen.since(self.ranks.remove(&rank));
            gathered.ranks.insert(rank, values);
            if !counters.is_empty() {
                gathered.counters.insert(rank, counters);
            }
            if tallies != Tallies::default() {
                gathered.tallies.insert(rank, tallies);
            }
            self.ranks.insert(rank, now);
        }
        // Before that nobody has asked.
        let before = self.node.replace(node).unwrap_or(node);
        gathered.node = Some(auxiliary::since(&before, &node));
        gathered
    }
}

impl Seen {
    /// What came of it since it was `before`, and what it is now.
    fn since(self, before: Option<Before>) -> (Deeds, Before) {
        let Self { values, counters, sent_to, calls: made } = self;
        let did = difference(before.as_ref().map(|before| &before.values), &values);
        let before = before.map(|Before { tallies, .. }| tallies);
        let bytes = match &before {
            Some(before) => sent_to.since(&before.sent_to),
            None => sent_to.clone(),
        };
        let (calls, times) = match before {
            // Most epochs of a rank that computes are such, and are to cost it nothing.
            Some(before) if did[Metric::Calls as usize] == 0 => (before.calls, Calls::none()),
            Some(before) => {
                // The same numbers are told apart as before.
                let calls = tally(before.calls.emptied(), &made);
                let times = calls.since(&before.calls);
                (calls, times)
            }
            None => {
                let calls = tally(Calls::none(), &made);
                (calls.clone(), calls)
            }
        };
        let deeds = Deeds { values: did, counters, tallies: Tallies { sent_to: bytes, calls: times } };
        (deeds, Before { values, tallies: Tallies { sent_to, calls } })
    }
}

/// Calls by number, with others that are told apart already.
fn tally(mut calls: Calls, made: &[SyscallCount]) -> Calls {
    for SyscallCount { number, calls: times, unknown: _ } in made {
        calls.add(u16::try_from(*number).ok(), *times);
    }
    calls
}

/// By metric. One that has become less counts from the beginning: its process was made again.
fn difference(before: Option<&Values>, now: &Values) -> Values {
    let mut since = *now;
    if let Some(before) = before {
        for metric in Metric::ALL.into_iter().filter(|metric| !metric.unit().is_now()) {
            let place = metric as usize;
            since[place] = now[place].checked_sub(before[place]).unwrap_or(now[place]);
        }
    }
    since
}

const _: () = assert!(METRICS == Metric::ALL.len());

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use coppice_protocol::control::SyscallCount;
    use coppice_protocol::ids::{NodeId, Rank};
    use coppice_protocol::overlay::{CounterName, METRICS, Metric, NODE_METRICS, NodeMetric, Peers, Tallies};

    use super::{Samples, Seen};

    fn seen(value: u64) -> Seen {
        Seen { values: [value; METRICS], counters: Vec::new(), sent_to: Peers::none(), calls: Vec::new() }
    }

    #[test]
    fn what_is_told_is_what_came_since() {
        let mut samples = Samples::default();
        let at = |value: u64| [value; METRICS];
        let node = |value: u64| [value; NODE_METRICS];
        let first = samples.since_last(vec![(Rank(3), seen(10)), (Rank(4), seen(7))], node(100));
        let ranks = first.ranks;
        assert_eq!((ranks[&Rank(3)], ranks[&Rank(4)]), (at(10), at(7)), "one that is new counts from its beginning");
        assert_eq!(
            first.node.map(|node| node[NodeMetric::FramesSent as usize]),
            Some(0),
            "what was before is nobody's"
        );
        let second = samples.since_last(vec![(Rank(3), seen(25))], node(130));
        assert_eq!(second.ranks.len(), 1, "one that is not there says nothing");
        assert_eq!(second.ranks[&Rank(3)][Metric::Calls as usize], 15);
        assert_eq!(second.ranks[&Rank(3)][Metric::PagesResident as usize], 25, "what is there now is no difference");
        let of_node = second.node.expect("it is looked at");
        assert_eq!((of_node[NodeMetric::Idle as usize], of_node[NodeMetric::Tasks as usize]), (30, 130));
        let third = samples.since_last(vec![(Rank(3), seen(4))], node(130));
        assert_eq!(third.ranks[&Rank(3)], at(4), "one that was made again begins anew");
        let fourth = samples.since_last(vec![(Rank(4), seen(9))], node(130));
        assert_eq!(fourth.ranks[&Rank(4)][Metric::Calls as usize], 2, "one that was data goes on where it was");
        let last = samples.ended(Rank(4), seen(12));
        assert_eq!(last.values[Metric::Calls as usize], 3);
        // Somebody had looked before it ended, and says so now: all that it did was told.
        let fifth = samples.since_last(vec![(Rank(3), seen(5)), (Rank(4), seen(11))], node(130));
        assert_eq!(fifth.ranks.into_keys().collect::<Vec<_>>(), [Rank(3)]);
    }

    /// Of a rank that was looked at just before it ended, and of which that is said later, nothing is missing and
    /// nothing is told twice.
    #[test]
    fn what_is_tallied_is_what_came_since() {
        let mut samples = Samples::default();
        let has = |bytes: u64, calls: u64| {
            let mut sent_to = Peers::none();
            sent_to.add(Some(NodeId(4)), bytes);
            let calls =
                vec![SyscallCount { number: 1, calls, unknown: 0 }, SyscallCount { number: -1, calls, unknown: calls }];
            let mut values = [0; METRICS];
            values[Metric::Calls as usize] = calls.iter().map(|count| count.calls).sum();
            Seen { values, sent_to, calls, ..seen(0) }
        };
        let tallies = |bytes: u64, calls: u64| {
            let mut tallies = Tallies::default();
            tallies.sent_to.add(Some(NodeId(4)), bytes);
            [Some(1), None].into_iter().for_each(|number| tallies.calls.add(number, calls));
            tallies
        };
        let mut told = |has: Seen| samples.since_last(vec![(Rank(3), has)], [0; NODE_METRICS]).tallies.remove(&Rank(3));
        assert_eq!(told(has(10, 2)), Some(tallies(10, 2)));
        assert_eq!(told(has(15, 3)), Some(tallies(5, 1)));
        assert_eq!(told(has(15, 3)), None);
        let looked_at = has(17, 4);
        assert_eq!(samples.ended(Rank(3), has(18, 5)).tallies, tallies(3, 2));
        assert!(samples.since_last(vec![(Rank(3), looked_at)], [0; NODE_METRICS]).tallies.is_empty());
    }

    #[test]
    fn counters_are_told_as_they_are() {
        let mut samples = Samples::default();
        let name = CounterName::new(b"steps").expect("a name");
        for value in [7, 7, 3] {
            let with = Seen { counters: vec![(name, value)], ..seen(0) };
            let told = samples.since_last(vec![(Rank(3), with), (Rank(4), seen(0))], [0; NODE_METRICS]);
            assert_eq!(told.counters.into_iter().collect::<Vec<_>>(), [(Rank(3), vec![(name, value)])]);
        }
    }
}
