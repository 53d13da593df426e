//! `coppice profile`: what the overlay of a job has gathered.

use std::fmt::Write;

use coppice_api::overlay::{EpochView, ProfileQuery, ProfileView};
use coppice_api::{Client, counted};

use super::overlay::show_value;
use super::samples;
use crate::arguments::Profile;
use crate::show::{print, print_json, table};
use crate::units::{show_ns, show_time};

/// Shows what was recorded.
pub(crate) async fn profile(client: &Client, arguments: &Profile) -> anyhow::Result<()> {
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

/// A line for each epoch and metric.
fn csv(view: &ProfileView) -> String {
    let mut text = String::from(
        "generation,epoch,end_ns,period_ns,ranks,of,metric,unit,sum,mean,deviation,least,least_rank,p50,p90,p99,most,\
         most_rank\n",
    );
    for epoch in &view.epochs {
        let EpochView { generation, epoch: number, end_ns, period_ns, ranks, of, .. } = epoch;
        for metric in &epoch.metrics {
            let (most, most_rank) = metric.top.first().map(|top| (top.value, top.rank)).unwrap_or_default();
            let _ = writeln!(
                text,
                "{generation},{number},{end_ns},{period_ns},{ranks},{of},{},{},{},{},{},{},{},{},{},{},{most},{most_rank}",
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
    // What ranks were looked at for, all together.
    let all_ns: u128 = view.epochs.iter().map(|epoch| u128::from(epoch.period_ns) * u128::from(epoch.ranks)).sum();
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
        let most = all.iter().filter_map(|metric| metric.top.first()).max_by_key(|top| top.value);
        let most = most.map_or_else(String::new, |top| format!("{} by {}", show_value(metric, top.value), top.rank));
        let total = show_value(metric, u64::try_from(sum).unwrap_or(u64::MAX));
        rows.push(vec![metric.metric.clone(), share, total, show_value(metric, mean), most]);
    }
    let each = format!("A RANK IN {}", show_ns(last.period_ns));
    text.push_str(&table(&["METRIC", "SHARE", "ALL", &each, "MOST"], rows));
    text
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
