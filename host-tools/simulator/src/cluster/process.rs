//! Processes that do what a script says, in place of programs, and what is seen of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coppice_core::agent::{Processes, Started};
use coppice_core::executor::{Either, WaitQueue, race, sleep};
use coppice_core::net::BoxFuture;
use coppice_core::ship::Client;
use coppice_protocol::control::{Exit, Launch, RankReport};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::retain::{RetainedProgram, WalkCounts};
use coppice_protocol::ship::{Call, Location, Reply, Stream};

use super::machine::LifeId;
use super::script::Script;

/// `O_WRONLY | O_CREAT`.
const TO_WRITE: u32 = 0o101;
/// What a process exits with whose call failed.
pub(super) const CALL_FAILED: u8 = 98;

/// What processes did, whoever wants to know. It is beside the world, as processes are deep inside their nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed(Arc<Mutex<Seen>>);

/// See [`Observed`].
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The processes that are there, of each boot.
    pub alive: BTreeMap<(LifeId, JobId, Rank), NodeId>,
    /// What must not be.
    pub violations: Vec<String>,
    /// Processes that began.
    pub launched: u64,
}

impl Observed {
    pub(super) fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A boot is over, and its processes with it.
    pub(super) fn over(&self, life: LifeId) {
        self.lock().alive.retain(|(of, ..), _| *of != life);
    }
}

/// The processes of one boot of a node.
#[derive(Clone)]
pub(super) struct Scripted {
    pub life: LifeId,
    pub node: NodeId,
    pub observed: Observed,
    killed: Arc<Mutex<Vec<(JobId, u8)>>>,
    changed: Arc<WaitQueue>,
}

impl Scripted {
    pub(super) fn new(life: LifeId, node: NodeId, observed: Observed) -> Self {
        Self { life, node, observed, killed: Arc::default(), changed: Arc::new(WaitQueue::new()) }
    }

    fn began(&self, job: JobId, rank: Rank) {
        let mut seen = self.observed.lock();
        let Seen { alive, violations, launched } = &mut *seen;
        *launched += 1;
        let of_life = alive.keys().filter(|(life, ..)| *life == self.life);
        for (_, other, other_rank) in of_life {
            if *other != job || *other_rank == rank {
                violations.push(format!(
                    "rank {rank} of job {job} begins on node {} beside rank {other_rank} of job {other}",
                    self.node
                ));
            }
        }
        alive.insert((self.life, job, rank), self.node);
    }

    fn ended(&self, job: JobId, rank: Rank) {
        self.observed.lock().alive.remove(&(self.life, job, rank));
    }

    async fn killed(&self, job: JobId) -> u8 {
        let signal = || {
            let killed = self.killed.lock().unwrap_or_else(PoisonError::into_inner);
            killed.iter().find(|(of, _)| *of == job).map(|(_, signal)| *signal)
        };
        self.changed.wait_until(signal).await
    }

    /// What the script says. Its exit status.
    async fn play(&self, script: Script, client: &Client) -> u8 {
        let rank = client.owner().rank;
        let mut file = None;
        if script.appends {
            let at = Location { directory: None, path: format!("/{rank}").into() };
            match client.call(Call::Open { at, flags: TO_WRITE, mode: 0o600 }, Vec::new()).await {
                Ok((Reply::Opened { handle, .. }, _)) => file = Some(handle),
                _ => return CALL_FAILED,
            }
        }
        let mut appended = 0;
        for number in 0..script.lines_of(rank.0) {
            sleep(script.pause_ns).await;
            let line = script.line(rank.0, number);
            if let Some(file) = file {
                appended += line.len() as u64;
                match client.call(Call::Write { file, offset: None }, line.clone()).await {
                    Ok((Reply::Written { end, .. }, _)) if end == appended => {}
                    Ok((Reply::Written { end, .. }, _)) => {
                        let what = format!("rank {rank} has appended {appended} bytes, and its file has {end}");
                        self.observed.lock().violations.push(what);
                    }
                    _ => return CALL_FAILED,
                }
            }
            match client.print(Stream::Output, line.clone()).await {
                Ok((Reply::Written { bytes, .. }, _)) if bytes as usize == line.len() => {}
                _ => return CALL_FAILED,
            }
        }
        script.status
    }
}

impl Processes for Scripted {
    fn launch(&self, launch: Launch, client: Client, started: Started) -> BoxFuture<'static, RankReport> {
        let this = self.clone();
        Box::pin(async move {
            let Launch { job, rank, .. } = launch;
            this.began(job, rank);
            started.now();
            let script = Script::of(launch.arguments.get(1..).unwrap_or_default());
            let exit = match race(this.play(script, &client), this.killed(job)).await {
                Either::First(status) => Exit::Status(status),
                Either::Second(signal) => Exit::Signal(signal),
            };
            this.ended(job, rank);
            RankReport::ended(job, rank, exit)
        })
    }

    fn retain(&self, _program: ProgramId) -> Option<WalkCounts> {
        None
    }

    fn discard(&self, _program: Option<ProgramId>) -> Vec<RetainedProgram> {
        Vec::new()
    }

    fn freed(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn held(&self) -> Vec<RetainedProgram> {
        Vec::new()
    }

    fn kill(&self, job: JobId, signal: u8) {
        self.killed.lock().unwrap_or_else(PoisonError::into_inner).push((job, signal));
        self.changed.wake_all();
    }
}
