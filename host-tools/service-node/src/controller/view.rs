//! The cluster as a whole, as it is shown.

use coppice_api::cluster::{ClusterState, ClusterView};
use coppice_qemu::machine::Accelerator;

use super::node::{Node, Phase};
use super::{Config, Controller, Now};
use crate::plant::Plant;

impl<P: Plant> Controller<P> {
    /// Shows the cluster as it is now to those who watch it.
    pub(super) fn publish(&mut self) {
        self.changed = false;
        self.view.send_replace(self.cluster_view());
    }

    fn cluster_view(&self) -> ClusterView {
        let count = |wanted: fn(&Node) -> bool| {
            u32::try_from(self.nodes.iter().filter(|node| wanted(node)).count()).unwrap_or(u32::MAX)
        };
        let queued = u32::try_from(self.scheduler.len()).unwrap_or(u32::MAX);
        let jobs = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        let earlier = self.view.borrow().clone();
        ClusterView {
            state: self.state,
            failure: self.failure.clone(),
            nodes_ready: count(Node::is_up),
            nodes_failed: count(|node| node.phase == Phase::Failed),
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
        accelerator: None,
        jobs_queued: 0,
        jobs_running: 0,
        state_directory: config.paths.state().to_owned(),
        runtime_directory: config.paths.runtime().to_owned(),
        processes: Vec::new(),
    }
}
