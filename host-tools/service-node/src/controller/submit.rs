//! Taking jobs in.

use std::collections::BTreeSet;

use coppice_api::cluster::ClusterState;
use coppice_api::job::{EXIT_COPPICE, Submission};
use coppice_api::stream::JobEvent;
use coppice_api::{counted, shown};
use coppice_protocol::ids::{JobId, NodeId};

use super::job::{Job, Needs};
use super::node::Phase;
use super::requests::Refused;
use super::{Controller, Now, staging};
use crate::database::ProgramRow;
use crate::plant::Plant;
use crate::scheduler::Wish;
use crate::store::Held;

impl<P: Plant> Controller<P> {
    /// Takes a job whose program has been read and checked, and the files it has staged with it.
    pub(super) fn submit(
        &mut self,
        job: Submission,
        program: Held,
        staged: Vec<Held>,
        now: Now,
    ) -> Result<JobId, Refused> {
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        self.check_size(&job, &program)?;
        self.check_staging(&job, &program, &staged)?;
        self.check_list(&job)?;
        self.scheduler.check_room().map_err(|full| Refused::conflict(&full.to_string()))?;
        let key = self.plant.job_key().map_err(|error| Refused::conflict(&error))?;
        let asked = staging::asked(&job, &program, &staged);
        let id = self.records.storage_mut().add_job(&job, program.id, &asked, now.realtime_ns)?;
        let job = Job::new(id, job, Needs { program, staged }, key, now);
        let listed = job.submission.nodes.iter().copied().map(NodeId).collect();
        let ahead = self.scheduler.submit(Wish {
            job: id,
            nodes: job.submission.nodes_wanted() as usize,
            listed,
            bound: job.bound(),
        });
        job.feed.event(&JobEvent::Queued { ahead: u32::try_from(ahead).unwrap_or(u32::MAX) });
        self.jobs.insert(id, job);
        self.open_log(id);
        self.changed = true;
        Ok(id)
    }

    pub(super) fn check_size(&self, job: &Submission, program: &ProgramRow) -> Result<(), Refused> {
        let wanted = job.nodes_wanted() as usize;
        let nodes = self.nodes.len();
        let usable = nodes - self.nodes.failed().len();
        let wants = match job.ranks_per_node {
            1 => format!("-n {wanted} is more than"),
            per_node => {
                let wanted = counted(wanted, "node");
                format!("-n {} --ranks-per-node {per_node} is {wanted}, more than", job.ranks)
            }
        };
        if wanted > nodes {
            return Err(Refused::bad(format!(
                "{wants} cluster '{}' has: {}; use fewer, more --ranks-per-node, or `coppice down` \
                 and `coppice up --nodes {wanted}`",
                self.config.paths.name(),
                counted(nodes, "node")
            )));
        }
        if wanted > usable {
            return Err(Refused::conflict(&format!(
                "{wants} the {usable} nodes that work; see `coppice nodes`, `coppice reboot NODE`"
            )));
        }
        let free = self.smallest_free();
        let on_a_node = job.ranks.min(job.ranks_per_node);
        if program.memory_bytes.saturating_mul(on_a_node.into()) > free {
            let each = program.memory_bytes.div_ceil(1 << 20);
            let needs = match on_a_node {
                1 => format!("it needs {each} MiB"),
                ranks => format!("{ranks} ranks on a node need {each} MiB each"),
            };
            let fewer = if on_a_node == 1 { "" } else { "fewer --ranks-per-node, or " };
            return Err(Refused::bad(format!(
                "cannot run '{}': {needs} of memory and a node has {} MiB free; use {fewer}`coppice up --memory` with \
                 more",
                shown(&job.program),
                free >> 20
            )));
        }
        Ok(())
    }

    /// What the smallest node had free when it got ready; before that, all it has. Bytes.
    pub(super) fn smallest_free(&self) -> u64 {
        let free = self.nodes.iter().filter_map(|node| node.status.as_ref()).map(|status| status.memory.free).min();
        free.unwrap_or(u64::MAX).min(self.config.memory_bytes)
    }

    /// The nodes a user named must be as many as the ranks need, different, and able to take a job some time.
    fn check_list(&self, job: &Submission) -> Result<(), Refused> {
        let (wanted, listed) = (job.nodes_wanted() as usize, &job.nodes);
        if listed.is_empty() {
            return Ok(());
        }
        if listed.len() != wanted {
            let named = format!("--nodes-list names {} and -n", counted(listed.len(), "node"));
            return Err(Refused::bad(match job.ranks_per_node {
                1 => format!("{named} says {wanted}; name one node for each rank"),
                per_node => format!("{named} {} --ranks-per-node {per_node} needs {wanted}; name as many", job.ranks),
            }));
        }
        let mut seen = BTreeSet::new();
        for number in listed {
            let Some(node) = self.nodes.get(NodeId(*number)) else {
                let (name, nodes) = (self.config.paths.name(), self.nodes.len());
                return Err(Refused::bad(format!(
                    "--nodes-list: cluster '{name}' has no node {number}; it has {nodes}, counted from 0"
                )));
            };
            if node.phase() == Phase::Failed {
                return Err(Refused::conflict(&format!(
                    "--nodes-list: node {number} does not work; see `coppice nodes`, `coppice reboot {number}`"
                )));
            }
            if !seen.insert(number) {
                return Err(Refused::bad(format!("--nodes-list names node {number} twice; name each node once")));
            }
        }
        Ok(())
    }

    fn usable_nodes(&self) -> BTreeSet<NodeId> {
        self.nodes.iter().filter(|node| node.phase() != Phase::Failed).map(|node| node.id).collect()
    }

    /// Ends queued jobs that can never have the nodes they want as too few are left.
    pub(super) fn end_impossible_jobs(&mut self, now: Now) {
        if self.scheduler.is_empty() {
            return;
        }
        let usable = self.usable_nodes();
        for id in self.scheduler.take_impossible(&usable) {
            if let Some(job) = self.jobs.get_mut(&id) {
                let gone = job.submission.nodes.iter().find(|node| !usable.contains(&NodeId(**node)));
                job.reason = Some(match gone {
                    Some(node) => format!("node {node}, which it was to run on, does not work any more"),
                    None => format!("it wants more than the {} nodes that still work", usable.len()),
                });
            }
            self.finish_job(id, EXIT_COPPICE, now);
        }
    }
}
