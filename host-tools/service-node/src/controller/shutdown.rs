//! The orderly end of a cluster.

use coppice_api::cluster::ClusterState;
use coppice_api::job::{EXIT_COPPICE, RankOutcome};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::pset::ToPset;

use super::jobs::empty_report;
use super::node::Phase;
use super::{Controller, Now};
use crate::limits::SHUTDOWN_TIME_MAX;
use crate::plant::{Plant, Stop};
use crate::records::What;

impl<P: Plant> Controller<P> {
    /// Begins the end: jobs are over now, nodes are told to power off.
    pub(super) fn shut_down(&mut self, now: Now) {
        if self.state == ClusterState::Stopping {
            return;
        }
        self.state = ClusterState::Stopping;
        self.shutdown_deadline = Some(now.instant + SHUTDOWN_TIME_MAX);
        self.changed = true;
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.abandon_job(job, now);
        }
        self.end_forgets();
        self.inspections.end();
        self.regions.end();
        self.end_link_orders();
        self.end_keeps();
        self.stop_nodes();
        for pset in &mut self.psets {
            if pset.helper.is_listening() {
                self.plant.tell(pset.id, &ToPset::Shutdown);
                pset.helper.stopping();
            } else if pset.helper.is_alive() {
                self.plant.kill_io_node(pset.id);
                pset.helper.stopping();
            }
        }
    }

    /// Ends a job without waiting for its ranks.
    fn abandon_job(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let reason = "the cluster went down".to_owned();
        job.reason.get_or_insert(reason.clone());
        self.scheduler.remove(id);
        let lost: Vec<_> = job
            .ranks
            .live()
            .map(|(rank, state)| empty_report(rank, state.node, RankOutcome::Lost, Some(reason.clone())))
            .collect();
        self.records.add(What::Ranks(id, lost), now);
        self.finish_job(id, EXIT_COPPICE, now);
    }

    /// Nodes that have called are told by their I/O nodes; those that have not are ended at once.
    fn stop_nodes(&mut self) {
        let nodes: Vec<(NodeId, Phase)> = self.nodes.iter().map(|node| (node.id, node.phase())).collect();
        for (node, phase) in nodes {
            match phase {
                Phase::Ready | Phase::Busy(_) => self.nodes.set_phase(node, Phase::Stopping),
                Phase::Booting { .. } => {
                    self.nodes.set_phase(node, Phase::Stopping);
                    self.plant.kill_machine(node);
                }
                Phase::Waiting | Phase::Stopping | Phase::Failed => {}
            }
        }
    }

    pub(super) fn advance_shutdown(&mut self, now: Now) {
        if self.state != ClusterState::Stopping {
            return;
        }
        if self.shutdown_deadline.is_some_and(|deadline| deadline <= now.instant) {
            self.shutdown_deadline = None;
            let left: Vec<NodeId> = self.nodes.iter().filter(|node| node.has_machine()).map(|node| node.id).collect();
            for node in left {
                tracing::warn!(node = node.0, "did not power off by itself");
                self.plant.kill_machine(node);
            }
            for pset in self.psets.iter().filter(|pset| pset.helper.is_alive()) {
                tracing::warn!(pset = pset.id.0, "the I/O node did not end by itself");
                self.plant.kill_io_node(pset.id);
            }
            if self.fabric.is_alive() {
                self.plant.stop_fabric(Stop::AtOnce);
            }
        }
    }

    /// The fabric goes last: nodes are told to power off through it.
    pub(super) fn stop_fabric_when_unused(&mut self) {
        if self.state != ClusterState::Stopping {
            return;
        }
        let used = self.nodes.have_machines() || self.psets.iter().any(|pset| pset.helper.is_alive());
        if !used && !self.fabric.is_stopping() && self.fabric.is_alive() {
            let how = if self.fabric.is_listening() { Stop::Orderly } else { Stop::AtOnce };
            self.plant.stop_fabric(how);
            self.fabric.stopping();
        }
    }
}
