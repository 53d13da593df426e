//! Each job that has not ended. One that has is counted with the others (`cluster`), so that there are never more
//! families' members than jobs can be under way.
//!
//! A job's ranks are not here one by one: there may be a million. What they did together in the last epoch of the job's
//! overlay, if it has one, is a family with what is measured as a label: that is as many as there are, and at most so
//! many counters as an overlay tells of.

use std::fmt;

use coppice_api::job::JobState;

use super::exposition::{Families, Family, Labels, Value, label};
use super::seen::{JOB_STATES, JobSeen, MetricSeen, Seen};

/// Bytes of a page of a node.
const PAGE_BYTES: u64 = 4096;

pub(super) fn write(seen: &Seen, families: &mut Families<'_>) -> fmt::Result {
    let jobs = &seen.jobs;
    families.infos(
        Family::of("job", "A job that has not ended: its program's path as the user gave it, and that program's hash."),
        jobs.iter().map(|job| {
            let [number] = labels(job);
            [number, ("name", label(&job.name)), ("program", job.program.clone())]
        }),
    )?;
    families.states(
        Family::of("job_state", "How far the job is."),
        &JOB_STATES.map(JobState::as_str),
        jobs.iter().map(|job| (labels(job), job.state.as_str())),
    )?;
    each(jobs, families, Family::of("job_ranks", "Ranks that the job has."), |job| job.ranks.into())?;
    each(jobs, families, Family::of("job_nodes", "Nodes that the job has or waits for."), |job| job.nodes.into())?;
    each(jobs, families, Family::seconds("job_age", "How long ago the job was submitted."), |job| {
        job.age.as_secs_f64().into()
    })?;
    each(
        jobs,
        families,
        Family::bytes("job_staged", "Files that each node of the job gets before it starts."),
        |job| job.staged_bytes.into(),
    )?;
    let overlays = || jobs.iter().filter_map(|job| Some((job, job.overlay.as_ref()?)));
    families.gauges(
        Family::of("job_overlay_epoch_ranks", "Ranks that are in the last epoch of the job's overlay."),
        overlays().map(|(job, overlay)| (labels(job), overlay.ranks)),
    )?;
    families.gauges(
        Family::of(
            "job_overlay_metric",
            "What the job's ranks did in the last epoch of its overlay, in seconds, bytes or times, or what there was \
             at its end; pages as bytes.",
        ),
        overlays().flat_map(|(job, overlay)| overlay.metrics.iter().flat_map(move |metric| stats(job, metric))),
    )
}

/// What is told of one thing that is measured.
fn stats(job: &JobSeen, metric: &MetricSeen) -> [(Labels<3>, Value); 3] {
    let MetricSeen { metric: name, unit, sum, mean, most } = metric;
    [("sum", sum), ("mean", mean), ("max", most)].map(|(stat, value)| {
        let [number] = labels(job);
        ([number, ("metric", name.clone()), ("stat", stat.to_owned())], in_base_units(unit, *value))
    })
}

/// Prometheus wants seconds and bytes.
fn in_base_units(unit: &str, value: u64) -> Value {
    match unit {
        "ns" => (value as f64 / 1e9).into(),
        "pages" => value.saturating_mul(PAGE_BYTES).into(),
        _ => value.into(),
    }
}

/// What tells a job from others. Prometheus itself has a label `job`, for what it scrapes.
fn labels(job: &JobSeen) -> Labels<1> {
    [("job_id", job.job.to_string())]
}

/// A number of each job.
fn each(
    jobs: &[JobSeen],
    families: &mut Families<'_>,
    family: Family<'_>,
    number: impl Fn(&JobSeen) -> Value,
) -> fmt::Result {
    families.gauges(family, jobs.iter().map(|job| (labels(job), number(job))))
}
