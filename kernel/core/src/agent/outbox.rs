//! What the agent has to tell the I/O node for certain: launches, ends, and that a job cannot go on.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;

use coppice_protocol::control::{JobFailure, RankReport, ToIoNode, Waiting};
use coppice_protocol::ids::{JobId, Rank};

use crate::executor::WaitQueue;
use crate::limits::CONTROL_QUEUE_MAX;
use crate::sync::{LockLevel, Mutex};

/// Messages that are to be sent, and those that were and may still be lost with their connection.
pub(super) struct Outbox {
    queues: Mutex<Queues>,
    changed: WaitQueue,
}

#[derive(Default)]
struct Queues {
    waiting: VecDeque<ToIoNode>,
    unconfirmed: VecDeque<ToIoNode>,
    said: Said,
}

/// What was said of the last job, for an I/O node that asks again.
#[derive(Default)]
struct Said {
    job: Option<JobId>,
    launched: BTreeSet<Rank>,
    waits: Option<Waiting>,
    failed: Option<JobFailure>,
}

impl Said {
    /// What was said of this job, and of no other from now on.
    fn of(&mut self, job: JobId) -> &mut Self {
        if self.job != Some(job) {
            *self = Self { job: Some(job), ..Self::default() };
        }
        self
    }
}

impl Queues {
    fn push(&mut self, message: ToIoNode) {
        if self.waiting.len() >= CONTROL_QUEUE_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(message);
    }
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { queues: Mutex::new(LockLevel::Outbox, Queues::default()), changed: WaitQueue::new() }
    }

    /// Queues a message. At [`CONTROL_QUEUE_MAX`] the oldest is forgotten: it is of a job that the I/O node has given
    /// up by then, as one message needs one order from it.
    pub(super) fn push(&self, message: ToIoNode) {
        self.queues.lock().push(message);
        self.changed.wake_all();
    }

    /// A rank's first instruction is about to run.
    fn launched(&self, job: JobId, rank: Rank) {
        self.queues.lock().said.of(job).launched.insert(rank);
        self.push(ToIoNode::Launched { job, rank });
    }

    pub(super) fn ended(&self, report: RankReport) {
        self.push(ToIoNode::Ended(report));
    }

    /// A job cannot go on. Said once for a job.
    fn failed(&self, failure: JobFailure) {
        let is_first = {
            let mut queues = self.queues.lock();
            let said = queues.said.of(failure.job);
            let is_first = said.failed.is_none();
            said.failed.get_or_insert_with(|| failure.clone());
            is_first
        };
        if is_first {
            self.push(ToIoNode::Failed(failure));
        }
    }

    /// Ranks of a job have waited for a while.
    fn waits(&self, waiting: Waiting) {
        self.queues.lock().said.of(waiting.job).waits = Some(waiting);
        self.push(ToIoNode::Waits(waiting));
    }

    /// The I/O node asks for a rank that is here already, as its connection was lost. What it had been told may be lost
    /// with it even if it had come as far as that goes: nobody may have read it.
    pub(super) fn say_again(&self, job: JobId, rank: Rank) {
        {
            let mut queues = self.queues.lock();
            let Said { job: of, launched, waits, failed } = &queues.said;
            if *of != Some(job) {
                return;
            }
            let launched = launched.contains(&rank).then_some(ToIoNode::Launched { job, rank });
            let (waits, failed) = (waits.map(ToIoNode::Waits), failed.clone().map(ToIoNode::Failed));
            for message in [launched, waits, failed].into_iter().flatten() {
                if !queues.waiting.contains(&message) {
                    queues.push(message);
                }
            }
        }
        self.changed.wake_all();
    }

    /// Waits for the next message to send. Cancel-safe.
    pub(super) async fn next(&self) -> ToIoNode {
        self.changed.wait_until(|| self.queues.lock().waiting.pop_front()).await
    }

    /// The message was sent; it is kept until that is confirmed. At [`CONTROL_QUEUE_MAX`] the oldest counts as arrived.
    pub(super) fn sent(&self, message: ToIoNode) {
        let mut queues = self.queues.lock();
        if queues.unconfirmed.len() >= CONTROL_QUEUE_MAX {
            queues.unconfirmed.pop_front();
        }
        queues.unconfirmed.push_back(message);
    }

    /// Everything that was sent has arrived.
    pub(super) fn confirm(&self) {
        self.queues.lock().unconfirmed.clear();
    }

    /// What was sent and not confirmed is to be sent again.
    pub(super) fn connection_lost(&self) {
        let mut queues = self.queues.lock();
        while let Some(message) = queues.unconfirmed.pop_back() {
            queues.waiting.push_front(message);
        }
    }
}

/// Told when a process's first instruction is about to run.
pub struct Started {
    outbox: Arc<Outbox>,
    job: JobId,
    rank: Rank,
}

impl Started {
    pub(super) fn new(outbox: &Arc<Outbox>, job: JobId, rank: Rank) -> Self {
        Self { outbox: Arc::clone(outbox), job, rank }
    }

    /// What the process, and what serves it, say if the job cannot go on, or may not.
    #[must_use]
    pub fn failures(&self) -> Failures {
        let outbox = Arc::clone(&self.outbox);
        Failures::new(move |trouble| match trouble {
            Trouble::Failed(failure) => outbox.failed(failure),
            Trouble::Waits(waiting) => outbox.waits(waiting),
        })
    }

    /// The process's first instruction is about to run.
    pub fn now(self) {
        self.outbox.launched(self.job, self.rank);
    }
}

/// What is wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot go on.
    Failed(JobFailure),
    /// Its ranks here wait for others. If one of those has ended, the job cannot go on.
    Waits(Waiting),
}

/// Says that a job cannot go on, or may not.
#[derive(Clone)]
pub struct Failures(Arc<dyn Fn(Trouble) + Send + Sync>);

impl Failures {
    /// Says it to whoever this is.
    pub fn new(told: impl Fn(Trouble) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// The job is to be ended for this; only the first reason counts.
    pub fn report(&self, failure: JobFailure) {
        (self.0)(Trouble::Failed(failure));
    }

    /// Ranks of the job have waited for a while.
    pub fn waits(&self, waiting: Waiting) {
        (self.0)(Trouble::Waits(waiting));
    }
}
