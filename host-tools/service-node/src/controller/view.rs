//! The cluster as a whole, as it is shown.

use coppice_api::cluster::{ClusterState, ClusterView};
use coppice_qemu::machine::Accelerator;

use super::{Config, Controller, Now};
use crate::plant::Plant;

impl<P: Plant> Controller<P> {
    /// Shows the cluster as it is now to those who watch it.
    pub(super) fn publish(&mut self) {
        self.changed = false;
        self.view.send_replace(self.cluster_view());
    }

    fn cluster_view(&self) -> ClusterView {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (queued, jobs) = (count(self.scheduler.len()), count(self.jobs.len()));
        let earlier = self.view.borrow().clone();
        ClusterView {
            state: self.state,
            failure: self.failure.clone(),
            nodes_ready: count(self.nodes.up()),
            nodes_failed: count(self.nodes.failed().len()),
            accelerator: self.accelerator.as_ref().map(Accelerator::to_string),
            jobs_queued: queued,
            jobs_running: jobs.saturating_sub(queued),
            processes: self.helper_views(),
            started_at_ns: self.started_at_ns,
            ..earlier
        }
    }
}

/// A cluster of which nothing runs yet.
pub(super) fn empty(config: &Config, now: Now) -> ClusterView {
    ClusterView {
        name: config.paths.name().to_string(),
        state: ClusterState::Starting,
        failure: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at_ns: now.realtime_ns,
        nodes: config.nodes,
        nodes_ready: 0,
        nodes_failed: 0,
        pset_size: config.pset_size,
        cores: config.cores,
        memory_bytes: config.memory_bytes,
        region_bytes: config.region_bytes,
        accelerator: None,
        jobs_queued: 0,
        jobs_running: 0,
        metrics_port: None,
        state_directory: config.paths.state().to_owned(),
        runtime_directory: config.paths.runtime().to_owned(),
        processes: Vec::new(),
    }
}
