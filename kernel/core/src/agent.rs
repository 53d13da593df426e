//! The control agent: connects to the I/O node, says that the node is ready, does what it is told, and reports.
//!
//! What it knows survives its connection: a report is sent again on the next one until the peer's stack has
//! acknowledged it, and orders may be repeated without harm. So the I/O node may come and go.

mod conversation;
mod jobs;
mod keeps;
mod ledger;
mod outbox;
mod reports;
mod retain;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::broadcast::Broadcast;
use coppice_protocol::control::{MemoryStatus, NodeStatus, Order, OverlayOrder, RankReport};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::inspect::{Answer, Inspect};
use coppice_protocol::keep::{Keep, KeepOutcome};
use coppice_protocol::overlay;
use coppice_protocol::retain::{RetainedProgram, WalkCounts};
use coppice_protocol::session::Channel;
use coppice_protocol::spawn::{Joined, Spawned};
use coppice_protocol::trace::Traced;

pub use self::outbox::{Failures, Started, Trouble};

use self::conversation::Conversation;
use self::jobs::Jobs;
use self::outbox::Outbox;
use crate::executor::{self, WaitQueue};
use crate::net::{Backoff, BoxFuture, Credentials, Dial, Link};
use crate::ras::RasQueue;
use crate::ship::{Client, Ship};

/// What runs processes.
pub trait Processes: Send + Sync {
    /// Starts a process and runs it to its end; everything it had is gone when the future is done. Tells `started`
    /// right before the process's first instruction.
    fn launch(&self, order: Order, client: Client, started: Started) -> BoxFuture<'static, RankReport>;

    /// Cuts the node back to one program's pages. `None`, and nothing changes, if it holds none of that program.
    fn retain(&self, program: ProgramId) -> Option<WalkCounts>;

    /// Gives the pages of one program, or a kept file, back, or all, and says what that was. Their memory is free when
    /// [`Processes::freed`] is done.
    fn discard(&self, program: Option<ProgramId>) -> Vec<RetainedProgram>;

    /// Has a file come to be kept, and helps others to it until none needs that. `tell` is called once, when all of
    /// it is there, or will not be. If the future is dropped, what is not all there goes.
    fn keep(&self, order: Keep, tell: Box<dyn FnOnce(KeepOutcome) + Send>) -> BoxFuture<'static, ()>;

    /// Waits until the memory is free of what nobody needs any more.
    fn freed(&self) -> BoxFuture<'static, ()>;

    /// What the node holds of programs that ran on it, the last one first, and the files that it keeps.
    fn held(&self) -> Vec<RetainedProgram>;

    /// Sends the processes of `job` a signal, wherever they are between launch and end. `SIGKILL` ends them.
    fn kill(&self, job: JobId, signal: u8);

    /// Answers a question about a rank, soon.
    fn inspect(&self, inspect: Inspect) -> BoxFuture<'static, Answer>;

    /// Has what these ranks of `job` do printed from now on, and what the others do not.
    fn trace(&self, job: JobId, traced: Traced);

    /// So many checkpoints of `job` were made since it began, and none is made that a rank of it has asked for.
    fn checkpointed(&self, job: JobId, made: u64);

    /// A node of `job` is gone, and these ranks with it; the job goes on.
    fn node_lost(&self, job: JobId, node: NodeId, ranks: &[Rank]);

    /// A file that ranks of a job read is broadcast: takes part if it can.
    fn broadcast(&self, order: Broadcast);

    /// Nodes have come to the network of a job. How many nodes it has now that are known here.
    fn joined(&self, joined: Joined) -> u32;

    /// This came of what a rank wanted to be started.
    fn spawned(&self, spawned: Spawned);

    /// The front end of a job's overlay says something. What it is to hear is said by `say`.
    fn overlay(&self, order: OverlayOrder, say: Arc<dyn Fn(overlay::Up) + Send + Sync>);

    /// No rank of `job` runs on any node: gives up what is kept of it for ranks elsewhere. Nothing of that is left when
    /// the future is done.
    fn forget(&self, job: JobId) -> BoxFuture<'static, ()>;
}

/// What an agent needs to know of its node.
pub struct Node<P, M, O> {
    /// What proves who the node is.
    pub credentials: Credentials,
    /// Where processes get their files from.
    pub ship: Ship,
    /// Events to be sent.
    pub ras: &'static RasQueue,
    /// How much memory there is, now.
    pub memory: M,
    /// Leaves the machine.
    pub power_off: O,
    /// What runs processes.
    pub processes: P,
}

/// Runs the agent. Never done, unless the machine is left.
pub async fn run<P: Processes + 'static, M: Fn() -> MemoryStatus, O: Fn()>(dial: impl Dial, node: Node<P, M, O>) {
    let Node { credentials, ship, ras, memory, power_off, processes } = node;
    let outbox = Arc::new(Outbox::new());
    let mut jobs = Jobs::new(processes, ship.clone(), Arc::clone(&outbox), ras, credentials.identity.generation);
    let mut boot_times = None;
    let mut backoff = Backoff::new();
    // Nobody waits for room on the control link: its queue is never long.
    let drained = Arc::new(WaitQueue::new());
    loop {
        let error = match Link::establish(&dial, Channel::Control, &credentials, &drained).await {
            Ok(link) => {
                backoff.reset();
                let link = Arc::new(link);
                // Ready is said at every connection; how long the boot took does not change.
                let (boot_ns, boot_idle_ns) =
                    *boot_times.get_or_insert_with(|| (executor::now_ns(), executor::idle_ns()));
                let status = NodeStatus {
                    kernel: env!("CARGO_PKG_VERSION").to_string(),
                    boot_ns,
                    boot_idle_ns,
                    cores: u32::try_from(executor::cores()).unwrap_or(u32::MAX),
                    memory: memory(),
                };
                let conversation =
                    Conversation { link: &link, outbox: &outbox, ras, memory: &memory, power_off: &power_off };
                let error = conversation.hold(status, &mut jobs).await;
                outbox.connection_lost();
                ship.disconnect();
                error
            }
            Err(error) => error,
        };
        log::warn!("agent: {error}");
        backoff.pause().await;
    }
}
