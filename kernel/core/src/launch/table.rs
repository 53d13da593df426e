//! The processes of a node: starting one, and finding one that is to be ended.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::broadcast::Broadcast;
use coppice_protocol::control::{Order, OverlayOrder, RankReport};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::inspect::{Answer, Inspect};
use coppice_protocol::keep::{Keep, KeepOutcome};
use coppice_protocol::overlay::Up;
use coppice_protocol::retain::{RetainedProgram, WalkCounts};
use coppice_protocol::spawn::{Joined, Spawned};
use coppice_protocol::trace::Traced;

use super::{KillSwitch, inspect, launch, report, taken_apart};
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{SIGCONT, SIGKILL, ends_by_default, stops_by_default};
use crate::agent::{Processes, Started};
use crate::clock;
use crate::executor;
use crate::memory::FileIdentity;
use crate::net::BoxFuture;
use crate::overlay::Overlays;
use crate::pmi::Pmi;
use crate::process::signals::{Outcome, Target};
use crate::process::{End, Identity, JobsOnNode, NodeFacts, Process};
use crate::ship::Client;
use crate::staging;
use crate::sync::{LockLevel, Mutex};

/// Processes between launch and end.
type Running = Arc<Mutex<BTreeMap<(JobId, Rank), KillSwitch>>>;

/// The processes of a node. How many there may be is the agent's to say.
pub struct ProcessTable {
    node: NodeFacts,
    pmi: Pmi,
    overlays: Overlays,
    running: Running,
    jobs: Arc<JobsOnNode>,
}

impl ProcessTable {
    /// No process yet.
    #[must_use]
    pub fn new(node: NodeFacts, pmi: Pmi, overlays: Overlays) -> Self {
        let running = Arc::new(Mutex::new(LockLevel::Jobs, BTreeMap::new()));
        Self { node, pmi, overlays, running, jobs: Arc::default() }
    }
}

/// Takes a process out of the table when its future ends or is dropped.
struct Entry {
    running: Running,
    key: (JobId, Rank),
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.running.lock().remove(&self.key);
    }
}

