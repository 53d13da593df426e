//! `coppice overlay`: begins a job's performance overlay, ends it, or shows it.

use std::collections::BTreeMap;
use std::fmt::Write;

use coppice_api::overlay::{
    AlikeView, EpochView, MetricView, OverlayOrder, OverlayState, OverlayView, OverlayWish, ProcessView,
};
use coppice_api::{Client, counted};

use crate::arguments::{Overlay, OverlayAction};
use crate::show::{print, print_json, table};
use crate::units::{show_bytes, show_ns, show_time};

/// Does what is asked, and shows what is then.
pub(crate) async fn overlay(client: &Client, arguments: &Overlay) -> anyhow::Result<()> {
    let view = match arguments.action {
        OverlayAction::Show => client.overlay(arguments.job).await?,
        OverlayAction::On | OverlayAction::Off => {
            client.order_overlay(arguments.job, &OverlayOrder { wish: arguments.wish()? }).await?
        }
    };
    if arguments.listing.json { print_json(&view) } else { print(&text(&view)) }
}

fn text(view: &OverlayView) -> String {
    let mut text = format!("overlay of job {}: {}\n", view.job, state(view));
    if view.state == OverlayState::Off {
        return text;
    }
    let nothing = |count: u64, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
    if view.epochs > 0 {
        let _ = writeln!(
            text,
            "{}{}{}{}{}",
            counted(view.epochs, "epoch"),
            nothing(view.late, "with parts that came late"),
            nothing(view.dropped, "parts not taken"),
            nothing(view.not_recorded, "not recorded"),
            nothing(view.lies, "messages that cannot be true"),
        );
    }
    text.push_str(&tree(&view.processes));
    for missing in &view.missing {
        let _ = writeln!(text, "missing since {}: ranks {}", show_time(missing.since_ns), missing.ranks);
    }
    if let Some(last) = &view.last {
        text.push('\n');
        text.push_str(&epoch(last));
    }
    text
}

fn state(view: &OverlayView) -> String {
    let show_ms = |ms: u64| show_ns(ms.saturating_mul(1_000_000));
    let rate = view.wish.as_ref().map(|OverlayWish { period_ms: wanted_ms, .. }| match view.period_ms {
        Some(ms) if ms != *wanted_ms => {
            format!(", every {} rather than every {} because that came late", show_ms(ms), show_ms(*wanted_ms))
        }
        _ => format!(", every {}", show_ms(*wanted_ms)),
    });
    let sampled = view.wish.as_ref().and_then(|wish| wish.sample_hz);
    let sampled = sampled.map(|hz| format!(", ranks are sampled {} a second", counted(hz, "time")));
    let rate = [rate, sampled].into_iter().flatten().collect::<String>();
    match view.state {
        OverlayState::Off => "none".to_owned(),
        OverlayState::Waiting => format!("begins when all ranks run{rate}"),
        OverlayState::Listening => format!("{} of {} have said that they are there", view.nodes_here, view.nodes),
        OverlayState::Starting => "its processes begin".to_owned(),
        OverlayState::Running => format!("runs on {} of {}{rate}", view.nodes_here, counted(view.nodes, "node")),
    }
}

/// The processes, each below the one above it.
fn tree(processes: &[ProcessView]) -> String {
    let mut below = BTreeMap::<Option<u32>, Vec<&ProcessView>>::new();
    for process in processes {
        below.entry(process.above).or_default().push(process);
    }
    let mut text = String::new();
    // What is still to be written, the next one last. A process is below one other, so each comes once.
    let mut open: Vec<(&ProcessView, usize)> =
        below.get(&None).into_iter().flatten().rev().map(|process| (*process, 0)).collect();
    while let Some((process, depth)) = open.pop() {
        let indent = "  ".repeat(depth + 1);
        let hears = match process.nodes.len() {
            0 => String::new(),
            nodes => format!(", hears the ranks of {}", counted(nodes, "node")),
        };
        let (ranks, number) = (counted(process.ranks, "rank"), process.process);
        let _ = writeln!(text, "{indent}process {number} on node {}: {ranks} below it{hears}", process.node);
        open.extend(below.get(&Some(process.process)).into_iter().flatten().rev().map(|below| (*below, depth + 1)));
    }
    text
}

/// What the ranks did in an epoch, and the nodes.
pub(crate) fn epoch(epoch: &EpochView) -> String {
    let missing = if epoch.missing.is_empty() { String::new() } else { format!("; without {}", epoch.missing) };
    let (end, length) = (show_time(epoch.end_ns), show_ns(epoch.period_ns));
    // One that came before it was over came by another clock.
    let lag =
        epoch.came_ns.checked_sub(epoch.end_ns).map_or_else(String::new, |ns| format!(", there after {}", show_ns(ns)));
    let mut text = format!("{length} to {end}{lag}, {} of {} ranks{missing}\n", epoch.ranks, epoch.of);
    let of_ranks = epoch.metrics.iter().filter(|metric| metric.sum > 0).map(|metric| row(metric, "by", epoch.ranks));
    // Of what a program counts it is of interest that it is 0.
    let counters = epoch.counters.iter().map(|metric| row(metric, "by", epoch.ranks));
    text.push_str(&table(&["METRIC", "MEAN", "DEVIATION", "LEAST", "MEDIAN", "MOST"], of_ranks.chain(counters)));
    if epoch.counters_dropped > 0 {
        let _ = writeln!(text, "{} of further counters not shown", counted(epoch.counters_dropped, "value"));
    }
    text.push_str(&alike(&epoch.alike));
    if epoch.node_count > 0 {
        let nodes = epoch.nodes.iter().filter(|metric| metric.sum > 0);
        let nodes = nodes.map(|metric| row(metric, "on", epoch.node_count));
        let _ = writeln!(text, "\n{}", counted(epoch.node_count, "node"));
        text.push_str(&table(&["NODES", "MEAN", "DEVIATION", "LEAST", "MEDIAN", "MOST"], nodes));
    }
    text
}

