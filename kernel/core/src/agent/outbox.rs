//! What the agent has to tell the I/O node for certain: launches, ends, and that a job cannot go on.
//!
//! Launches and ends of a job's ranks mostly come together. What is said of them goes in one message, as whoever runs
//! the job hears of every node: as long as another rank here is about to begin, or has not ended, it waits for a moment
//! ([`TOLD_TOGETHER_NS`]). What the whole job waits for, the last launch and the last end on the node, is told at once.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::{Dying, Ends, JobFailure, RankReport, ToIoNode, Waiting};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::TOLD_TOGETHER_NS;
use coppice_protocol::spawn::Spawn;

use crate::executor::{self, WaitQueue};
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
    /// Ranks that are about to begin.
    starting: usize,
    /// What waits may wait until then for more that goes with it, ns.
    together_until_ns: Option<u64>,
}

/// What is to be told next.
enum Next {
    Message(ToIoNode),
    /// More may come that goes with it, until then, ns.
    NotBefore(u64),
}

impl Queues {
    /// Adds a message that is told at once, and with it what waits. At [`CONTROL_QUEUE_MAX`] the oldest is forgotten.
    fn push(&mut self, message: ToIoNode) {
        self.wait(message);
        self.together_until_ns = None;
    }

    fn wait(&mut self, message: ToIoNode) {
        if self.waiting.len() >= CONTROL_QUEUE_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(message);
    }

    /// Something of a rank is to be told with what waits, if there is more to come.
    fn together(&mut self, is_alone: bool, there_is_more: bool) {
        if !there_is_more {
            self.together_until_ns = None;
        } else if is_alone {
            self.together_until_ns = Some(executor::now_ns().saturating_add(TOLD_TOGETHER_NS));
        }
    }

    /// A rank has begun.
    fn launched(&mut self, job: JobId, rank: Rank) {
        let is_alone = self.waiting.is_empty();
        // That it began may be told before the end of another.
        let mut last = self.waiting.iter_mut().rev();
        let last = match last.next() {
            Some(ToIoNode::Ended(_)) => last.next(),
            last => last,
        };
        let is_told = match last {
            Some(ToIoNode::Launched { job: of, ranks }) => *of == job && ranks.add(rank),
            _ => false,
        };
        if !is_told {
            self.wait(ToIoNode::Launched { job, ranks: rank.into() });
        }
        self.together(is_alone, self.starting > 0);
    }

    /// A rank has ended. `is_last`: no other of its job is here.
    fn ended(&mut self, report: RankReport, is_last: bool) {
        let is_alone = self.waiting.is_empty();
        match self.waiting.back_mut() {
            Some(ToIoNode::Ended(ends)) if ends.has_room_for(&report) => ends.reports.push(report),
            _ => self.wait(ToIoNode::Ended(Ends { held: Vec::new(), reports: Vec::from([report]) })),
        }
        self.together(is_alone, !is_last);
    }

    /// Until when what waits is to wait, if it is, ns.
    fn waits_until(&self) -> Option<u64> {
        self.together_until_ns.filter(|until_ns| *until_ns > executor::now_ns())
    }

    /// The next message, if there is one.
    fn next(&mut self) -> Option<Next> {
        if let Some(until_ns) = self.waits_until() {
            return Some(Next::NotBefore(until_ns));
        }
        self.together_until_ns = None;
        self.waiting.pop_front().map(Next::Message)
    }

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
        self.queues.lock().push(message);
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
    /// left on the stack was wiped, and may have some of it where it says nothing. `is_last`: no other rank of its job
    /// is here, of which something could be told with it.
    #[inline(never)]
    pub(super) fn ended(&self, report: &RankReport, is_last: bool) {
        self.queues.lock().ended(report.clone(), is_last);
        self.changed.wake_all();
    }

    /// A job cannot go on. Said once for a job.
    fn failed(&self, failure: JobFailure) {
        if self.queues.lock().failed.replace(failure.job) != Some(failure.job) {
            self.push(ToIoNode::Failed(failure));
        }
    }

    /// Waits for the next message to send. Cancel-safe.
    pub(super) async fn next(&self) -> ToIoNode {
        loop {
            match self.changed.wait_until(|| self.queues.lock().next()).await {
                Next::Message(message) => return message,
                Next::NotBefore(until_ns) => {
                    let nothing_more =
                        self.changed.wait_until(|| self.queues.lock().waits_until().is_none().then_some(()));
                    let _ = executor::timeout_at(until_ns, nothing_more).await;
                }
            }
        }
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
        (queues.confirmed, queues.together_until_ns) = (0, None);
        while let Some(message) = queues.unconfirmed.pop_back() {
            queues.waiting.push_front(message);
        }
    }
}

/// Told when a process's first instruction is about to run. Dropped before, it never does.
pub struct Started {
    outbox: Arc<Outbox>,
    job: JobId,
    rank: Rank,
}

impl Started {
    pub(super) fn new(outbox: &Arc<Outbox>, job: JobId, rank: Rank) -> Self {
        outbox.queues.lock().starting += 1;
        Self { outbox: Arc::clone(outbox), job, rank }
    }

    /// Of a rank about which nobody hears anything.
    #[cfg(test)]
    pub(crate) fn unheard(job: JobId, rank: Rank) -> Self {
        Self::new(&Arc::new(Outbox::new()), job, rank)
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
        let outbox = Arc::clone(&self.outbox);
        let (job, rank) = (self.job, self.rank);
        drop(self);
        outbox.queues.lock().launched(job, rank);
        outbox.changed.wake_all();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        {
            let mut queues = self.outbox.queues.lock();
            queues.starting = queues.starting.saturating_sub(1);
            if queues.starting > 0 {
                return;
            }
            // Launches may have waited for this one.
            queues.together_until_ns = None;
        }
        self.outbox.changed.wake_all();
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
