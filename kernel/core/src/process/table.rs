//! The processes of a node: starting one, and finding one that is to be ended.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::{Launch, RankReport};
use coppice_protocol::ids::{JobId, ProgramId, Rank};
use coppice_protocol::retain::{RetainedProgram, WalkCounts};

use crate::agent::{Processes, Started};
use crate::clock;
use crate::net::BoxFuture;
use crate::pmi::Pmi;
use crate::process::job::JobsOnNode;
use crate::process::{End, KillSwitch, NodeFacts, launch, report};
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// Processes between launch and end.
type Running = Arc<Mutex<BTreeMap<(JobId, Rank), KillSwitch>>>;

/// The processes of a node. How many there may be is the agent's to say.
pub struct ProcessTable {
    node: NodeFacts,
    pmi: Pmi,
    running: Running,
    jobs: Arc<JobsOnNode>,
}

impl ProcessTable {
    /// No process yet.
    #[must_use]
    pub fn new(node: NodeFacts, pmi: Pmi) -> Self {
        Self { node, pmi, running: Arc::new(Mutex::new(LockLevel::Jobs, BTreeMap::new())), jobs: Arc::default() }
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
    fn launch(&self, order: Launch, client: Client, started: Started) -> BoxFuture<'static, RankReport> {
        let key = (order.job, order.rank);
        let seat = match self.pmi.join(&order, started.failures()) {
            Ok(seat) => seat,
            Err(reason) => {
                let report = report::of_nothing(&order, End::not_started(reason), self.held());
                return Box::pin(core::future::ready(report));
            }
        };
        let switch = KillSwitch::new();
        let job = self.jobs.enter(&order, self.node.frames);
        let process = launch(order, client, job, self.node.clone(), seat, switch.clone(), move || started.now());
        self.running.lock().insert(key, switch);
        let entry = Entry { running: Arc::clone(&self.running), key };
        Box::pin(async move {
            let report = process.await;
            drop(entry);
            report
        })
    }

    fn retain(&self, program: ProgramId) -> Option<WalkCounts> {
        let start_ns = clock::monotonic_ns();
        let counts = self.node.retention.retain(program)?;
        let walk_ns = counts.walk_ns + clock::monotonic_ns().saturating_sub(start_ns);
        Some(WalkCounts { walk_ns, ..counts })
    }

    fn discard(&self, program: Option<ProgramId>) -> Vec<RetainedProgram> {
        self.node.retention.discard(program)
    }

    fn held(&self) -> Vec<RetainedProgram> {
        self.node.retention.held()
    }

    fn kill(&self, job: JobId, signal: u8) {
        self.pmi.kill(job);
        let switches: Vec<KillSwitch> = {
            let running = self.running.lock();
            running.iter().filter(|((of, _), _)| *of == job).map(|(_, switch)| switch.clone()).collect()
        };
        for switch in switches {
            switch.kill(signal);
        }
    }
}
