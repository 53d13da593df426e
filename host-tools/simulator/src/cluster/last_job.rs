//! When all has come right, a job is tried on all nodes at once: a node, an I/O node or a place in a table that only
//! seems to be well is found out by that. What is still on its way then may have it fail; it is tried again.

use coppice_api::job::Submission;
use coppice_protocol::ids::JobId;

use super::script::Script;
use super::words::Talk;
use super::world::World;

/// How far that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LastJob {
    /// It is not begun.
    #[default]
    None,
    /// It is on its way.
    Submitted(JobId),
    /// It ended as it should.
    Well,
}

impl World {
    /// What is not right with that job, if anything.
    pub(super) fn what_the_last_job_shows(&mut self) -> Option<String> {
        match self.last_job {
            LastJob::Well => self.what_is_said_to_nodes().or_else(|| self.what_was_not_heard()),
            LastJob::None => {
                // After that job nodes have told anew what they hold. An answer to an order to forget that nobody waits
                // for any more may still be on its way, but not for long.
                if let Err(what) = self.check_holdings_but_for_lost_words() {
                    return Some(what.to_string());
                }
                self.submit_last_job();
                Some("a job on all nodes was not taken yet".to_owned())
            }
            LastJob::Submitted(job) => {
                let end = self.checkers.jobs.end_of(job);
                let is_well = end.is_some_and(|view| view.reason.is_none() && view.exit_status == Some(0));
                self.last_job = if is_well { LastJob::Well } else { LastJob::None };
                if is_well {
                    return self.what_the_last_job_shows();
                }
                Some(format!("a job on all nodes, {job}, ended so: {end:?}"))
            }
        }
    }

    /// What a node keeps to which the word that the job is over may have been lost: another one does for that.
    fn what_was_not_heard(&mut self) -> Option<String> {
        let kept = self.what_is_kept(false).filter(|_| self.what_is_kept(true).is_none());
        if kept.is_some() {
            self.last_job = LastJob::None;
        }
        kept
    }

    fn submit_last_job(&mut self) {
        let ranks = self.options.nodes;
        self.talks += 1;
        let talk = Talk { rounds: 1, mark: self.talks, keys: 1, value_bytes: 8, ..Talk::default() };
        let script = Script { lines: 1, appends: true, talk, ..Script::default() };
        let all = Submission { ranks, ranks_per_node: 1, timeout_ms: None, ..script.submission(true) };
        let copied = self.copy_of(script.program);
        if let Some(job) = copied.and_then(|copied| self.submit(0, all, script, copied)) {
            self.last_job = LastJob::Submitted(job);
        }
    }
}
