//! Overlays and what they have gathered, as users see them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coppice_api::overlay::{
    AlikeView, BarView, CALLED, COUNTER, EpochView, MetricView, MissingView, OTHERS, OverlayState, ProcessView,
    SENT_TO, SpanView, TopView, TotalView,
};
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::{
    Alike, FrontEnd, Metric, NodeMetric, Part, Share, Source, Standing, Summary, TopTallies, Unit, Values,
};
use coppice_protocol::ranks::Ranks;
use coppice_protocol::syscalls;

use super::in_ranges;
use crate::limits::OVERLAY_BARS_MAX;

pub(super) fn state_of(standing: Standing) -> OverlayState {
    match standing {
        Standing::Listening => OverlayState::Listening,
        Standing::Starting => OverlayState::Starting,
        Standing::Flowing => OverlayState::Running,
        Standing::Over => OverlayState::Off,
    }
}

/// The tree.
pub(super) fn process_views(front_end: &FrontEnd) -> Vec<ProcessView> {
    let seats = front_end.seats();
    let view = |seat: &coppice_protocol::overlay::Seat| ProcessView {
        process: seat.index,
        node: seat.node.0,
        above: seat.above,
        processes: seat.below.iter().filter_map(|child| process(child.source)).collect(),
        nodes: seat.below.iter().filter_map(|child| back_ends(child.source)).collect(),
        ranks: seat.below.iter().map(|child| child.ranks.count()).sum(),
    };
    seats.iter().map(view).collect()
}

fn process(source: Source) -> Option<u32> {
    match source {
        Source::Process(index) => Some(index),
        Source::BackEnds(_) => None,
    }
}

fn back_ends(source: Source) -> Option<u32> {
    match source {
        Source::Process(_) => None,
        Source::BackEnds(node) => Some(node.0),
    }
}

/// Who is missing, and since when. Those that have come to their end are not.
pub(super) fn missing_views(front_end: &FrontEnd, has_ended: impl Fn(Rank) -> bool) -> Vec<MissingView> {
    let period_ns = front_end.subject().period_ns;
    let view = |(epoch, ranks): (u64, &Ranks)| {
        let mut missing = Ranks::default();
        // No more ranges than the job has, which fit together.
        for rank in ranks.iter().filter(|rank| !has_ended(*rank)) {
            missing.add(rank);
        }
        MissingView { ranks: in_ranges(&missing), since_ns: end_ns(epoch, period_ns) }
    };
    front_end.missing().map(view).filter(|view| !view.ranks.is_empty()).collect()
}

/// When an epoch has ended, ns since 1970.
const fn end_ns(epoch: u64, period_ns: u64) -> u64 {
    epoch.saturating_add(1).saturating_mul(period_ns)
}

/// An epoch, of which all that is in it is there now, ns since 1970.
pub(super) fn epoch_view(front_end: &FrontEnd, part: &Part, came_ns: u64) -> EpochView {
    let subject = front_end.subject();
    let missing = part.ranks().missing_of(subject.size);
    EpochView {
        generation: front_end.generation(),
        epoch: part.epoch(),
        period_ns: subject.period_ns,
        end_ns: end_ns(part.epoch(), subject.period_ns),
        came_ns,
        ranks: part.ranks().count(),
        of: subject.size,
        missing: missing.as_ref().map_or_else(|| "many".to_owned(), in_ranges),
        metrics: Metric::ALL
            .into_iter()
            .filter_map(|metric| metric_view(metric.name().to_owned(), metric.unit(), &part.summary(metric)))
            .collect(),
        alike: alike_views(part.alike()),
        counters: part
            .counters()
            .iter()
            .filter_map(|(name, summary)| metric_view(format!("{COUNTER}{name}"), Unit::Now, summary))
            .collect(),
        counters_dropped: part.counters().dropped(),
        node_count: part.nodes().count(),
        nodes: NodeMetric::ALL
            .into_iter()
            .filter_map(|metric| metric_view(metric.name().to_owned(), metric.unit(), &part.node_summary(metric)))
            .collect(),
        totals: part.totals().iter().map(total_view).collect(),
    }
}

