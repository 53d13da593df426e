//! What was answered to the last orders to retain, for orders that come twice.

use alloc::collections::VecDeque;

use coppice_protocol::ids::{JobId, ProgramId};
use coppice_protocol::retain::{RetainOutcome, Retained};

use crate::limits::RETAIN_ANSWERS_KEPT_MAX;

/// Answers, oldest first.
#[derive(Default)]
pub(super) struct Answers {
    given: VecDeque<Retained>,
}

impl Answers {
    /// What was answered to an order for this job and program.
    pub(super) fn to(&self, job: JobId, program: ProgramId) -> Option<RetainOutcome> {
        let is_it = |answer: &&Retained| answer.job == job && answer.program == program;
        self.given.iter().rev().find(is_it).map(|answer| answer.outcome)
    }

    /// Remembers an answer; at the limit the oldest is forgotten.
    pub(super) fn remember(&mut self, answer: Retained) {
        if self.given.len() >= RETAIN_ANSWERS_KEPT_MAX {
            self.given.pop_front();
        }
        self.given.push_back(answer);
    }
}
