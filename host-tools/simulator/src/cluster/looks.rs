//! Looks from time to time: whether the cluster came up, whether what was promised is kept, and at last whether all has
//! come right and is recorded as it was told.

use coppice_api::cluster::ClusterState;
use coppice_api::job::JobState;
use coppice_api::node::NodeState;
use coppice_io_node::machine::Remains;
use coppice_protocol::ids::PsetId;
use coppice_service_node::controller::Request;

use super::io_node::IoNode;
use super::queue::Event;
use super::whole::Stage;
use super::world::{LOOK_NS, World};
use crate::checkers::Violation;

impl World {
    /// As `coppice up` does: a cluster that cannot come up is taken down, and whoever wants it tries again.
    pub(super) fn look_whether_up(&mut self) {
        self.plan(LOOK_NS, Event::Up);
        if self.host.stopped_until_ns > self.now_ns {
            return;
        }
        self.look_at_promises();
        self.look_at_links();
        if self.options.is_whole {
            self.go_on_with_the_whole();
        }
        if self.options.trial.is_some() {
            self.look_at_the_trial();
        }
        let Some(Ok(view)) = self.host.ask(Request::Watch, self.now_ns) else { return };
        let failure = view.borrow().failure.clone().filter(|_| view.borrow().state == ClusterState::Failed);
        if let Some(failure) = failure {
            self.note("cluster given up", format_args!("{failure}"));
            self.kill_host();
            self.plan_start(0);
        }
    }

    /// The service node has worked for a while more, if nothing is the matter with it.
    fn look_at_promises(&mut self) {
        if !self.host.is_up() || !self.host.disk.is_well() {
            return;
        }
        for job in self.checkers.promises.worked(LOOK_NS) {
            match self.host.ask(|answer| Request::Job(job, answer), self.now_ns) {
                Some(Ok(detail)) if detail.job.state == JobState::Ended => self.checkers.promises.kept(job),
                other => self.checkers.promises.broken(job, &format!("{other:?}")),
            }
        }
        for job in self.checkers.pmi.worked(LOOK_NS) {
            match self.host.ask(|answer| Request::Job(job, answer), self.now_ns) {
                Some(Ok(detail)) if detail.job.state == JobState::Ended => self.checkers.pmi.is_over(job),
                other => self.checkers.pmi.is_stuck(job, &format!("{other:?}")),
            }
        }
        for job in self.checkers.pmix.worked(LOOK_NS, self.now_ns) {
            match self.host.ask(|answer| Request::Job(job, answer), self.now_ns) {
                Some(Ok(detail)) if detail.job.state == JobState::Ended => self.checkers.pmix.is_over(job),
                other => self.checkers.pmix.is_stuck(job, &format!("{other:?}")),
            }
        }
    }

    /// What has not come right yet, if anything.
    pub(super) fn what_is_not_right(&mut self) -> Option<String> {
        // Who is stopped does nothing, not even if it is asked.
        if self.host.stopped_until_ns > self.now_ns {
            return Some("the service node is stopped".to_owned());
        }
        // Mostly it is this, which is soon found out.
        if let Some(job) = self.host.disk.unfinished_job() {
            let detail = self.host.ask(|answer| Request::Job(job, answer), self.now_ns);
            return Some(format!("job {job} has not ended: {detail:?}"));
        }
        if let Some(job) = self.host.disk.open_log() {
            return Some(format!("it is not recorded what is kept of the output of job {job}"));
        }
        let Some(Ok(jobs)) = self.host.ask(|answer| Request::Jobs(u32::MAX, None, answer), self.now_ns) else {
            return Some("the service node does not answer".to_owned());
        };
        if let Some(job) = jobs.iter().find(|job| job.ended_at_ns.is_none()) {
            return Some(format!("job {} has not ended: {job:?}", job.job));
        }
        if self.options.is_whole && self.whole != Stage::Over {
            return Some(format!("the one job: {:?}", self.whole));
        }
        if self.options.trial.is_some()
            && let Some(what) = self.trials.what_is_not_over()
        {
            return Some(what);
        }
        let what = self.what_is_not_up();
        if what.is_some() || self.options.is_alone() {
            return what.or_else(|| self.what_is_said_to_nodes());
        }
        self.what_the_last_job_shows()
    }

    /// Whether all nodes are there.
    pub(super) fn is_up(&mut self) -> bool {
        self.what_is_not_up().is_none()
    }

    pub(super) fn what_is_not_up(&mut self) -> Option<String> {
        let Some(Ok(nodes)) = self.host.ask(Request::Nodes, self.now_ns) else {
            return Some("the service node does not answer".to_owned());
        };
        if let Some(node) = nodes.iter().find(|node| node.state != NodeState::Ready) {
            return Some(format!("node {} is not ready: {node:?}", node.node));
        }
        let Some(Ok(view)) = self.host.ask(Request::Watch, self.now_ns) else {
            return Some("the service node does not answer".to_owned());
        };
        let state = view.borrow().state;
        if state != ClusterState::Up {
            return Some(format!("the cluster is {state:?}"));
        }
        let io_node = |(pset, io_node): (&PsetId, &IoNode)| Some((*pset, io_node.disk.first_wanted()?));
        if let Some((pset, job)) = self.io_nodes.iter().find_map(io_node) {
            return Some(format!("I/O node {pset} still has the root of job {job} open"));
        }
        let mut remains = self.io_nodes.iter().map(|(pset, io_node)| (*pset, io_node.machine.remains()));
        if let Some((pset, remains)) = remains.find(|(_, remains)| *remains != Remains::default()) {
            return Some(format!("I/O node {pset} still has {remains:?}"));
        }
        let left = self.observed.lock().alive.keys().next().copied();
        left.map(|(life, job, rank)| format!("rank {rank} of job {job} is still there, in boot {life:?}"))
    }

    pub(super) fn check_records(&mut self) -> Result<(), Violation> {
        for job in self.checkers.jobs.all() {
            match self.host.ask(|answer| Request::Job(job, answer), self.now_ns) {
                Some(Ok(detail)) => {
                    let held = self.checkers.jobs.recorded(job, &detail).map_err(|found| found.by("records"))?;
                    let warm = self.checkers.retention.recorded(job, &detail).map_err(|found| found.by("retention"))?;
                    self.trace.count("ranks on retained pages", warm);
                    self.trace.count("rank reports held against its output", held);
                }
                other => return Err(Violation::new(format!("job {job} is not recorded: {other:?}")).by("records")),
            }
        }
        Ok(())
    }
}
