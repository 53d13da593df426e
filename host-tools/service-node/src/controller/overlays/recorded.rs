//! Where it is recorded what overlays of a job have gathered.

use std::path::PathBuf;

use coppice_protocol::ids::JobId;
use tokio::sync::oneshot;

use crate::controller::Controller;
use crate::controller::requests::{Refused, no_job};
use crate::plant::Plant;

/// See this module.
#[derive(Debug)]
pub struct Recorded {
    /// The database of profiles …
    pub path: PathBuf,
    /// … and when all is in it that is known by now.
    pub written: oneshot::Receiver<()>,
    /// Ranks of the job.
    pub ranks: u32,
}

impl<P: Plant> Controller<P> {
    /// That of a job that there is or was.
    pub(in crate::controller) fn profiles_of(&mut self, id: JobId) -> Result<Recorded, Refused> {
        let ranks = match self.jobs.get(&id) {
            Some(job) => job.submission.ranks,
            None => self.records.job_alone(id)?.ok_or_else(|| no_job(id))?.ranks,
        };
        Ok(Recorded { path: self.config.paths.profiles(), written: self.plant.profiles_written(), ranks })
    }
}
