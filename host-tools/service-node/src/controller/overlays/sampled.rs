//! Where it is that ranks of a job were sampled.

use std::path::PathBuf;

use coppice_api::job::JobView;
use coppice_api::limits::{SAMPLE_HZ_MAX, SAMPLE_HZ_MIN};
use coppice_api::overlay::OverlayWish;
use coppice_protocol::ids::{JobId, ProgramId};
use tokio::sync::oneshot;

use crate::controller::Controller;
use crate::controller::requests::{Refused, no_job};
use crate::plant::Plant;
use crate::profiles::ProfileOrder;
use crate::store::Held;

/// What there is of a job whose ranks are or were sampled.
#[derive(Debug)]
pub struct Sampled {
    /// The job.
    pub job: JobView,
    /// The database of profiles …
    pub profiles: PathBuf,
    /// … and when all is in it that is known by now.
    pub written: oneshot::Receiver<()>,
    /// The stored copy of its program, if that is recorded to be there.
    pub copy: Option<Held>,
}

/// Checks how often ranks are to be sampled.
pub(super) fn check(wish: &OverlayWish) -> Result<(), Refused> {
    match wish.sample_hz {
        Some(hz) if !(SAMPLE_HZ_MIN..=SAMPLE_HZ_MAX).contains(&hz) => Err(Refused::bad(format!(
            "--sample: ranks cannot be sampled {hz} times a second; use {SAMPLE_HZ_MIN} to {SAMPLE_HZ_MAX}"
        ))),
        _ => Ok(()),
    }
}

impl<P: Plant> Controller<P> {
    /// Has it recorded how often ranks are sampled in a start of a job's overlay.
    pub(super) fn record_sampling(&mut self, job: JobId, generation: u32, wish: &OverlayWish) {
        let Some(hz) = wish.sample_hz else { return };
        if !self.plant.record_profile(ProfileOrder::Sampling { job, generation, hz }) {
            tracing::warn!(job = job.0, hz, "cannot record how often ranks are sampled");
        }
    }

    /// What there is of a job that there is or was.
    pub(in crate::controller) fn sampled(&mut self, id: JobId) -> Result<Sampled, Refused> {
        let job = self.records.job_alone(id)?.ok_or_else(|| no_job(id))?;
        let program = blake3::Hash::from_hex(&job.program).ok().map(|hash| ProgramId(*hash.as_bytes()));
        let copy = program.map(|program| self.stored(program)).transpose()?.flatten();
        let (profiles, written) = (self.config.paths.profiles(), self.plant.profiles_written());
        Ok(Sampled { job, profiles, written, copy })
    }
}