fn total_view((rank, values, tallies): (Rank, Values, &TopTallies)) -> TotalView {
    let some = Metric::ALL.into_iter().map(|metric| (metric.name().to_owned(), values[metric as usize]));
    let some = some.filter(|(_, value)| *value > 0);
    let others = || OTHERS.to_owned();
    let node = |node: Option<NodeId>| node.map_or_else(others, |node| node.to_string());
    let sent = tallies.sent_to.iter().map(|(to, bytes)| (format!("{SENT_TO}{}", node(to)), bytes));
    let call = |number: Option<u16>| {
        let name =
            |number: u16| syscalls::name(i32::from(number)).map_or_else(|| number.to_string(), ToOwned::to_owned);
        number.map_or_else(others, name)
    };
    let called = tallies.calls.iter().map(|(number, times)| (format!("{CALLED}{}", call(number)), times));
    TotalView { rank: rank.0, values: some.chain(sent).chain(called).collect() }
}

/// What values of ranks count, by their names.
pub(crate) fn units(spans: &[SpanView]) -> BTreeMap<String, String> {
    let metrics = Metric::ALL.into_iter().map(|metric| (metric.name().to_owned(), unit(metric.unit()).to_owned()));
    let names = spans.iter().flat_map(|span| span.values.keys());
    let tallied = names.filter_map(|name| {
        let kinds = [(SENT_TO, Unit::Bytes), (CALLED, Unit::Times)];
        let (_, of) = kinds.into_iter().find(|(prefix, _)| name.starts_with(prefix))?;
        Some((name.clone(), unit(of).to_owned()))
    });
    metrics.chain(tallied).collect()
}

/// Of nobody there is nothing to be said.
fn metric_view(metric: String, of: Unit, summary: &Summary) -> Option<MetricView> {
    let (least, least_rank) = summary.least()?;
    let quantile = |part: f64| summary.sketch().quantile(part).unwrap_or_default();
    let top = summary.top().iter().map(|(value, rank)| TopView { rank: rank.0, value: *value }).collect();
    Some(MetricView {
        metric,
        unit: unit(of).to_owned(),
        count: summary.count(),
        sum: u64::try_from(summary.sum()).unwrap_or(u64::MAX),
        least,
        least_rank: least_rank.0,
        mean: summary.mean().unwrap_or_default().round() as u64,
        deviation: summary.variance().unwrap_or_default().sqrt().round() as u64,
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
        top,
        histogram: summary.sketch().histogram(OVERLAY_BARS_MAX).into_iter().map(bar).collect(),
    })
}

const fn bar((least, greatest, count): (u64, u64, u64)) -> BarView {
    BarView { least, greatest, count }
}

/// Most ranks first.
fn alike_views(alike: &Alike) -> Vec<AlikeView> {
    let view = |(metric, share, count, first): (Metric, Share, u64, &[Rank])| AlikeView {
        metric: metric.name().to_owned(),
        sixteenths: share.sixteenths(),
        count,
        ranks: first.iter().map(|rank| rank.0).collect(),
    };
    let mut views: Vec<AlikeView> = alike.iter().map(view).collect();
    views.sort_by_key(|view| Reverse(view.count));
    views
}

