//! Questions about a rank that runs here.

use coppice_protocol::inspect::{Answer, Inspect, Question};

use crate::process::JobsOnNode;

/// Answers a question, without waiting for anything.
pub(super) fn answer(jobs: &JobsOnNode, inspect: &Inspect) -> Answer {
    let processes = jobs.find(inspect.job).map(|job| job.processes()).unwrap_or_default();
    let Some(process) = processes.iter().find(|process| process.identity.rank == inspect.rank) else {
        return Answer::NotHere;
    };
    match inspect.question {
        Question::Objects { from } => {
            let (objects, next) = process.files.lock().told(from);
            Answer::Objects { objects, next }
        }
    }
}
