//! `coppice nodes`, `jobs`, `job`, `programs` and `ras`.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use coppice_api::Client;
use coppice_api::job::{JobDetail, JobState, JobView, JobsQuery, RankOutcome, RankView};
use coppice_api::node::{NodeState, NodeView};
use coppice_api::ras::RasQuery;
use coppice_api::signal;

use crate::arguments::{Job, Jobs, Ras};
use crate::show::{or_dash, print, print_json, print_table, table};
use crate::units::{show_bytes, show_ns, show_ranges, show_time};

/// Digits of a hash that are shown to people.
const HASH_DIGITS: usize = 12;

pub(crate) async fn nodes(client: &Client, json: bool) -> anyhow::Result<()> {
    let nodes = client.nodes().await?;
    if json {
        return print_json(&nodes);
    }
    let row = |node: &NodeView| {
        vec![
            node.node.to_string(),
            node_state(node.state).to_owned(),
            or_dash(node.job),
            node.pset.to_string(),
            node.address.to_string(),
            node.generation.to_string(),
            node.boot_ns.map_or_else(|| "-".to_owned(), show_ns),
            node.memory.map_or_else(|| "-".to_owned(), |memory| show_bytes(memory.free_bytes)),
            node.last_program.as_ref().map_or("-", |last| short(&last.program)).to_owned(),
            or_dash(node.pid),
        ]
    };
    let heading = ["NODE", "STATE", "JOB", "PSET", "ADDRESS", "BOOTS", "BOOT TIME", "FREE", "LAST PROGRAM", "PID"];
    print_table(&heading, nodes.iter().map(row))
}

pub(crate) async fn jobs(client: &Client, jobs: &Jobs) -> anyhow::Result<()> {
    let list = client.jobs(&JobsQuery { limit: Some(jobs.limit) }).await?;
    if jobs.listing.json {
        return print_json(&list);
    }
    let row = |job: &JobView| {
        vec![
            job.job.to_string(),
            job_state(job.state).to_owned(),
            or_dash(job.exit_status),
            job.ranks.to_string(),
            show_ranges(&job.nodes),
            show_time(job.submitted_at_ns),
            run_time(job),
            command(job),
            job.reason.clone().unwrap_or_default(),
        ]
    };
    let heading = ["JOB", "STATE", "EXIT", "RANKS", "NODES", "SUBMITTED", "TIME", "COMMAND", "REASON"];
    print_table(&heading, list.iter().map(row))
}

pub(crate) async fn job(client: &Client, job: &Job) -> anyhow::Result<()> {
    let detail = client.job(job.job).await?;
    if job.listing.json { print_json(&detail) } else { print(&describe(&detail)) }
}

/// A job for people.
fn describe(detail: &JobDetail) -> String {
    let job = &detail.job;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "job {}: {}", job.job, command(job));
    let exit = job.exit_status.map(|status| format!(", exit status {status}")).unwrap_or_default();
    let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let _ = writeln!(text, "{}{exit}{reason}", job_state(job.state));
    let _ = writeln!(text, "submitted {}, time {}", show_time(job.submitted_at_ns), run_time(job));
    let _ = writeln!(text, "program {}, root {}, directory {}", job.program, job.root.display(), job.directory);
    let row = |rank: &RankView| {
        vec![
            rank.rank.to_string(),
            rank.node.to_string(),
            end_of(rank),
            show_ns(rank.launch_ns),
            show_ns(rank.run_ns),
            rank.page_faults.to_string(),
            rank.pages_fetched.to_string(),
            show_bytes(rank.pages_peak.saturating_mul(4096)),
            show_bytes(rank.bytes_read),
            show_bytes(rank.bytes_written),
            rank.syscalls.iter().map(|count| count.calls).sum::<u64>().to_string(),
        ]
    };
    let heading =
        ["RANK", "NODE", "END", "LAUNCH", "RUN", "FAULTS", "FETCHED", "MEMORY", "READ", "WRITTEN", "SYSCALLS"];
    if !detail.rank_reports.is_empty() {
        text.push('\n');
        text.push_str(&table(&heading, detail.rank_reports.iter().map(row)));
    }
    let unknown = unknown_calls(&detail.rank_reports);
    if !unknown.is_empty() {
        let _ = writeln!(text, "\nsystem calls that Coppice does not have: {}", unknown.join(", "));
    }
    text
}

