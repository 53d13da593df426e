//! The service node around whoever does something with checkpoints.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coppice_api::checkpoint::CheckpointName;
use coppice_protocol::ids::JobId;
use coppice_storage::{Manifest, Storage, StorageError};
use tokio::sync::mpsc;

use super::Api;
use super::restart::runnable;
use crate::checkpoints::{Around, Checkpoints, Resubmission, Runnable, carry_out};
use crate::controller::{Event, Refused, Request, Restart};
use crate::plant::{CheckpointEvent, PlantEvent, Task};

impl Api {
    /// Carries orders out, each in a task of its own, until nobody gives any more.
    pub async fn carry_out(self, mut orders: mpsc::UnboundedReceiver<Task>) {
        while let Some(order) = orders.recv().await {
            match order {
                Task::Checkpoint(order) => drop(tokio::spawn(carry_out(self.clone(), order))),
                Task::Spawn(order) => drop(tokio::spawn(self.clone().carry_out_spawn(order))),
            }
        }
    }
}

impl Around for Api {
    fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    async fn tell(&self, request: Request) -> Result<(), Refused> {
        Self::tell(self, request).await
    }

    async fn say(&self, job: JobId, event: CheckpointEvent) {
        let _ = self.events.send(Event::Plant(PlantEvent::Checkpoint { job, event })).await;
    }

    async fn stored<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce(&Storage) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, Refused> {
        let storage = Arc::clone(&self.checkpoints.storage);
        let done = self.files.work(&self.checkpoints.name(), patience, move || work(&storage)).await?;
        done.map_err(Refused::from)
    }

    async fn runnable(
        &self,
        manifest: &Manifest,
        again: &Resubmission,
        checkpoint: CheckpointName,
    ) -> Result<Runnable, Refused> {
        runnable(self, manifest, again, checkpoint).await
    }

    async fn restart(&self, restart: Box<Restart>) -> Result<JobId, Refused> {
        let expected = self.connections.expect_job()?;
        let is_detached = restart.submission.detached;
        let new = self.ask(|answer| Request::Restart(restart, answer)).await?;
        if !is_detached {
            expected.until_attached(new);
        }
        Ok(new)
    }

    fn new_leader(&self, job: JobId) -> u64 {
        RandomState::new().hash_one(job.0)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn since_1970(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }
}