fn unit(of: Unit) -> &'static str {
    match of {
        Unit::Nanoseconds | Unit::NanosecondsNow => "ns",
        Unit::Times => "times",
        Unit::Bytes | Unit::BytesNow => "bytes",
        Unit::Now => "count",
        Unit::Pages | Unit::PagesNow => "pages",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use coppice_protocol::ids::{NodeId, Rank};
    use coppice_protocol::overlay::{
        CounterName, Counters, FrontEnd, Layout, METRICS, Metric, NODE_METRICS, NodeMetric, Part, Subject, Tallies,
        Totals,
    };
    use coppice_protocol::ranks::Ranks;

    use super::epoch_view;

    fn front_end() -> FrontEnd {
        let nodes = BTreeMap::from([(NodeId(7), Ranks::range(Rank(0), 4))]);
        let subject =
            Subject { size: 4, nodes, layout: Layout::Average, period_ns: 1_000_000_000, sample_period_ns: 0 };
        FrontEnd::new(3, subject, 0)
    }

    fn part() -> Part {
        let mut all = Part::none(5);
        for (rank, counter) in [(0, Some(10)), (1, None), (3, Some(0))] {
            let mut values = [0; METRICS];
            values[Metric::Calls as usize] = u64::from(rank) * 4;
            values[if rank == 1 { Metric::Sleep } else { Metric::Network } as usize] = 1000;
            values[Metric::Page as usize] = u64::from(rank) * 100;
            let name = CounterName::new(b"steps").expect("a name");
            let counters = Counters::of(Rank(rank), counter.map(|value| (name, value)));
            let mut tallies = Tallies::default();
            tallies.sent_to.add(Some(NodeId(9)), u64::from(rank) * 7);
            tallies.sent_to.add(None, 1);
            [Some(0), Some(511), None].into_iter().for_each(|number| tallies.calls.add(number, u64::from(rank) + 1));
            let part =
                Part::of(5, Rank(rank), &values).with(counters).with_totals(Totals::of(Rank(rank), &values, &tallies));
            all.merge(&part).expect("others");
        }
        let mut values = [0; NODE_METRICS];
        values[NodeMetric::Cores as usize] = 2;
        all.merge(&Part::of_node(5, NodeId(7), &values)).expect("others");
        all
    }

    #[test]
    fn what_is_told_of_ranks_nodes_and_counters_is_of_these() {
        let view = epoch_view(&front_end(), &part(), 7);
        assert_eq!((view.generation, view.ranks, view.of, view.missing.as_str()), (3, 3, 4, "2"));
        let of = |metrics: &[coppice_api::overlay::MetricView], name: &str| {
            let found = metrics.iter().find(|metric| metric.metric == name).expect(name);
            (found.unit.clone(), found.count, found.sum, found.top[0].rank, found.least_rank)
        };
        assert_eq!(of(&view.metrics, "calls"), ("times".into(), 3, 16, 3, 0));
        // What nobody did is told of as that.
        assert_eq!(of(&view.metrics, "user"), ("ns".into(), 3, 0, 0, 0));
        assert_eq!(view.metrics.len(), METRICS);
        let calls = view.metrics.iter().find(|metric| metric.metric == "calls").expect("calls");
        let bars: Vec<_> = calls.histogram.iter().map(|bar| (bar.least, bar.greatest, bar.count)).collect();
        assert_eq!(bars, [(0, 0, 1), (4, 4, 1), (12, 12, 1)]);
        let alike: Vec<_> = view.alike.iter().map(|it| (it.metric.as_str(), it.sixteenths, it.ranks.clone())).collect();
        assert_eq!(alike, [("network", 15, vec![0]), ("network", 12, vec![3]), ("sleep", 12, vec![1])]);
        assert_eq!(of(&view.counters, "counter:steps"), ("count".into(), 2, 10, 0, 3));
        assert_eq!((view.counters.len(), view.counters_dropped), (1, 0));
        let calls = |rank: usize| view.totals[rank].values.get("calls").copied();
        assert_eq!((view.totals[2].rank, calls(0), calls(2)), (3, None, Some(12)));
        let sent = |name: &str| view.totals[2].values.get(name).copied();
        assert_eq!((sent("sent-to:9"), sent("sent-to:others"), sent("sent-to:3")), (Some(21), Some(1), None));
        assert_eq!(
            ["called:read", "called:511", "called:others", "called:write"].map(sent),
            [Some(4), Some(4), Some(4), None]
        );
        assert_eq!((view.node_count, view.nodes.len()), (1, NODE_METRICS));
        assert_eq!(of(&view.nodes, "cores"), ("count".into(), 1, 2, 7, 7));
        assert_eq!(of(&view.nodes, "idle"), ("ns".into(), 1, 0, 7, 7));
    }

    #[test]
    fn what_is_called_a_gauge_is_one() {
        let gauges = Metric::ALL.into_iter().filter(|metric| metric.unit().is_now()).map(Metric::name);
        assert!(gauges.eq(coppice_api::overlay::GAUGES));
    }

    #[test]
    fn of_nobody_nothing_is_told() {
        let view = epoch_view(&front_end(), &Part::none(5), 7);
        assert!(view.metrics.is_empty() && view.counters.is_empty() && view.nodes.is_empty());
    }
}