fn unknown_calls(ranks: &[RankView]) -> Vec<String> {
    let mut counts: std::collections::BTreeMap<i32, (Option<&str>, u64)> = std::collections::BTreeMap::new();
    for call in ranks.iter().flat_map(|rank| &rank.syscalls).filter(|call| call.unknown > 0) {
        let entry = counts.entry(call.number).or_insert((call.name.as_deref(), 0));
        entry.1 += call.unknown;
    }
    let show = |(number, (name, count)): (i32, (Option<&str>, u64))| match name {
        Some(name) => format!("{name} ({count} times)"),
        None => format!("number {number} ({count} times)"),
    };
    counts.into_iter().map(show).collect()
}

/// How a rank ended, in short.
pub(crate) fn end_of(rank: &RankView) -> String {
    match (rank.outcome, rank.exit, rank.signal) {
        (RankOutcome::Exited, Some(status), _) => format!("exit {status}"),
        (RankOutcome::Signalled, _, Some(number)) => signal::name(number),
        (RankOutcome::NotStarted, ..) => "not started".to_owned(),
        (RankOutcome::Lost, ..) => "lost".to_owned(),
        _ => "?".to_owned(),
    }
}

pub(crate) async fn programs(client: &Client, json: bool) -> anyhow::Result<()> {
    let programs = client.programs().await?;
    if json {
        return print_json(&programs);
    }
    let rows = programs.iter().map(|program| {
        vec![
            short(&program.hash).to_owned(),
            show_bytes(program.bytes),
            show_bytes(program.memory_bytes),
            if program.stored { "yes" } else { "no" }.to_owned(),
            show_time(program.used_at_ns),
            program.path.clone(),
        ]
    });
    print_table(&["PROGRAM", "FILE", "MEMORY", "STORED", "LAST USED", "FROM"], rows)
}

pub(crate) async fn ras(client: &Client, ras: &Ras) -> anyhow::Result<()> {
    let events = client.ras(&RasQuery { limit: Some(ras.limit), node: ras.node, job: ras.job }).await?;
    if ras.listing.json {
        return print_json(&events);
    }
    let rows = events.iter().map(|event| {
        let hexadecimal = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:#x}"));
        vec![
            event.event.to_string(),
            show_time(event.at_ns),
            event.severity.clone(),
            event.kind.clone(),
            or_dash(event.node),
            or_dash(event.job),
            or_dash(event.rank),
            hexadecimal(event.address),
            hexadecimal(event.instruction),
            event.text.clone(),
        ]
    });
    let heading = ["EVENT", "TIME", "SEVERITY", "KIND", "NODE", "JOB", "RANK", "ADDRESS", "INSTRUCTION", "TEXT"];
    print_table(&heading, rows)
}

fn short(hash: &str) -> &str {
    hash.get(..HASH_DIGITS).unwrap_or(hash)
}

fn command(job: &JobView) -> String {
    std::iter::once(&job.name).chain(&job.arguments).map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// From its start to its end, or to now.
fn run_time(job: &JobView) -> String {
    let Some(start) = job.started_at_ns else { return "-".to_owned() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let end = job.ended_at_ns.unwrap_or_else(|| u64::try_from(now).unwrap_or(u64::MAX));
    show_ns(end.saturating_sub(start))
}

fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Starting => "starting",
        JobState::Running => "running",
        JobState::Ended => "ended",
    }
}

fn node_state(state: NodeState) -> &'static str {
    match state {
        NodeState::Waiting => "waiting",
        NodeState::Booting => "booting",
        NodeState::Ready => "ready",
        NodeState::Busy => "busy",
        NodeState::Stopping => "stopping",
        NodeState::Failed => "failed",
        NodeState::Off => "off",
    }
}