/// Ranks that behave alike, a line for each kind.
fn alike(all: &[AlikeView]) -> String {
    let mut text = String::new();
    for AlikeView { metric, sixteenths, count, ranks } in all {
        let share = match sixteenths {
            15 => "nearly all of their time",
            12 => "most of their time",
            8 => "half of their time or more",
            _ => "more of their time than any other",
        };
        let named = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let more = if (ranks.len() as u64) < *count { ", …" } else { "" };
        let _ = writeln!(text, "{}: {metric} takes {share} ({named}{more})", counted(*count, "rank"));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// A line of a table: what is told of one thing, with whose the least and the most is. If it is not of all of them, of
/// how many.
fn row(metric: &MetricView, whose: &str, all: u64) -> Vec<String> {
    let show = |value: u64| show_value(metric, value);
    let most = metric.top.first().map_or_else(String::new, |top| format!("{} {whose} {}", show(top.value), top.rank));
    let least = format!("{} {whose} {}", show(metric.least), metric.least_rank);
    let name =
        if metric.count == all { metric.metric.clone() } else { format!("{} ({})", metric.metric, metric.count) };
    vec![name, show(metric.mean), show(metric.deviation), least, show(metric.p50), most]
}

/// A value as people read it.
pub(crate) fn show_value(metric: &MetricView, value: u64) -> String {
    match metric.unit.as_str() {
        "ns" => show_ns(value),
        "bytes" => show_bytes(value),
        _ => value.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use coppice_api::overlay::{
        AlikeView, EpochView, MetricView, MissingView, OverlayState, OverlayView, OverlayWish, ProcessView, TopView,
    };

    use super::text;

    pub(crate) fn metric(name: &str, unit: &str, mean: u64) -> MetricView {
        MetricView {
            metric: name.into(),
            unit: unit.into(),
            count: 3,
            sum: 3 * mean,
            least: mean / 2,
            least_rank: 1,
            mean,
            deviation: mean / 4,
            p50: mean,
            p90: mean + mean / 2,
            p99: mean + mean / 2,
            top: vec![TopView { rank: 2, value: mean + mean / 2 }],
            histogram: vec![],
        }
    }

    pub(crate) fn epoch(number: u64) -> EpochView {
        EpochView {
            generation: 1,
            epoch: number,
            period_ns: 1_000_000_000,
            end_ns: 1_790_000_000_000_000_000 + number * 1_000_000_000,
            came_ns: 1_790_000_000_004_000_000 + number * 1_000_000_000,
            ranks: 3,
            of: 4,
            missing: "3".into(),
            metrics: vec![
                metric("user", "ns", 700_000_000),
                metric("calls", "times", 40),
                metric("signals", "times", 0),
            ],
            alike: vec![
                AlikeView { metric: "user".into(), sixteenths: 15, count: 9, ranks: vec![0, 1, 4, 6] },
                AlikeView { metric: "network".into(), sixteenths: 0, count: 1, ranks: vec![2] },
            ],
            counters: vec![
                MetricView { count: 2, ..metric("counter:steps", "count", 12) },
                metric("counter:errors", "count", 0),
            ],
            counters_dropped: 5,
            node_count: 3,
            nodes: vec![
                metric("memory-free", "bytes", 50 << 20),
                metric("region-used", "bytes", 0),
                metric("cores", "count", 2),
            ],
            totals: vec![],
        }
    }

    fn view() -> OverlayView {
        OverlayView {
            job: 7,
            state: OverlayState::Running,
            generation: 1,
            wish: Some(OverlayWish::default()),
            period_ms: Some(1000),
            ranks: 4,
            nodes_here: 4,
            nodes: 4,
            processes: vec![
                ProcessView { process: 0, node: 0, above: None, processes: vec![1], nodes: vec![0], ranks: 4 },
                ProcessView { process: 1, node: 2, above: Some(0), processes: vec![], nodes: vec![1, 2, 3], ranks: 3 },
            ],
            epochs: 5,
            late: 1,
            dropped: 0,
            lies: 0,
            not_recorded: 0,
            missing: vec![MissingView { ranks: "3".into(), since_ns: 1_790_000_000_000_000_000 }],
            last: Some(epoch(0)),
        }
    }

    #[test]
    fn it_is_shown_with_its_tree_and_its_last_epoch() {
        insta::assert_snapshot!(text(&view()));
    }

    #[test]
    fn of_none_there_is_nothing_to_be_shown() {
        let none = OverlayView { state: OverlayState::Off, ..view() };
        assert_eq!(text(&none), "overlay of job 7: none\n");
        let sampled = OverlayView {
            state: OverlayState::Running,
            wish: Some(OverlayWish { period_ms: 100, sample_hz: Some(50), ..OverlayWish::default() }),
            ..view()
        };
        let wanted = "overlay of job 7: runs on 4 of 4 nodes, every 100 ms, ranks are sampled 50 times a second\n";
        assert!(
            text(&OverlayView { period_ms: Some(100), ..sampled.clone() }).starts_with(wanted),
            "{}",
            text(&sampled)
        );
        let slower = text(&OverlayView { period_ms: Some(400), ..sampled });
        assert!(slower.contains(", every 400 ms rather than every 100 ms because that came late, ranks"), "{slower}");
        let waiting = OverlayView {
            state: OverlayState::Waiting,
            processes: vec![],
            epochs: 0,
            missing: vec![],
            last: None,
            ..view()
        };
        assert_eq!(text(&waiting), "overlay of job 7: begins when all ranks run, every 1000 ms\n");
    }
}
