//! Each job that has not ended. One that has is counted with the others (`cluster`), so that there are never more
//! families' members than jobs can be under way.
//!
//! A job's ranks are not here one by one: there may be a million. What they did together – when nodes sum that up – is
//! a field of [`JobSeen`] and a family here, with the job as its only label.

use std::fmt;

use coppice_api::job::JobState;

use super::exposition::{Families, Family, Labels, Value, label};
use super::seen::{JOB_STATES, JobSeen, Seen};

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
    each(jobs, families, Family::bytes("job_staged", "Files that each node of the job gets before it starts."), |job| {
        job.staged_bytes.into()
    })
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
