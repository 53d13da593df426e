//! `coppice profile --rank`: what one rank did, span by span.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use coppice_api::overlay::{CALLED, OTHERS, ProfileQuery, RankProfileView, SENT_TO, SpanView};
use coppice_api::{Client, counted};

use crate::arguments::Profile;
use crate::show::{print, print_json, table};
use crate::units::{show_bytes, show_ns, show_time};

/// What is shown beside times, if there is any of it, and what it is called there.
const ALSO: [(&str, &str); 4] =
    [("calls", "CALLS"), ("bytes-shipped", "FILES"), ("bytes-sent", "SENT"), ("bytes-received", "RECEIVED")];

/// Shows what was recorded of a rank.
pub(crate) async fn rank_profile(client: &Client, rank: u32, arguments: &Profile) -> anyhow::Result<()> {
    let view = client.rank_profile(arguments.job, rank, ProfileQuery { limit: arguments.limit }).await?;
    if arguments.listing.json {
        return print_json(&view);
    }
    print(&if arguments.csv { csv(&view) } else { text(&view) })
}

/// A line for each span and metric.
fn csv(RankProfileView { job: _, rank, units, spans }: &RankProfileView) -> String {
    let mut text = String::from("generation,begin_ns,end_ns,rank,metric,unit,value\n");
    for SpanView { generation, begin_ns, end_ns, values } in spans {
        for (metric, unit) in units {
            let value = values.get(metric).copied().unwrap_or_default();
            let _ = writeln!(text, "{generation},{begin_ns},{end_ns},{rank},{metric},{unit},{value}");
        }
    }
    text
}

/// A line for each span: where the time of its threads went, and some of what it did.
fn text(view: &RankProfileView) -> String {
    let RankProfileView { job, rank, units, spans } = view;
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return format!(
            "nothing is recorded of rank {rank} of job {job}; have ranks looked at with `coppice run --overlay` or \
             `coppice overlay {job} on`\n"
        );
    };
    let mut text = format!(
        "job {job}, rank {rank}: {} to {}, {}\n",
        show_time(first.begin_ns),
        show_time(last.end_ns),
        counted(spans.len(), "span"),
    );
    let of = |span: &SpanView, metric: &str| span.values.get(metric).copied().unwrap_or_default();
    let is_any = |metric: &str| spans.iter().any(|span| of(span, metric) > 0);
    let times: Vec<&str> = units.iter().filter(|(_, unit)| *unit == "ns").map(|(metric, _)| metric.as_str()).collect();
    let mut shown: Vec<&str> = times.iter().copied().filter(|metric| is_any(metric)).collect();
    // What most of the time went to comes first.
    let all = |metric: &str| spans.iter().map(|span| u128::from(of(span, metric))).sum::<u128>();
    shown.sort_by_key(|metric| Reverse(all(metric)));
    let also: Vec<_> = ALSO.into_iter().filter(|(metric, _)| is_any(metric)).collect();
    let mut heading = vec!["UNTIL".to_owned(), "LENGTH".to_owned()];
    heading.extend(shown.iter().map(|metric| metric.to_uppercase()));
    heading.extend(also.iter().map(|(_, name)| (*name).to_owned()));
    let rows = spans.iter().map(|span| {
        let whole: u128 = times.iter().map(|metric| u128::from(of(span, metric))).sum();
        let mut row = vec![show_time(span.end_ns), show_ns(span.end_ns.saturating_sub(span.begin_ns))];
        row.extend(shown.iter().map(|metric| share(of(span, metric), whole)));
        row.extend(also.iter().map(|(metric, _)| match units.get(*metric).map(String::as_str) {
            Some("bytes") => show_bytes(of(span, metric)),
            _ => of(span, metric).to_string(),
        }));
        row
    });
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    text.push_str(&table(&heading, rows));
    let whom = |node: &str| if node == OTHERS { OTHERS.to_owned() } else { format!("node {node}") };
    text.push_str(&tally("sent to", SENT_TO, spans, |node, bytes| format!("{} {}", whom(node), show_bytes(bytes))));
    text.push_str(&tally("called", CALLED, spans, |call, times| format!("{call} {}", counted(times, "time"))));
    text
}

/// What came in all of what is tallied, most first: a line, if there is any.
fn tally(what: &str, prefix: &str, spans: &[SpanView], show: impl Fn(&str, u64) -> String) -> String {
    let mut all = BTreeMap::<&str, u64>::new();
    for (name, amount) in spans.iter().flat_map(|span| &span.values) {
        if let Some(of) = name.strip_prefix(prefix) {
            let sum = all.entry(of).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
    let mut all: Vec<(&str, u64)> = all.into_iter().collect();
    if all.is_empty() {
        return String::new();
    }
    all.sort_by_key(|(_, amount)| Reverse(*amount));
    let each: Vec<String> = all.into_iter().map(|(of, amount)| show(of, amount)).collect();
    format!("{what} {}\n", each.join(", "))
}

/// A part of a whole, in percent; nothing of nothing.
fn share(part: u64, whole: u128) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use coppice_api::overlay::{RankProfileView, SpanView};

    use super::{csv, text};

    fn view() -> RankProfileView {
        let span = |second: u64, length: u64, values: &[(&str, u64)]| {
            let end_ns = 1_790_000_000_000_000_000 + second * 1_000_000_000;
            let values = values.iter().map(|(metric, value)| ((*metric).to_owned(), *value)).collect();
            SpanView { generation: 1, begin_ns: end_ns - length * 1_000_000_000, end_ns, values }
        };
        let units = [("user", "ns"), ("kernel", "ns"), ("network", "ns"), ("calls", "times"), ("bytes-sent", "bytes")];
        RankProfileView {
            job: 7,
            rank: 2,
            units: units.map(|(metric, unit)| (metric.into(), unit.into())).into(),
            spans: vec![
                span(1, 1, &[("user", 250_000_000), ("network", 750_000_000), ("calls", 12), ("bytes-sent", 4096)]),
                span(2, 1, &[("sent-to:4", 3000), ("sent-to:11", 1000), ("called:poll", 11), ("called:read", 1)]),
                span(
                    5,
                    3,
                    &[
                        ("network", 3_000_000_000),
                        ("calls", 3),
                        ("sent-to:11", 5000),
                        ("sent-to:others", 90),
                        ("called:read", 2),
                    ],
                ),
            ],
        }
    }

    #[test]
    fn what_a_rank_did_is_shown_span_by_span() {
        insta::assert_snapshot!(text(&view()));
        let nothing = text(&RankProfileView { spans: vec![], ..view() });
        assert!(nothing.starts_with("nothing is recorded of rank 2 of job 7; ") && nothing.lines().count() == 1);
    }

    #[test]
    fn or_listed() {
        insta::assert_snapshot!(csv(&view()));
    }
}
