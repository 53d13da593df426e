//! What is said of the transfers of jobs' staged files.

use coppice_protocol::pset::FromPset;
use coppice_protocol::ras::RasEvent;
use coppice_protocol::transfer::{TransferEnd, TransferProgress};

use super::Machine;

impl Machine {
    /// A transfer is over. Of a job that is forgotten nobody wants to know.
    pub fn transferred(&mut self, end: TransferEnd) {
        self.broadcast_is_over(end.of);
        if self.jobs.get(end.of.job).is_some() {
            self.outbox.push(FromPset::Transferred(end));
        }
    }

    /// A transfer goes on. That is said if the service node has taken everything else, and not kept for later.
    pub fn transferring(&mut self, progress: TransferProgress) {
        if self.outbox.is_empty() && self.jobs.get(progress.of.job).is_some() {
            self.outbox.push(FromPset::Transferring(progress));
        }
    }

    /// A piece came that is not the file's.
    pub fn damaged(&mut self, event: RasEvent) {
        self.outbox.push(FromPset::Ras { node: None, event });
    }
}
