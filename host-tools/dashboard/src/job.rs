//! A job as it is shown: all of it in words and charts, and nothing that a template has to work out.

mod ranks;

use coppice_api::checkpoint::CheckpointView;
use coppice_api::counted;
use coppice_api::job::JobView;
use coppice_api::overlay::OverlayView;
use coppice_api::ras::RasView;
use coppice_api::show::{harmless, show_bytes, show_command, show_ns, show_ranges, show_time};
use coppice_api::transfer::TransferView;
use coppice_explain::{Finding, explain};

pub(crate) use self::ranks::{Figure, Row, rows};
use self::ranks::{heat, matrix};
use crate::charts::shares::{CAUSES, chart, totals};
use crate::charts::{ChartError, Svg};
use crate::matter::{Function, Matter};

/// Rows of ranks, and of events, that are shown; of more the first.
pub(crate) const ROWS_MAX: usize = 256;

/// What share of the time a function must have to be listed, percent: less would be shown as none.
const SHOWN_PERCENT_MIN: f64 = 0.05;

/// A name and what there is of it.
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// How much of the time went to something.
pub(crate) struct Share {
    /// The class that has its colour.
    pub(crate) class: &'static str,
    pub(crate) words: &'static str,
    pub(crate) percent: String,
    pub(crate) time: String,
}

/// What time went to.
pub(crate) struct Shares {
    pub(crate) chart: Svg,
    pub(crate) rows: Vec<Share>,
}

/// An event, a line of a table.
pub(crate) struct Event {
    pub(crate) at: String,
    pub(crate) severity: String,
    pub(crate) kind: String,
    pub(crate) place: String,
    pub(crate) text: String,
}

/// A process of an overlay.
pub(crate) struct Process {
    pub(crate) process: u32,
    pub(crate) node: u32,
    pub(crate) above: String,
    pub(crate) hears: String,
    pub(crate) ranks: u64,
}

/// What is shown of a job.
pub(crate) struct Job {
    pub(crate) number: u64,
    /// There are pages of its ranks and nodes to lead to.
    pub(crate) has_pages: bool,
    pub(crate) command: String,
    pub(crate) state: String,
    pub(crate) facts: Vec<Fact>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) shares: Option<Shares>,
    pub(crate) heat: Option<Figure>,
    pub(crate) matrix: Option<Figure>,
    pub(crate) functions: Vec<Function>,
    /// The flame graph as an image, base64.
    pub(crate) flame_graph: Option<String>,
    pub(crate) ranks: Vec<Row>,
    pub(crate) ranks_more: usize,
    pub(crate) processes: Vec<Process>,
    pub(crate) transfers: Vec<String>,
    pub(crate) checkpoints: Vec<String>,
    pub(crate) events: Vec<Event>,
    pub(crate) events_more: usize,
    pub(crate) output: Option<String>,
    pub(crate) output_before: Option<String>,
}

