//! What is asked about checkpoints. All of it may take as long as disks do.

use std::time::Duration;

use super::Client;
use crate::checkpoint::{
    CheckpointChoice, CheckpointReport, CheckpointView, CheckpointsQuery, Deleted, MakeOrder, RestartOrder, Restarted,
    Verified,
};
use crate::error::ApiError;

impl Client {
    /// Makes a checkpoint of a job, and waits until there is one.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with the reason; there is none then, and the job goes on.
    pub async fn checkpoint(&self, job: u64, order: MakeOrder) -> Result<CheckpointReport, ApiError> {
        // The nodes' memory goes to a disk.
        self.post_and_wait(&format!("/v1/jobs/{job}/checkpoint"), &order, Duration::MAX).await
    }

    /// The checkpoints that there are, by job and number.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn checkpoints(&self, query: &CheckpointsQuery) -> Result<Vec<CheckpointView>, ApiError> {
        let job = query.job.map(|job| format!("?job={job}")).unwrap_or_default();
        self.get(&format!("/v1/checkpoints{job}")).await
    }

    /// Deletes a checkpoint, or all of a job.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is none.
    pub async fn delete_checkpoints(&self, which: &CheckpointChoice) -> Result<Deleted, ApiError> {
        // What it alone has is looked for among all that is there.
        self.post_and_wait("/v1/checkpoints/delete", which, Duration::MAX).await
    }

    /// Reads all of a checkpoint, or of all of a job.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is none.
    pub async fn verify_checkpoints(&self, which: &CheckpointChoice) -> Result<Verified, ApiError> {
        self.post_and_wait("/v1/checkpoints/verify", which, Duration::MAX).await
    }

    /// Has a new job go on from a checkpoint of a job. As one that is submitted, it must have its stream opened soon
    /// unless it is detached.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with the reason: no such checkpoint, the job still runs, parts of it or its program
    /// are gone, …
    pub async fn restart(&self, job: u64, order: &RestartOrder) -> Result<Restarted, ApiError> {
        self.post_and_wait(&format!("/v1/jobs/{job}/restart"), order, Duration::MAX).await
    }
}
