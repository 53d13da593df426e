//! What is kept for others stays within its limit: a user is sent no more of a job's output than the window that the
//! protocol grants, until it was taken.

use std::collections::BTreeMap;

use coppice_protocol::ids::{JobId, PsetId};
use coppice_protocol::limits::OUTPUT_WINDOW_BYTES;

use crate::checkers::Violation;

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Limits {
    /// Output that was sent and not taken, bytes.
    output: BTreeMap<(JobId, PsetId), usize>,
    /// The most there was of one pset.
    pub(in crate::cluster) output_max: usize,
    found: Vec<Violation>,
}

impl Limits {
    pub(in crate::cluster) fn sent(&mut self, job: JobId, pset: PsetId, bytes: usize) {
        let held = self.output.entry((job, pset)).or_default();
        *held += bytes;
        self.output_max = self.output_max.max(*held);
        if *held > OUTPUT_WINDOW_BYTES {
            self.found
                .push(Violation::new(format!("{held} bytes of job {job}'s output came from pset {pset} at once")));
        }
    }

    pub(in crate::cluster) fn taken(&mut self, job: JobId, pset: PsetId, bytes: usize) {
        if let Some(held) = self.output.get_mut(&(job, pset)) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                self.output.remove(&(job, pset));
            }
        }
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}
