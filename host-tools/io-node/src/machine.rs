//! What the I/O node decides: a state machine. Orders of the service node, bytes of nodes, completions of its host and
//! the time go in; bytes, messages and [`Effect`]s come out. It does nothing else: it has no disk, no clock, no task,
//! and nothing of it is hidden in a future. The shell around it ([`crate::shell`]) moves the bytes and carries the
//! effects out; a simulated world can do the same.
//!
//! - `lines` has the connections, from their handshake to their end; `nodes` which boot of each node may have them.
//! - `keeps` has the files that nodes are to keep, `broadcasts` those that many read and that are sent for that.
//! - `regions` has what is to be done with nodes' regions.
//! - `jobs` and `ranks` have the jobs, `start` how they come to be, `orders` what the service node wants of them.
//! - `control` hears what nodes say of themselves and their ranks, `ship` their system calls; a call that is under way
//!   is a record (`calls`). `leases` has what nodes may know of files without asking, `names` what they may of names,
//!   `locks` who has locked which.
//! - `outbox` has what the service node is to be told, `timers` what is due when.

mod broadcasts;
mod calls;
mod control;
mod effect;
mod ending;
mod input;
mod jobs;
mod keeps;
mod leases;
mod lines;
mod locks;
mod manifests;
mod names;
mod nodes;
mod orders;
mod outbox;
mod output;
mod overlays;
mod peers;
mod ranks;
mod regions;
mod remains;
mod ship;
mod start;
#[cfg(test)]
mod tests;
mod timers;
mod transfers;

use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::retain::Discard;
use coppice_protocol::session::Identity;

pub use self::broadcasts::{TakeFile, TakenFile};
pub use self::calls::CallId;
pub(crate) use self::calls::failed;
pub use self::effect::{Answer, Disconnected, Effect, PlaceId};
pub use self::lines::LineId;
pub use self::manifests::ToCheck;
pub use self::regions::{RegionAnswer, RegionOrder, RegionWork};
pub use self::remains::Remains;

use self::calls::Calls;
use self::effect::Effects;
use self::ending::{Closing, Stopping};
use self::jobs::Jobs;
use self::keeps::Keeps;
use self::leases::FileLeases;
use self::lines::Lines;
use self::locks::FileLocks;
use self::manifests::Manifests;
use self::names::NameLeases;
use self::nodes::Nodes;
use self::outbox::Outbox;
use self::peers::BadPeers;
use self::regions::Regions;
use self::start::Places;
use self::timers::{Timer, Timers};

/// The time as the machine is told it.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For deadlines: ns of a clock that only goes forward.
    pub ns: u64,
    /// For nodes: ns since 1970.
    pub realtime_ns: u64,
}

/// An order that makes no sense: the service node is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// It said who this I/O node is once more.
    #[error("the service node configured this I/O node twice")]
    ConfiguredTwice,
}

/// The I/O node of a pset.
#[derive(Debug, Default)]
pub struct Machine {
    lines: Lines,
    nodes: Nodes,
    jobs: Jobs,
    keeps: Keeps,
    regions: Regions,
    places: Places,
    calls: Calls,
    leases: FileLeases,
    locks: FileLocks,
    names: NameLeases,
    /// What programs look up.
    manifests: Manifests,
    closing: Closing,
    bad_peers: BadPeers,
    outbox: Outbox,
    effects: Effects,
    timers: Timers,
    stopping: Option<Stopping>,
}

impl Machine {
    /// Says that nodes may connect from now on.
    pub fn begin(&mut self) {
        self.outbox.push(FromPset::Listening);
    }

    /// Does what the service node orders. Not to be called while [`Machine::is_full`].
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn order(&mut self, order: ToPset, now: Now) -> Result<(), OrderError> {
        match order {
            ToPset::Configure { .. } => return Err(OrderError::ConfiguredTwice),
            ToPset::AddNode { node, generation, key } => {
                self.end_ranks_on(node, now);
                let earlier = self.nodes.add(Identity { node, generation }, key);
                self.cut(earlier, now);
            }
            ToPset::RemoveNode { node } => {
                self.end_ranks_on(node, now);
                let earlier = self.nodes.remove(node);
                self.cut(earlier, now);
            }
            ToPset::Start(spec) => self.start(spec, now),
            ToPset::Discard { request, program, nodes } => {
                self.manifests.forget(program);
                self.discard(Discard { request, program }, &nodes);
            }
            ToPset::Inspect { node, inspect } => self.inspect(node, inspect),
            ToPset::Keep(order) => self.keep(order),
            ToPset::EndKeep { request } => self.end_keep(request),
            ToPset::Shutdown => self.stop(now),
            ToPset::Pull { request, node, from } => {
                self.order_region(RegionOrder { request, node, work: RegionWork::Pull(from) });
            }
            ToPset::Wipe { request, node, job, but } => {
                self.order_region(RegionOrder { request, node, work: RegionWork::Wipe { job, but } });
            }
            ToPset::Ask => self.outbox.push(FromPset::Alive),
            ToPset::Kill { .. }
            | ToPset::Signal { .. }
            | ToPset::Trace { .. }
            | ToPset::Checkpointed { .. }
            | ToPset::NodeLost { .. }
            | ToPset::Joined(_)
            | ToPset::Spawned(_)
            | ToPset::Overlay { .. }
            | ToPset::Forget { .. }
            | ToPset::Input { .. }
            | ToPset::OutputTaken { .. } => self.order_for_job(order, now),
        }
        Ok(())
    }

    /// The next thing to be done outside, in order.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.next()
    }

    /// The next message for the service node, in order. What was not heard because there were too many is heard now.
    pub fn next_message(&mut self, now: Now) -> Option<FromPset> {
        let was_full = self.is_full();
        let message = self.outbox.next();
        if was_full && !self.is_full() {
            self.go_on(now);
        }
        message
    }

    /// Whether there are messages for the service node.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether so much waits for the service node that nobody is heard until it has taken some.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// When to call [`Machine::advance`] at the latest, ns.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.timers.next()
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Now) {
        while let Some(timer) = self.timers.take(now.ns) {
            match timer {
                Timer::Handshake(line) => self.handshake_is_late(line, now),
                Timer::Heartbeat(line) => self.heartbeat(line, now),
                Timer::Return(loss) => self.look_for_return(loss, now),
                Timer::Opening(place) => self.opening_is_late(place),
                Timer::Closing(place, rank) => self.closed(place, rank, now),
                Timer::Held(place, file) => self.held_is_late(place, file, now),
                Timer::Recall(call, file) => self.recall_is_late(call, file, now),
                Timer::RecallNames(call) => self.recall_of_names_is_late(call, now),
                Timer::Look => self.look_at_leased(now),
                Timer::LockTurn => self.lock_turn_is_over(now),
                Timer::Stop => self.stopped(),
            }
        }
    }
}