impl Job {
    /// That one.
    ///
    /// # Errors
    /// [`ChartError`].
    pub(crate) fn of(matter: &Matter) -> Result<Self, ChartError> {
        let evidence = &matter.evidence;
        let job = &evidence.job.job;
        let events: Vec<&RasView> = evidence.ras.iter().filter(|event| event.job == Some(job.job)).collect();
        let output = matter.output.as_ref().filter(|output| !output.bytes.is_empty());
        Ok(Self {
            number: job.job,
            has_pages: false,
            command: show_command(job),
            state: state(job),
            facts: facts(job, evidence.now_ns),
            findings: explain(evidence).findings,
            shares: shares(matter)?,
            heat: heat(matter)?,
            matrix: matrix(matter)?,
            functions: matter
                .functions
                .iter()
                .filter(|function| function.with_callees >= SHOWN_PERCENT_MIN)
                .map(named)
                .collect(),
            flame_graph: matter.flame_graph.as_ref().map(|svg| base64(svg)),
            ranks: rows(&evidence.job.rank_reports),
            ranks_more: evidence.job.rank_reports.len().saturating_sub(ROWS_MAX),
            processes: matter.overlay.as_ref().map(processes).unwrap_or_default(),
            transfers: job.transfers.iter().map(transfer).collect(),
            checkpoints: matter.checkpoints.iter().map(checkpoint).collect(),
            events: events.iter().take(ROWS_MAX).map(|event| row(event)).collect(),
            events_more: events.len().saturating_sub(ROWS_MAX),
            output: output.map(|output| harmless(&String::from_utf8_lossy(&output.bytes)).into_owned()),
            output_before: output.filter(|output| output.before > 0).map(|output| show_bytes(output.before)),
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// How far it is, and how it ended.
fn state(job: &JobView) -> String {
    let exit = job.exit_status.map(|status| format!(", exit status {status}")).unwrap_or_default();
    let reason = job.reason.as_ref().map(|reason| format!(": {}", harmless(reason))).unwrap_or_default();
    format!("{}{exit}{reason}", job.state.as_str())
}

fn facts(job: &JobView, now_ns: u64) -> Vec<Fact> {
    let some = |name, value: Option<String>| value.map(|value| Fact { name, value });
    let nodes = (!job.nodes.is_empty()).then(|| format!("{} ({})", job.nodes.len(), show_ranges(&job.nodes)));
    let lasted = |start_ns: u64| show_ns(job.ended_at_ns.unwrap_or(now_ns).saturating_sub(start_ns));
    let waited = job.started_at_ns.map(|start_ns| show_ns(start_ns.saturating_sub(job.submitted_at_ns)));
    let started = job.running_at_ns.zip(job.started_at_ns);
    let retained = job.retention.filter(|saved| saved.warm_ranks > 0).map(|saved| {
        let (kept, fetched) = (counted(saved.pages_kept, "page"), saved.pages_fetched);
        format!("{} warm, {kept} kept, {fetched} fetched", counted(saved.warm_ranks, "rank"))
    });
    let facts = [
        some("Ranks", Some(format!("{}, {} a node", job.ranks, job.ranks_per_node))),
        some("Nodes", nodes),
        some("Submitted", Some(show_time(job.submitted_at_ns))),
        some("Waited", waited),
        some("Started in", started.map(|(running, start)| show_ns(running.saturating_sub(start)))),
        some("Time", job.started_at_ns.map(lasted)),
        some("Program", Some(job.program.clone())),
        some("Root", Some(coppice_api::shown(&job.root).to_string())),
        some("Directory", Some(job.directory.to_string())),
        some("Restarted from", job.restarted_from.map(|checkpoint| checkpoint.to_string())),
        some("Goes on as", job.continued_as.map(|next| format!("job {}, from {}", next.job, next.checkpoint))),
        some("Placement", job.placement.as_ref().map(|placement| harmless(&placement.summary).into_owned())),
        some("Sent ahead", job.ahead.as_ref().map(|ahead| harmless(&ahead.summary).into_owned())),
        some("Page tables", retained),
    ];
    facts.into_iter().flatten().collect()
}

fn shares(matter: &Matter) -> Result<Option<Shares>, ChartError> {
    let epochs = &matter.evidence.profile.epochs;
    let Some(chart) = chart(epochs)? else { return Ok(None) };
    let times = totals(epochs);
    let all: f64 = times.iter().sum();
    let mut parts: Vec<_> = CAUSES.iter().zip(times).filter(|(_, time)| *time > 0.0).collect();
    parts.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let share = |((class, _, words), time): (&(&'static str, _, &'static str), f64)| Share {
        class,
        words,
        percent: format!("{:.1} %", time * 100.0 / all),
        // Exact to more than is shown.
        time: show_ns(time as u64),
    };
    Ok(Some(Shares { chart, rows: parts.into_iter().map(share).collect() }))
}

fn named(function: &Function) -> Function {
    Function { name: harmless(&function.name).into_owned(), ..function.clone() }
}

fn processes(overlay: &OverlayView) -> Vec<Process> {
    let each = |process: &coppice_api::overlay::ProcessView| Process {
        process: process.process,
        node: process.node,
        above: process.above.map_or_else(|| "front end".to_owned(), |above| format!("process {above}")),
        hears: if process.nodes.is_empty() { "-".to_owned() } else { show_ranges(&process.nodes) },
        ranks: process.ranks,
    };
    overlay.processes.iter().take(ROWS_MAX).map(each).collect()
}

fn transfer(transfer: &TransferView) -> String {
    let what = transfer.path.as_ref().map_or_else(|| "the program".to_owned(), ToString::to_string);
    let (bytes, nodes) = (show_bytes(transfer.bytes), counted(transfer.nodes, "node"));
    let bound = f64::from(transfer.times_bound);
    let lost = if transfer.lost > 0 { format!("; {} did not get it", transfer.lost) } else { String::new() };
    format!("{what}: {bytes} to {nodes} in {}, {bound:.2} × the bound of one link{lost}", show_ns(transfer.elapsed_ns))
}

fn checkpoint(view: &CheckpointView) -> String {
    let damaged = view.damaged.as_ref().map(|why| format!("; of no use: {}", harmless(why))).unwrap_or_default();
    let (at, pause) = (show_time(view.at_ns), show_ns(view.pause_us.saturating_mul(1000)));
    let (pages, bytes) = (counted(view.pages, "page"), show_bytes(view.bytes));
    format!("{} at {at}: ranks stood for {pause}, {pages}, {bytes}{damaged}", view.checkpoint)
}

fn row(event: &RasView) -> Event {
    let node = event.node.map(|node| format!("node {node}"));
    let rank = event.rank.map(|rank| format!("rank {rank}"));
    Event {
        at: show_time(event.at_ns),
        severity: harmless(&event.severity).into_owned(),
        kind: harmless(&event.kind).into_owned(),
        place: node.into_iter().chain(rank).collect::<Vec<_>>().join(", "),
        text: harmless(&event.text).into_owned(),
    }
}
