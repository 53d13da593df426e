//! What is told to whoever scrapes metrics: a look at what is in memory. Nothing is read for it.

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_api::job::JobState;
use coppice_api::overlay::EpochView;
use coppice_protocol::retain::HeldAs;

use super::helpers::Helper;
use super::job::Job;
use super::node::Node;
use super::{Controller, Now};
use crate::limits::{METRICS_HELPERS_MAX, METRICS_JOBS_MAX, METRICS_NODES_MAX};
use crate::metrics::seen::{HelperSeen, JOB_STATES, JobSeen, NodeSeen, OverlaySeen, RecordsSeen, Seen};
use crate::plant::Plant;

impl<P: Plant> Controller<P> {
    /// Where metrics are scraped, for whoever looks at the cluster.
    pub fn metrics_at(&mut self, port: u16) {
        self.view.send_modify(|view| view.metrics_port = Some(port));
    }

    /// What there is now.
    pub(super) fn seen(&self, now: Now) -> Seen {
        let mut job_states: BTreeMap<_, usize> = JOB_STATES.iter().map(|state| (state.as_str(), 0)).collect();
        for job in self.jobs.values() {
            *job_states.entry(job.state().as_str()).or_default() += 1;
        }
        let fabric = self.fabric.seen(None);
        let io_nodes = self.psets.iter().map(|pset| pset.helper.seen(Some(pset.id.0)));
        Seen {
            cluster: self.view.borrow().clone(),
            node_states: self.nodes.by_state().map(|(state, count)| (state.as_str(), count)).collect(),
            nodes: self.nodes.iter().take(METRICS_NODES_MAX).map(Node::seen).collect(),
            job_states,
            jobs: self
                .jobs
                .values()
                .take(METRICS_JOBS_MAX)
                .map(|job| job.seen(self.overlays.last(job.id), now))
                .collect(),
            helpers: std::iter::once(fabric).chain(io_nodes).take(METRICS_HELPERS_MAX).collect(),
            helpers_all: 1 + self.psets.len(),
            records: RecordsSeen { waiting: self.records.waiting(), trouble: self.records.trouble(now) },
            stored: self.stored,
            counts: self.counts.clone(),
        }
    }
}

impl Node {
    fn seen(&self) -> NodeSeen {
        let held = |kind: HeldAs| -> u64 {
            let held = if self.is_up() { self.holdings.held() } else { &[] };
            held.iter().filter(|held| held.held_as == kind).map(|held| held.bytes).fold(0, u64::saturating_add)
        };
        NodeSeen {
            node: self.id.0,
            pset: self.pset.0,
            state: self.state(),
            kernel: self.status.as_ref().map(|status| status.kernel.clone()),
            boot_ns: self.status.as_ref().map(|status| status.boot_ns),
            cores: self.status.as_ref().map(|status| status.cores),
            boots: self.generation.0,
            boots_failed: self.boots_failed(),
            memory: self.memory,
            programs_bytes: held(HeldAs::Table),
            files_bytes: held(HeldAs::File).saturating_add(held(HeldAs::Read)),
        }
    }
}

impl Job {
    /// How far it is.
    fn state(&self) -> JobState {
        match self.times.running_ns {
            _ if self.is_queued() => JobState::Queued,
            Some(_) => JobState::Running,
            None => JobState::Starting,
        }
    }

    fn seen(&self, overlay: Option<&EpochView>, now: Now) -> JobSeen {
        JobSeen {
            job: self.id.0,
            name: self.submission.name.clone(),
            program: self.program.id.to_string(),
            state: self.state(),
            ranks: self.submission.ranks,
            nodes: self.submission.nodes_wanted(),
            age: Duration::from_nanos(now.realtime_ns.saturating_sub(self.times.submitted_ns)),
            staged_bytes: self.staged.iter().map(|staged| staged.bytes).fold(0, u64::saturating_add),
            overlay: overlay.map(OverlaySeen::of),
        }
    }
}

impl Helper {
    fn seen(&self, pset: Option<u32>) -> HelperSeen {
        HelperSeen { pset, up: self.is_listening(), starts: self.incarnation().0, pid: self.pid() }
    }
}
