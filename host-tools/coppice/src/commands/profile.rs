//! `coppice profile`: what the overlay of a job has gathered.

use std::collections::BTreeMap;
use std::fmt::Write;

use coppice_api::overlay::{EpochView, GAUGES, MetricView, ProfileQuery, ProfileView};
use coppice_api::{Client, counted};

use super::overlay::show_value;
use super::rank_profile::rank_profile;
use super::samples;
use crate::arguments::Profile;
use crate::show::{print, print_json, table};
use crate::units::{show_ns, show_time};

/// Shows what was recorded.
pub(crate) async fn profile(client: &Client, arguments: &Profile) -> anyhow::Result<()> {
    if let Some(rank) = arguments.rank {
        return rank_profile(client, rank, arguments).await;
    }
    if samples::write(client, arguments.job, &arguments.samples).await? {
        return Ok(());
    }
    let view = client.profile(arguments.job, ProfileQuery { limit: arguments.limit }).await?;
    if arguments.listing.json {
        return print_json(&view);
    }
    if arguments.csv {
        return print(&csv(&view));
    }
    let functions = samples::top(client, arguments.job).await?;
    if view.epochs.is_empty() && functions.is_none() {
        let job = view.job;
        return print(&format!(
            "nothing is recorded of job {job}; have ranks looked at with `coppice run --overlay` or `coppice overlay \
             {job} on`\n"
        ));
    }
    let parts = [(!view.epochs.is_empty()).then(|| text(&view)), functions];
    print(&parts.into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

/// A line for each epoch and metric. What it is of is a rank or a node; what is called least and most rank is that.
fn csv(view: &ProfileView) -> String {
    let mut text = String::from(
        "generation,epoch,end_ns,period_ns,ranks,of,of_what,count,metric,unit,sum,mean,deviation,least,least_rank,p50,\
         p90,p99,most,most_rank\n",
    );
    for epoch in &view.epochs {
        let EpochView { generation, epoch: number, end_ns, period_ns, ranks, of, .. } = epoch;
        let of_ranks = epoch.metrics.iter().chain(&epoch.counters).map(|metric| ("rank", metric));
        for (of_what, metric) in of_ranks.chain(epoch.nodes.iter().map(|metric| ("node", metric))) {
            let (most, most_rank) = metric.top.first().map(|top| (top.value, top.rank)).unwrap_or_default();
            let _ = writeln!(
                text,
                "{generation},{number},{end_ns},{period_ns},{ranks},{of},{of_what},{},{},{},{},{},{},{},{},{},{},{},\
                 {most},{most_rank}",
                metric.count,
                metric.metric,
                metric.unit,
                metric.sum,
                metric.mean,
                metric.deviation,
                metric.least,
                metric.least_rank,
                metric.p50,
                metric.p90,
                metric.p99
            );
        }
    }
    text
}

/// Where the time went in all.
fn text(view: &ProfileView) -> String {
    let (Some(first), Some(last)) = (view.epochs.first(), view.epochs.last()) else { return String::new() };
    let begin_ns = first.end_ns.saturating_sub(first.period_ns);
    let whole = view.epochs.iter().filter(|epoch| epoch.ranks == u64::from(epoch.of)).count();
    let mut text = format!(
        "job {}: {} to {}, {}, {whole} of them with all ranks\n",
        view.job,
        show_time(begin_ns),
        show_time(last.end_ns),
        counted(view.epochs.len(), "epoch"),
    );
    // The time of all threads: of an epoch in which it began, or a rank ended, ranks have a part.
    let times = view.epochs.iter().flat_map(|epoch| &epoch.metrics).filter(|metric| metric.unit == "ns");
    let all_ns: u128 = times.map(|metric| u128::from(metric.sum)).sum();
    let mut rows = Vec::new();
    for metric in &last.metrics {
        let of = |epoch: &EpochView| epoch.metrics.iter().find(|other| other.metric == metric.metric).cloned();
        let all: Vec<_> = view.epochs.iter().filter_map(of).collect();
        let sum: u128 = all.iter().map(|metric| u128::from(metric.sum)).sum();
        if sum == 0 {
            continue;
        }
        let ranks: u128 = view.epochs.iter().map(|epoch| u128::from(epoch.ranks)).sum();
        let mean = u64::try_from(sum / ranks.max(1)).unwrap_or(u64::MAX);
        let share = match metric.unit.as_str() {
            "ns" if all_ns > 0 => format!("{:.1} %", sum as f64 * 100.0 / all_ns as f64),
            _ => String::new(),
        };
        let most = most(&all);
        // There is no sense in adding up what there was at the end of each epoch.
        let is_gauge = GAUGES.contains(&metric.metric.as_str());
        let total = if is_gauge { String::new() } else { show_value(metric, u64::try_from(sum).unwrap_or(u64::MAX)) };
        rows.push(vec![metric.metric.clone(), share, total, show_value(metric, mean), most]);
    }
    rows.extend(counters(&view.epochs));
    let each = format!("A RANK IN {}", show_ns(last.period_ns));
    text.push_str(&table(&["METRIC", "SHARE", "ALL", &each, "MOST"], rows));
    text
}

/// The largest value of all, and whose it is.
fn most(all: &[MetricView]) -> String {
    let tops = all.iter().filter_map(|metric| Some((metric, metric.top.first()?)));
    let most = tops.max_by_key(|(_, top)| top.value);
    most.map_or_else(String::new, |(metric, top)| format!("{} by {}", show_value(metric, top.value), top.rank))
}

/// What programs count themselves: there is no sense in adding up what they were in each epoch.
fn counters(epochs: &[EpochView]) -> Vec<Vec<String>> {
    let mut by_name = BTreeMap::<&str, Vec<MetricView>>::new();
    for counter in epochs.iter().flat_map(|epoch| &epoch.counters) {
        by_name.entry(&counter.metric).or_default().push(counter.clone());
    }
    let row = |(name, all): (&str, Vec<MetricView>)| {
        let sum: u128 = all.iter().map(|counter| u128::from(counter.sum)).sum();
        let count: u128 = all.iter().map(|counter| u128::from(counter.count)).sum();
        let mean = sum / count.max(1);
        vec![name.to_owned(), String::new(), String::new(), mean.to_string(), most(&all)]
    };
    by_name.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use coppice_api::overlay::ProfileView;

    use super::{csv, text};
    use crate::commands::overlay::tests::epoch;

    fn view() -> ProfileView {
        ProfileView { job: 7, epochs: vec![epoch(0), epoch(1)] }
    }

    #[test]
    fn what_was_recorded_is_summed_up() {
        insta::assert_snapshot!(text(&view()));
    }

    #[test]
    fn or_listed() {
        insta::assert_snapshot!(csv(&view()));
    }
}
