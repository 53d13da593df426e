//! The cluster as a whole, its service node's records and connections.

use std::fmt;

use coppice_api::cluster::ClusterState;
use coppice_api::limits::{OUTPUT_LOGS_BYTES_MAX, OUTPUT_LOGS_MAX};

use super::Snapshot;
use super::exposition::{Families, Family, label};
use super::seen::{JobEnd, Seen};

/// Names of the states of a cluster, in order.
const STATES: [&str; 4] = ["starting", "up", "failed", "stopping"];

pub(super) fn write(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    what(&snapshot.seen, families)?;
    things(&snapshot.seen, families)?;
    ended(&snapshot.seen, families)?;
    records(&snapshot.seen, families)?;
    kept(snapshot, families)?;
    connections(snapshot, families)
}

fn what(seen: &Seen, families: &mut Families<'_>) -> fmt::Result {
    let cluster = &seen.cluster;
    let accelerator = cluster.accelerator.clone().unwrap_or_default();
    families.infos(
        Family::of("cluster", "The cluster: its name, version and how nodes are executed."),
        [[
            ("name", label(cluster.name.as_bytes())),
            ("version", cluster.version.clone()),
            ("accelerator", label(accelerator.as_bytes())),
        ]],
    )?;
    let state = match cluster.state {
        ClusterState::Starting => "starting",
        ClusterState::Up => "up",
        ClusterState::Failed => "failed",
        ClusterState::Stopping => "stopping",
    };
    families.states(Family::of("cluster_state", "How far the cluster is."), &STATES, [([], state)])?;
    families.gauge(
        Family::seconds("cluster_start_time", "When the service node started, since 1970."),
        cluster.started_at_ns as f64 / 1e9,
    )
}

fn things(seen: &Seen, families: &mut Families<'_>) -> fmt::Result {
    let by_state = |(state, count): (&&'static str, &usize)| ([("state", (*state).to_owned())], *count);
    families
        .gauges(Family::of("nodes", "Compute nodes by what they are doing."), seen.node_states.iter().map(by_state))?;
    families.gauge(
        Family::of("nodes_left_out", "Compute nodes of which nothing else is said here, as there are too many."),
        seen.node_states.values().sum::<usize>().saturating_sub(seen.nodes.len()),
    )?;
    families.gauges(
        Family::of("jobs", "Jobs that have not ended, by how far they are."),
        seen.job_states.iter().map(by_state),
    )?;
    families.gauge(
        Family::of("jobs_left_out", "Jobs that have not ended and of which nothing else is said here."),
        seen.job_states.values().sum::<usize>().saturating_sub(seen.jobs.len()),
    )?;
    families.gauge(
        Family::of("processes_left_out", "Fabric and I/O nodes of which nothing else is said here."),
        seen.helpers_all.saturating_sub(seen.helpers.len()),
    )
}

fn ended(seen: &Seen, families: &mut Families<'_>) -> fmt::Result {
    let counts = &seen.counts;
    families.counters(
        Family::of("jobs_ended", "Jobs that have ended since the service node started, by how."),
        JobEnd::ALL.map(|end| {
            let count = counts.jobs.get(&end).copied().unwrap_or_default();
            ([("how", end.as_str().to_owned())], count)
        }),
    )?;
    families
        .histogram(Family::seconds("job_wait", "How long jobs that have ended had waited for nodes."), &counts.waits)?;
    families.histogram(Family::seconds("job_run", "How long jobs that have ended had nodes."), &counts.runs)
}

fn records(seen: &Seen, families: &mut Families<'_>) -> fmt::Result {
    families.counters(
        Family::of("ras_events", "RAS events since the service node started, by severity and kind."),
        seen.counts.ras.iter().map(|((severity, kind), count)| {
            ([("severity", (*severity).to_owned()), ("kind", (*kind).to_owned())], *count)
        }),
    )?;
    families.gauge(
        Family::of("records_waiting", "Records that wait until the database can be written."),
        seen.records.waiting,
    )?;
    families.gauge(
        Family::seconds("records_trouble", "How long the database could not be written; 0 if it can be."),
        seen.records.trouble.as_secs_f64(),
    )
}

fn kept(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let (seen, kept) = (&snapshot.seen, snapshot.kept);
    families.gauge(Family::of("output_logs", "Logs of jobs' output that are kept."), kept.logs)?;
    families.gauge(Family::of("output_logs_limit", "Logs of jobs' output that may be kept."), OUTPUT_LOGS_MAX)?;
    families.gauge(Family::bytes("output_kept", "What all logs of jobs' output take on the disk."), kept.bytes)?;
    families.gauge(
        Family::bytes("output_kept_limit", "What all logs of jobs' output may take on the disk."),
        OUTPUT_LOGS_BYTES_MAX,
    )?;
    families.counter(
        Family::bytes("output_written", "What was written to logs of jobs' output since the service node started."),
        seen.counts.output_bytes,
    )?;
    families
        .gauge(Family::of("stored_programs", "Programs that the service node has a copy of."), seen.stored.programs)?;
    families.gauge(Family::bytes("stored_programs", "What the copies of programs take on the disk."), seen.stored.bytes)
}

fn connections(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let kinds = [("api", snapshot.api), ("metrics", snapshot.scrapers)];
    families.gauges(
        Family::of("connections", "Connections that are open: of the API, and of those who scrape over TCP."),
        kinds.map(|(kind, slots)| ([("of", kind.to_owned())], slots.open)),
    )?;
    families.gauges(
        Family::of("connections_limit", "Connections that may be open."),
        kinds.map(|(kind, slots)| ([("of", kind.to_owned())], slots.most)),
    )
}
