//! Overlays and what they have gathered, as users see them.

use coppice_api::overlay::{EpochView, MetricView, MissingView, OverlayState, ProcessView, TopView};
use coppice_protocol::overlay::{FrontEnd, Metric, Part, Source, Standing, Summary, Unit};

use super::in_ranges;

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

/// Who is missing, and since when.
pub(super) fn missing_views(front_end: &FrontEnd) -> Vec<MissingView> {
    let period_ns = front_end.subject().period_ns;
    let view = |(epoch, ranks): (u64, _)| MissingView { ranks: in_ranges(ranks), since_ns: end_ns(epoch, period_ns) };
    front_end.missing().map(view).collect()
}

/// When an epoch has ended, ns since 1970.
const fn end_ns(epoch: u64, period_ns: u64) -> u64 {
    epoch.saturating_add(1).saturating_mul(period_ns)
}

/// An epoch.
pub(super) fn epoch_view(front_end: &FrontEnd, part: &Part) -> EpochView {
    let subject = front_end.subject();
    let missing = part.ranks().missing_of(subject.size);
    EpochView {
        generation: front_end.generation(),
        epoch: part.epoch(),
        period_ns: subject.period_ns,
        end_ns: end_ns(part.epoch(), subject.period_ns),
        ranks: part.ranks().count(),
        of: subject.size,
        missing: missing.as_ref().map_or_else(|| "many".to_owned(), in_ranges),
        metrics: Metric::ALL.into_iter().filter_map(|metric| metric_view(metric, &part.summary(metric))).collect(),
    }
}

/// Of nobody there is nothing to be said.
fn metric_view(metric: Metric, summary: &Summary) -> Option<MetricView> {
    let (least, least_rank) = summary.least()?;
    let quantile = |part: f64| summary.sketch().quantile(part).unwrap_or_default();
    let top = summary.top().iter().map(|(value, rank)| TopView { rank: rank.0, value: *value }).collect();
    Some(MetricView {
        metric: metric.name().to_owned(),
        unit: unit(metric).to_owned(),
        sum: u64::try_from(summary.sum()).unwrap_or(u64::MAX),
        least,
        least_rank: least_rank.0,
        mean: summary.mean().unwrap_or_default().round() as u64,
        deviation: summary.variance().unwrap_or_default().sqrt().round() as u64,
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
        top,
    })
}

fn unit(metric: Metric) -> &'static str {
    match metric.unit() {
        Unit::Nanoseconds | Unit::NanosecondsNow => "ns",
        Unit::Times => "times",
        Unit::Bytes | Unit::BytesNow => "bytes",
        Unit::Now => "now",
        Unit::Pages | Unit::PagesNow => "pages",
    }
}
