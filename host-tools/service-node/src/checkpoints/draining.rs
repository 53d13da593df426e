//! Checkpoints that are local and not yet drained: what lies in regions is on its way to the storage.

use std::sync::PoisonError;

use coppice_api::checkpoint::{CheckpointState, CheckpointView, Drained};
use coppice_protocol::ids::JobId;
use tokio::sync::watch;

use super::Checkpoints;
use crate::controller::Objects;

/// One that is being drained; a job has one at a time.
#[derive(Debug)]
pub(super) struct Draining {
    view: CheckpointView,
    progress: Vec<watch::Receiver<Objects>>,
}

/// It is shown as one until this is dropped.
#[derive(Debug)]
pub(super) struct Shown {
    checkpoints: Checkpoints,
    job: JobId,
}

impl Draining {
    /// As it is shown now.
    fn view(&self) -> CheckpointView {
        let objects = self.progress.iter().map(|progress| *progress.borrow());
        let drained = objects.fold(Drained::default(), |sum, (objects, of)| Drained {
            objects: sum.objects.saturating_add(objects),
            of: sum.of.saturating_add(of),
        });
        CheckpointView { state: CheckpointState::Local, drained: Some(drained), ..self.view.clone() }
    }
}

impl Checkpoints {
    /// One of these is drained from now on.
    pub(super) fn drain(&self, view: CheckpointView, progress: Vec<watch::Receiver<Objects>>) -> Shown {
        let job = JobId(view.checkpoint.job);
        let mut draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        draining.insert(job, Draining { view, progress });
        Shown { checkpoints: self.clone(), job }
    }

    /// Those that are being drained, of a job or of all.
    pub(crate) fn being_drained(&self, job: Option<u64>) -> Vec<CheckpointView> {
        let draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = draining.iter().filter(|(of, _)| job.is_none_or(|job| job == of.0));
        wanted.map(|(_, draining)| draining.view()).collect()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.checkpoints.draining.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.job);
    }
}
