//! Taking jobs in.

use std::collections::BTreeSet;

use coppice_api::cluster::ClusterState;
use coppice_api::job::{EXIT_COPPICE, Submission};
use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{JobId, NodeId};

use super::job::Job;
use super::node::Phase;
use super::requests::Refused;
use super::{Controller, Now};
use crate::database::ProgramRow;
use crate::plant::Plant;
use crate::scheduler::Wish;

impl<P: Plant> Controller<P> {
    /// Takes a job whose program has been read and checked.
    pub(super) fn submit(&mut self, job: Submission, program: ProgramRow, now: Now) -> Result<JobId, Refused> {
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        self.check_size(&job, &program)?;
        self.check_list(&job)?;
        self.scheduler.check_room().map_err(|full| Refused::conflict(&full.to_string()))?;
        let key = self.plant.job_key().map_err(|error| Refused::conflict(&error))?;
        let id = self.database.add_job(&job, program.id, now.realtime_ns).map_err(Refused::from)?;
        let job = Job::new(id, job, program, key, now.instant);
        let listed = job.submission.nodes.iter().copied().map(NodeId).collect();
        let ahead =
            self.scheduler.submit(Wish { job: id, nodes: job.submission.ranks as usize, listed, bound: job.bound() });
        job.feed.event(JobEvent::Queued { ahead: u32::try_from(ahead).unwrap_or(u32::MAX) });
        self.jobs.insert(id, job);
        self.changed = true;
        Ok(id)
    }

    fn check_size(&self, job: &Submission, program: &ProgramRow) -> Result<(), Refused> {
        let ranks = job.ranks as usize;
        let (nodes, usable) = (self.nodes.len(), self.usable_nodes().len());
        if ranks > nodes {
            let plural = if nodes == 1 { "" } else { "s" };
            return Err(Refused::bad(format!(
                "-n {ranks} is more than cluster '{}' has: {nodes} node{plural}; use fewer, or `coppice down` and \
                 `coppice up --nodes {ranks}`",
                self.config.paths.name()
            )));
        }
        if ranks > usable {
            return Err(Refused::conflict(&format!(
                "-n {ranks} is more than the {usable} nodes that work; see `coppice nodes`, `coppice reboot NODE`"
            )));
        }
        // What the smallest node had free when it got ready; before that, all it has.
        let free = self.nodes.iter().filter_map(|node| node.status.as_ref()).map(|status| status.memory.free).min();
        let free = free.unwrap_or(u64::MAX).min(self.config.memory_bytes);
        if program.memory_bytes > free {
            return Err(Refused::bad(format!(
                "cannot run '{}': it needs {} MiB of memory and a node has {} MiB free; use `coppice up --memory` with \
                 more",
                job.program.display(),
                program.memory_bytes.div_ceil(1 << 20),
                free >> 20
            )));
        }
        Ok(())
    }

    /// The nodes a user named must be as many as there are ranks, different, and able to take a job some time.
    fn check_list(&self, job: &Submission) -> Result<(), Refused> {
        let (ranks, listed) = (job.ranks as usize, &job.nodes);
        if listed.is_empty() {
            return Ok(());
        }
        if listed.len() != ranks {
            let plural = if listed.len() == 1 { "" } else { "s" };
            return Err(Refused::bad(format!(
                "--nodes-list names {} node{plural} and -n says {ranks}; name one node for each rank",
                listed.len()
            )));
        }
        let mut seen = BTreeSet::new();
        for number in listed {
            let Some(node) = self.nodes.get(*number as usize) else {
                let (name, nodes) = (self.config.paths.name(), self.nodes.len());
                return Err(Refused::bad(format!(
                    "--nodes-list: cluster '{name}' has no node {number}; it has {nodes}, counted from 0"
                )));
            };
            if node.phase == Phase::Failed {
                return Err(Refused::conflict(&format!(
                    "--nodes-list: node {number} does not work; see `coppice nodes`, `coppice reboot {number}`"
                )));
            }
            if !seen.insert(number) {
                return Err(Refused::bad(format!("--nodes-list names node {number} twice; a node runs one rank")));
            }
        }
        Ok(())
    }

    fn usable_nodes(&self) -> BTreeSet<NodeId> {
        self.nodes.iter().filter(|node| node.phase != Phase::Failed).map(|node| node.id).collect()
    }

    /// Ends queued jobs that can never have the nodes they want as too few are left.
    pub(super) fn end_impossible_jobs(&mut self, now: Now) {
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