impl Processes for ProcessTable {
    fn launch(&self, order: Order, client: Client, started: Started) -> BoxFuture<'static, RankReport> {
        let key = (order.job, order.rank);
        // What was kept for another job is room for this one.
        self.overlays.end_others(order.job);
        let seat = match self.pmi.join(&order, started.failures()) {
            Ok(seat) => seat,
            Err(reason) => {
                let report = report::of_nothing(order.job, order.rank, End::not_started(reason));
                return Box::pin(core::future::ready(report));
            }
        };
        let switch = KillSwitch::new();
        let memory = (self.node.frames, &self.node.left);
        let job = match self.jobs.enter(&order, memory, &self.node.quota) {
            Ok(job) => job,
            Err(errno) => {
                let end = End::not_started(format!("job: {errno}"));
                seat.ended(end.exit);
                let report = report::of_nothing(order.job, order.rank, end);
                return Box::pin(async move {
                    seat.leave().await;
                    report
                });
            }
        };
        let (failures, id) = (started.failures(), order.job);
        job.asks.say(move || failures.asks(id));
        if order.core_file {
            let failures = started.failures();
            job.say_who_dies(move |dying| failures.dies(dying));
        }
        let process = launch(order, client, job, self.node.clone(), seat, switch.clone(), move || started.now());
        self.running.lock().insert(key, switch);
        let (entry, overlays) = (Entry { running: Arc::clone(&self.running), key }, self.overlays.clone());
        Box::pin(async move {
            let report = process.await;
            let running = Arc::clone(&entry.running);
            drop(entry);
            let is_last = running.lock().keys().all(|(job, _)| *job != id);
            if is_last {
                overlays.left(id).await;
            }
            report
        })
    }

    fn retain(&self, program: ProgramId) -> Option<WalkCounts> {
        let start_ns = clock::monotonic_ns();
        let counts = self.node.retention.retain(program)?;
        if self.node.retention.keeps_one() {
            self.node.left.discard_others(program);
        }
        let walk_ns = counts.walk_ns + clock::monotonic_ns().saturating_sub(start_ns);
        Some(WalkCounts { walk_ns, ..counts })
    }

    fn discard(&self, program: Option<ProgramId>) -> Vec<RetainedProgram> {
        let mut gone = self.node.retention.discard(program);
        gone.extend(self.node.left.discard(program));
        gone.extend(self.node.staging.kept().discard(program));
        gone
    }

    fn keep(&self, order: Keep, tell: Box<dyn FnOnce(KeepOutcome) + Send>) -> BoxFuture<'static, ()> {
        let node = self.node.clone();
        Box::pin(async move { staging::keep(order, node.as_site(), tell).await })
    }

    fn freed(&self) -> BoxFuture<'static, ()> {
        let (frames, retention) = (self.node.frames, Arc::clone(&self.node.retention));
        Box::pin(taken_apart(frames, retention))
    }

    fn held(&self) -> Vec<RetainedProgram> {
        self.node.retention.held()
    }

    fn kill(&self, job: JobId, signal: u8) {
        let switches: Vec<(Rank, KillSwitch)> = {
            let running = self.running.lock();
            let of_job = running.iter().filter(|((of, _), _)| *of == job);
            of_job.map(|((_, rank), switch)| (*rank, switch.clone())).collect()
        };
        let processes = self.jobs.find(job).map(|job| job.processes()).unwrap_or_default();
        let of_rank = |rank: Rank| processes.iter().find(|process| process.identity.rank == rank);
        let ended_of = |(rank, switch): (Rank, KillSwitch)| {
            ended_by(of_rank(rank).map(Arc::as_ref), &switch, signal).map(|signal| (switch, signal))
        };
        let ended: Vec<_> = switches.into_iter().filter_map(ended_of).collect();
        if ended.is_empty() {
            return;
        }
        // Before the ends, for which it does not blame the job then.
        self.pmi.kill(job);
        self.overlays.kill(job);
        ended.into_iter().for_each(|(switch, signal)| switch.kill(signal));
    }

    fn inspect(&self, question: Inspect) -> BoxFuture<'static, Answer> {
        Box::pin(inspect::answer(Arc::clone(&self.jobs), question))
    }

    fn trace(&self, job: JobId, traced: Traced) {
        if let Some(job) = self.jobs.find(job) {
            job.trace(traced);
        }
    }

    fn checkpointed(&self, job: JobId, made: u64) {
        if let Some(job) = self.jobs.find(job) {
            job.asks.made(made);
        }
    }

    fn node_lost(&self, job: JobId, node: NodeId, ranks: &[Rank]) {
        if let Some((tag, node)) = self.pmi.node_lost(job, node, ranks) {
            self.node.network.break_off(tag, node);
        }
    }

    fn broadcast(&self, order: Broadcast) {
        let Some(job) = self.jobs.find(order.job) else { return };
        let (id, number, node) = (order.job, order.number, self.node.clone());
        let file = FileIdentity { device: order.file.device, inode: order.file.inode };
        let of_job = (job.as_tenant(), &job.staging);
        let expected = staging::Expected::new(order, of_job, &job.cache, node.as_site());
        let frames = match expected.and_then(|expected| expected.join(&job.staging, node.as_site())) {
            Ok(frames) => frames,
            Err(errno) => {
                job.cache.comes_not(file);
                return log::debug!("job {id}: no part in broadcast {number}: {errno}");
            }
        };
        // Without a task they are made as bytes come.
        let _ = executor::spawn(frames.make());
    }

    fn joined(&self, joined: Joined) -> u32 {
        match self.jobs.find(joined.job) {
            Some(job) => job.nodes_came(joined, &*self.node.network, &self.node.quota),
            // One that is not here any more has nobody who could miss them.
            None => joined.count(),
        }
    }

    fn spawned(&self, spawned: Spawned) {
        self.pmi.spawned(spawned);
    }

    fn overlay(&self, order: OverlayOrder, say: Arc<dyn Fn(Up) + Send + Sync>) {
        // Of one that has no rank here any more there is nothing to look at, and processes stay until it is over.
        let job = self.jobs.find(order.job);
        self.overlays.obey(order, job.as_ref(), say);
    }

    fn forget(&self, job: JobId) -> BoxFuture<'static, ()> {
        let (pmi, overlay) = (self.pmi.over(job), self.overlays.over(job));
        Box::pin(async move {
            pmi.await;
            overlay.await;
        })
    }
}

/// Sends a process, if it has come to be one, a signal of the operator's. Gives the signal that it is to be ended by,
/// if that is what it means.
fn ended_by(process: Option<&Process>, switch: &KillSwitch, signal: u8) -> Option<u8> {
    let Some(process) = process.filter(|_| signal != 0 && u32::from(signal) != SIGKILL) else {
        // What is still being launched has set nothing for its signals yet. It is stopped when it begins.
        match u32::from(signal) {
            SIGCONT => switch.stop(0),
            stops @ 1.. if stops_by_default(stops) => switch.stop(signal),
            _ => {}
        }
        return (signal == 0 || ends_by_default(signal.into())).then_some(signal);
    };
    let info = SignalInfo::user(signal.into(), Identity::PARENT, 0);
    let sent = process.signals.lock().send(Target::Process, info);
    match sent {
        Ok(Outcome::End(signal)) => Some(signal as u8),
        Ok(outcome) => {
            process.act(outcome);
            None
        }
        // There is no such signal, or the process is at its end.
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::KillSwitch;
    use super::ended_by;

    #[test]
    fn a_launch_is_ended_only_by_what_ends_a_program_that_set_nothing() {
        let (kill, user, terminate, child, go_on, terminal_stop, stop, window) = (9, 10, 15, 17, 18, 20, 19, 28);
        let switch = KillSwitch::new();
        for signal in [0, kill, user, terminate, 64] {
            assert_eq!(ended_by(None, &switch, signal), Some(signal));
        }
        for signal in [child, go_on, stop, terminal_stop, window] {
            assert_eq!(ended_by(None, &switch, signal), None, "{signal}");
        }
        assert_eq!(switch.take_stop(), Some(terminal_stop), "it is stopped when it begins");
        assert_eq!(switch.take_stop(), None);
        assert_eq!([stop, go_on].map(|signal| ended_by(None, &switch, signal)), [None; 2]);
        assert_eq!(switch.take_stop(), None, "it was to go on");
    }
}
