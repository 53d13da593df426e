//! What single ranks did: a row for each in a table, in a chart over time, and in one of whom they sent to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use coppice_api::job::RankView;
use coppice_api::overlay::{OTHERS, RankProfileView, SENT_TO, SpanView};
use coppice_api::show::{harmless, show_bytes, show_end, show_ns};

use super::ROWS_MAX;
use crate::charts::cells::{Cell, Field, chart};
use crate::charts::{ChartError, Svg};
use crate::matter::Matter;

/// Most nodes that have a column of their own.
const COLUMNS_MAX: usize = 48;

/// A chart with what it shows.
pub(crate) struct Figure {
    pub(crate) chart: Svg,
    pub(crate) caption: String,
}

/// A rank, a line of a table.
pub(crate) struct Row {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    pub(crate) end: String,
    pub(crate) run: String,
    pub(crate) launch: String,
    pub(crate) faults: u64,
    pub(crate) fetched: u64,
    pub(crate) memory: String,
    pub(crate) read: String,
    pub(crate) written: String,
    pub(crate) calls: u64,
    pub(crate) reason: String,
}

/// The first of a job's ranks.
pub(crate) fn rows(reports: &[RankView]) -> Vec<Row> {
    let row = |rank: &RankView| Row {
        rank: rank.rank,
        node: rank.node,
        end: show_end(rank),
        run: show_ns(rank.counters.run_ns),
        launch: show_ns(rank.counters.launch_ns),
        faults: rank.counters.page_faults,
        fetched: rank.counters.pages_fetched,
        memory: show_bytes(rank.counters.pages_peak.saturating_mul(4096)),
        read: show_bytes(rank.counters.bytes_read),
        written: show_bytes(rank.counters.bytes_written),
        calls: rank.syscalls.iter().fold(0, |sum, count| sum.saturating_add(count.calls)),
        reason: rank.reason.as_ref().map(|reason| harmless(reason).into_owned()).unwrap_or_default(),
    };
    reports.iter().take(ROWS_MAX).map(row).collect()
}

/// What of a rank's time in a span was in its program; nothing of no time.
fn computing(view: &RankProfileView, span: &SpanView) -> Option<f64> {
    let times = span.values.iter().filter(|(name, _)| view.units.get(*name).is_some_and(|unit| unit == "ns"));
    let all: f64 = times.map(|(_, time)| *time as f64).sum();
    let user = span.values.get("user").copied().unwrap_or_default() as f64;
    (all > 0.0).then(|| user / all)
}

/// How much each rank computed, over time.
pub(crate) fn heat(matter: &Matter) -> Result<Option<Figure>, ChartError> {
    let ranks: Vec<&RankProfileView> = matter.ranks.iter().filter(|view| !view.spans.is_empty()).collect();
    let spans = || ranks.iter().flat_map(|view| &view.spans);
    let (Some(begin_ns), Some(end_ns)) =
        (spans().map(|span| span.begin_ns).min(), spans().map(|span| span.end_ns).max())
    else {
        return Ok(None);
    };
    let at = |ns: u64| ns.saturating_sub(begin_ns) as f64 / 1e9;
    let cells = ranks.iter().enumerate().flat_map(|(row, view)| {
        view.spans.iter().filter_map(move |span| {
            let share = computing(view, span)?;
            Some(Cell { row, begin: at(span.begin_ns), end: at(span.end_ns), share })
        })
    });
    let names: Vec<String> = ranks.iter().map(|view| view.rank.to_string()).collect();
    let caption = format!(
        "The stronger the colour, the more of its time a rank was in its program; the rest of it the kernel had, or it \
         waited.{}",
        some_of(matter, ranks.len())
    );
    let field = Field {
        label: format!("How much of its time each of {} ranks computed, over {:.1} seconds", ranks.len(), at(end_ns)),
        rows: &names,
        row_name: "rank",
        across: ("seconds since the overlay began", at(end_ns)),
        columns: None,
        cells: cells.collect(),
    };
    Ok(chart(&field)?.map(|chart| Figure { chart, caption }))
}

/// Which ranks are in a chart, if it is not all of them.
fn some_of(matter: &Matter, drawn: usize) -> String {
    let ranks = matter.evidence.job.job.ranks;
    if drawn as u64 >= u64::from(ranks) { String::new() } else { format!(" {drawn} of {ranks} ranks are shown.") }
}

/// Bytes that a rank has sent in all, by node.
fn sent(view: &RankProfileView) -> BTreeMap<u32, u64> {
    let mut sent = BTreeMap::new();
    for (name, bytes) in view.spans.iter().flat_map(|span| &span.values) {
        if let Some(node) = name.strip_prefix(SENT_TO).filter(|node| *node != OTHERS).and_then(|node| node.parse().ok())
        {
            let sum: &mut u64 = sent.entry(node).or_default();
            *sum = sum.saturating_add(*bytes);
        }
    }
    sent
}

/// How much each rank sent to each node.
pub(crate) fn matrix(matter: &Matter) -> Result<Option<Figure>, ChartError> {
    let ranks: Vec<(u32, BTreeMap<u32, u64>)> = matter.ranks.iter().map(|view| (view.rank, sent(view))).collect();
    let mut all = BTreeMap::<u32, u128>::new();
    for (node, bytes) in ranks.iter().flat_map(|(_, sent)| sent) {
        *all.entry(*node).or_default() += u128::from(*bytes);
    }
    let mut most: Vec<(u32, u128)> = all.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    most.sort_by_key(|(node, bytes)| (Reverse(*bytes), *node));
    let left_out = most.len().saturating_sub(COLUMNS_MAX);
    let nodes: BTreeSet<u32> = most.into_iter().take(COLUMNS_MAX).map(|(node, _)| node).collect();
    let peak = ranks.iter().flat_map(|(_, sent)| sent.values()).max().copied().unwrap_or_default();
    let cells = ranks.iter().enumerate().flat_map(|(row, (_, sent))| {
        nodes.iter().enumerate().filter_map(move |(column, node)| {
            let bytes = sent.get(node).filter(|bytes| **bytes > 0)?;
            // So that what is a thousandth of the most is still to be seen.
            let share = (1.0 + *bytes as f64).ln() / (1.0 + peak as f64).ln();
            Some(Cell { row, begin: column as f64 + 0.04, end: column as f64 + 0.96, share })
        })
    });
    let rows: Vec<String> = ranks.iter().map(|(rank, _)| rank.to_string()).collect();
    let columns: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let others =
        if left_out > 0 { format!(" {left_out} nodes to which less went are left out.") } else { String::new() };
    let caption = format!(
        "The stronger the colour, the more bytes a rank sent to a node (the scale is logarithmic; the strongest is {}).\
         {others}{}",
        show_bytes(peak),
        some_of(matter, ranks.len())
    );
    let field = Field {
        label: format!("How many bytes each of {} ranks sent to each of {} nodes", rows.len(), columns.len()),
        rows: &rows,
        row_name: "rank",
        across: ("node", nodes.len() as f64),
        columns: Some(&columns),
        cells: cells.collect(),
    };
    Ok(chart(&field)?.map(|chart| Figure { chart, caption }))
}
