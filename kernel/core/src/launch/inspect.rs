//! Questions about a rank that runs here.

mod debug;
mod held;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;

use coppice_protocol::inspect::held::NotTold;
use coppice_protocol::inspect::{Answer, Inspect, Question};

use super::cut;
use crate::executor::{self, Either};
use crate::limits::INSPECT_NS_MAX;
use crate::process::{JobsOnNode, Process};

/// Answers a question, within [`INSPECT_NS_MAX`].
pub(super) async fn answer(jobs: Arc<JobsOnNode>, inspect: Inspect) -> Answer {
    if let Question::Cut(step) = inspect.query.question {
        let Some(job) = jobs.find(inspect.job) else { return Answer::NotHere };
        return match cut::step(&job, inspect.query.by, step).await {
            Ok(()) => Answer::Cut,
            Err(reason) => Answer::NotTold(reason),
        };
    }
    if inspect.query.question == Question::Saving {
        let saving = jobs.find(inspect.job).and_then(|job| {
            cut::asked(&job, inspect.query.by);
            job.saving.told(inspect.query.by)
        });
        return saving.map_or(Answer::NotHere, Answer::Saving);
    }
    let Some(process) = find(&jobs, &inspect) else { return Answer::NotHere };
    match inspect.query.question {
        Question::Objects { from } => {
            let (objects, next) = process.files.lock().told(from);
            Answer::Objects { objects, next }
        }
        Question::Release => {
            process.end_lease(inspect.query.by);
            Answer::Released
        }
        _ => {
            let deadline_ns = executor::now_ns().saturating_add(INSPECT_NS_MAX);
            // Nothing of a process that has come to its end is to be kept for it.
            match executor::race(held::answer(&process, &inspect.query, deadline_ns), process.ending()).await {
                Either::First(told) => told.unwrap_or_else(Answer::NotTold),
                Either::Second(()) => Answer::NotTold(NotTold::Ending),
            }
        }
    }
}

fn find(jobs: &JobsOnNode, inspect: &Inspect) -> Option<Arc<Process>> {
    let processes = jobs.find(inspect.job)?.processes();
    processes.into_iter().find(|process| process.identity.rank == inspect.rank)
}
