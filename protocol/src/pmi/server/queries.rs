//! What ranks ask about their job.

use super::Server;
use crate::control::Exit;
use crate::ids::Rank;
use crate::pmix::{Program, State, Status};

impl Server {
    /// What its ranks run: the program's path, and the id of the first rank's process, which those of others follow, up
    /// to the highest that there is.
    pub fn set_program(&mut self, path: &[u8], ids: (u32, u32)) {
        self.program = Program { path: path.to_vec(), ids };
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Whether the job goes on.
    pub(crate) fn job_status(&self) -> Status {
        if self.has_failed || self.is_ending { Status::JOB_ABORTED } else { Status::SUCCESS }
    }

    /// What has become of a rank, if it is of this node.
    pub(crate) fn state_of(&self, rank: Rank) -> State {
        let Some(local) = self.ranks.iter().find(|local| local.rank == rank) else { return State::UNDEFINED };
        match local.ended {
            None if local.has_spoken && local.departure.is_none() => State::CONNECTED,
            None => State::RUNNING,
            Some(Exit::Status(0)) => State::TERMINATED,
            Some(Exit::Status(_)) => State::TERM_NON_ZERO,
            Some(Exit::Signal(_)) => State::ABORTED_BY_SIG,
            Some(Exit::NotStarted) => State::FAILED_TO_START,
        }
    }
}
