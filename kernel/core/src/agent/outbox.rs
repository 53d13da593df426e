//! What the agent has to tell the I/O node for certain: launches, ends, and that a job cannot go on.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use coppice_protocol::control::{Dying, JobFailure, RankReport, ToIoNode, Waiting};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::spawn::Spawn;

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
    /// Of those that were sent over this connection, how many are not among these any more.
    confirmed: u64,
    /// The last job that was said to have failed.
    failed: Option<JobId>,
}

impl Queues {
    fn confirm_first(&mut self) {
        self.unconfirmed.pop_front();
        self.confirmed += 1;
    }
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { queues: Mutex::new(LockLevel::Outbox, Queues::default()), changed: WaitQueue::new() }
    }

    /// Queues a message. At [`CONTROL_QUEUE_MAX`] the oldest is forgotten: it is of a job that the I/O node has given
    /// up by then, as one message needs one order from it.
    pub(super) fn push(&self, message: ToIoNode) {
        {
            let mut queues = self.queues.lock();
            if queues.waiting.len() >= CONTROL_QUEUE_MAX {
                queues.waiting.pop_front();
            }
            queues.waiting.push_back(message);
        }
        self.changed.wake_all();
    }

    /// Queues a message that is no loss, unless there are many.
    pub(super) fn offer(&self, message: ToIoNode) {
        let is_room = self.queues.lock().waiting.len() < CONTROL_QUEUE_MAX / 2;
        if is_room {
            self.push(message);
        }
    }

    /// A rank has ended. What is said of it is a copy that is made now: the report itself was made before what programs
    /// left on the stack was wiped, and may have some of it where it says nothing.
    #[inline(never)]
    pub(super) fn ended(&self, report: &RankReport) {
        self.push(ToIoNode::Ended(report.clone()));
    }

    /// A job cannot go on. Said once for a job.
    fn failed(&self, failure: JobFailure) {
        if self.queues.lock().failed.replace(failure.job) != Some(failure.job) {
            self.push(ToIoNode::Failed(failure));
        }
    }

    /// Waits for the next message to send. Cancel-safe.
    pub(super) async fn next(&self) -> ToIoNode {
        self.changed.wait_until(|| self.queues.lock().waiting.pop_front()).await
    }

    /// The message was sent; one that must arrive is kept until that is confirmed. At [`CONTROL_QUEUE_MAX`] the oldest
    /// counts as arrived.
    pub(super) fn sent(&self, message: ToIoNode) {
        if !message.must_arrive() {
            return;
        }
        let mut queues = self.queues.lock();
        if queues.unconfirmed.len() >= CONTROL_QUEUE_MAX {
            queues.confirm_first();
        }
        queues.unconfirmed.push_back(message);
    }

    /// The I/O node has read so many of those that were sent over this connection.
    pub(super) fn confirm(&self, taken: u64) {
        let mut queues = self.queues.lock();
        while queues.confirmed < taken && !queues.unconfirmed.is_empty() {
            queues.confirm_first();
        }
    }

    /// What was sent and not confirmed is to be sent again.
    pub(super) fn connection_lost(&self) {
        let mut queues = self.queues.lock();
        queues.confirmed = 0;
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
            Trouble::Waits(waiting) => outbox.push(ToIoNode::Waits(waiting)),
            Trouble::Dies(dying) => outbox.push(ToIoNode::Dies(dying)),
            Trouble::Spawns(spawn) => outbox.push(ToIoNode::Spawns(spawn)),
            Trouble::Asks(job) => outbox.push(ToIoNode::WantsCheckpoint { job }),
        })
    }

    /// The process's first instruction is about to run.
    pub fn now(self) {
        self.outbox.push(ToIoNode::Launched { job: self.job, rank: self.rank });
    }
}

/// What is wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot go on.
    Failed(JobFailure),
    /// Its ranks here wait for others. If one of those has ended, the job cannot go on.
    Waits(Waiting),
    /// A signal is about to end a rank.
    Dies(Dying),
    /// Nothing: a rank asks for a checkpoint of it.
    Asks(JobId),
    /// Nothing: a rank wants others to be started.
    Spawns(Spawn),
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

    /// A signal is about to end a rank of the job, which stands for a core file of it to be taken.
    pub fn dies(&self, dying: Dying) {
        (self.0)(Trouble::Dies(dying));
    }

    /// A rank asks for a checkpoint of the job.
    pub fn asks(&self, job: JobId) {
        (self.0)(Trouble::Asks(job));
    }

    /// A rank wants others to be started.
    pub fn spawns(&self, spawn: Spawn) {
        (self.0)(Trouble::Spawns(spawn));
    }

    /// Ranks of the job have waited for a while.
    pub fn waits(&self, waiting: Waiting) {
        (self.0)(Trouble::Waits(waiting));
    }
}
