//! A node's part of a job: its ranks, what it knows of the job's keys and values, and its way through the barriers.
//!
//! A rank's words come through a [`super::Conversation`], other nodes' frames through [`Server::handle_frame`]. What
//! the owner has to do about it comes out of [`Server::poll_event`]; frames for other nodes out of
//! [`Server::poll_transmit`].

mod attributes;
mod barriers;
mod events;
mod keys;
mod losses;
mod naming;
mod pmix;
mod queries;
mod spawns;
mod watch;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use self::losses::Lost;
use self::spawns::Spawns;
use super::attributes::Attributes;
use super::failure::{Departure, Failure};
use super::frame::{Keys, PeerError, PeerFrame, PeerFrameKind};
use super::modex::Modex;
use super::names::Names;
use super::placement::{NodeRanks, Placement};
use super::record::{BadRecord, LocalRecord, ServerRecord};
use super::space::{OutOfMemory, Space};
use super::spread::{Completed, Spread};
use super::watch::Watch;
use crate::control::Exit;
use crate::ids::{JobId, NodeId, Rank};
use crate::limits::PMI_TELL_NS;
use crate::pmix::{Desk, DeskRecord, Ending, Program};
use crate::spawn::Wanted;

/// What the owner of a server has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something has come for which a rank waits, or may have: [`super::Conversation::poll`].
    Released(Rank),
    /// A rank ends the job. As with [`Event::Failed`], nobody is released after it, and only one of them comes, once.
    Abort {
        /// The rank.
        rank: Rank,
        /// Its exit code.
        code: i32,
        /// What it says about it, maybe nothing; at most [`crate::limits::PMI_MESSAGE_BYTES_MAX`] bytes, and a remark.
        message: String,
    },
    /// A rank wants others to be started: whoever does that is to be told, and the answer comes by
    /// [`Server::spawned`].
    Spawn {
        /// The rank.
        rank: Rank,
        /// The number of its wish.
        number: u64,
        /// What is to run.
        wanted: Wanted,
    },
    /// The job cannot go on.
    Failed(Failure),
    /// Ranks here have waited in a barrier for [`PMI_TELL_NS`]: whoever knows of a rank that ended before it, anywhere,
    /// is to say so. Comes once for a barrier.
    Waits {
        /// Its number, from 0.
        barrier: u64,
    },
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// It does something else.
    Outside,
    /// It waits in a barrier.
    InBarrier,
    /// It may leave the barrier and has not been told.
    Released,
}

/// How a rank waits in a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Patience {
    /// It stops waiting if others do not come in time: it is not stuck if they never do.
    pub(crate) has_deadline: bool,
    /// It can be told that others do not come.
    pub(crate) hears_of_loss: bool,
}

/// A rank of this node.
#[derive(Debug)]
struct Local {
    rank: Rank,
    phase: Phase,
    /// It has said something.
    has_spoken: bool,
    /// A conversation has its ear.
    is_heard: bool,
    /// It waits for what other ranks of the node say.
    awaits: bool,
    /// How it waits in its barrier.
    patience: Patience,
    departure: Option<Departure>,
    /// How its process has ended.
    ended: Option<Exit>,
    /// It wanted others to be started in a way in which none are.
    was_refused_spawn: bool,
}

/// A node's part of a job.
#[derive(Debug)]
pub struct Server {
    placement: Placement,
    here: NodeRanks,
    space_name: String,
    mapping: Option<String>,
    space: Space,
    /// How the job's ranks come to know each other's keys.
    modex: Modex,
    /// What its ranks say to each other.
    attributes: Attributes,
    /// What PMIx clients have put and wait for.
    pmix: Desk,
    /// What ranks of the job are to find under names.
    names: Names,
    spread: Spread,
    ranks: Vec<Local>,
    events: VecDeque<Event>,
    /// The job ends, and why was said.
    has_failed: bool,
    /// Its ranks are being ended on purpose.
    is_ending: bool,
    /// What its ranks run.
    program: Program,
    /// When it is to be said that ranks wait in the next barrier, ns. `None`: none does, or it was said.
    tell_ns: Option<u64>,
    /// The job goes on when a rank ends that has not finalized.
    outlives_ranks: bool,
    /// One that has: there is no barrier of all ranks any more.
    lost: Option<Lost>,
    /// What ranks want to be started, and whether one has started them.
    spawns: Spawns,
    /// Which nodes are there.
    watch: Watch,
}

/// What is said of a rank that ends its job when it was refused that.
const REFUSED_SPAWN: &str = " (it wanted to spawn ranks by PMIx_Spawn, which is not supported)";

/// What a job is called among PMI's.
pub(super) fn space_name(job: JobId) -> String {
    format!("k{job}")
}

impl Server {
    /// For the ranks of `job` on `node`. `job_key` is the job's own and its nodes' secret.
    ///
    /// `None` if none of the job's ranks are on the node.
    #[must_use]
    pub fn new(job: JobId, job_key: &[u8; 32], placement: Placement, node: NodeId) -> Option<Self> {
        let me = placement.index_of(node)?;
        let here = placement.place(me)?;
        let nodes = placement.nodes();
        let local = |rank| Local {
            rank,
            phase: Phase::Outside,
            has_spoken: false,
            is_heard: false,
            awaits: false,
            patience: Patience::default(),
            departure: None,
            ended: None,
            was_refused_spawn: false,
        };
        Some(Self {
            here,
            space_name: space_name(job),
            mapping: placement.process_mapping(),
            space: Space::new(nodes),
            modex: Modex::of(placement.size()),
            attributes: Attributes::default(),
            pmix: Desk::new(DeskRecord::default(), me, nodes),
            names: Names::new(me, &placement),
            spread: Spread::new(Keys::derive(job_key, job, nodes), me, nodes),
            ranks: here.ranks().map(local).collect(),
            placement,
            events: VecDeque::new(),
            has_failed: false,
            is_ending: false,
            program: Program::default(),
            tell_ns: None,
            outlives_ranks: false,
            lost: None,
            spawns: Spawns::default(),
            watch: Watch::new(me, nodes),
        })
    }

    /// What it is, for a checkpoint. Nothing happens to the names that it keeps until [`Self::ranks_run`].
    #[must_use]
    pub fn record(&mut self) -> ServerRecord {
        self.names.hold();
        let local = |local: &Local| LocalRecord {
            rank: local.rank,
            phase: local.phase,
            has_spoken: local.has_spoken,
            is_heard: local.is_heard,
            awaits: local.awaits,
            patience: local.patience,
            departure: local.departure,
            ended: local.ended,
        };
        ServerRecord {
            space_name: self.space_name.clone(),
            modex: self.modex,
            space: self.space.record(),
            attributes: self.attributes.record(),
            pmix: self.pmix.record(),
            names: self.names.record(),
            completed: self.spread.completed(),
            last_bytes: self.spread.last_bytes(),
            ranks: self.ranks.iter().map(local).collect(),
        }
    }

    /// Goes on from what was written down, when it has heard and said nothing yet.
    ///
    /// # Errors
    /// [`BadRecord`]: then nothing changed.
    pub fn restore(&mut self, record: ServerRecord, now_ns: u64) -> Result<(), BadRecord> {
        let me = self.spread.me();
        let is_of_it = record.is_of(self.here, me, &self.placement);
        if !is_of_it || !self.spread.begin_at(record.completed, record.last_bytes) {
            return Err(BadRecord);
        }
        self.space = Space::again(record.space, record.completed);
        (self.space_name, self.modex) = (record.space_name, record.modex);
        self.attributes = Attributes::again(record.attributes);
        self.pmix = Desk::new(record.pmix, me, self.placement.nodes());
        self.names = Names::again(me, &self.placement, record.names);
        self.go_on_with_names(now_ns);
        for (local, was) in self.ranks.iter_mut().zip(&record.ranks) {
            (local.has_spoken, local.is_heard, local.departure) = (was.has_spoken, was.is_heard, was.departure);
            (local.awaits, local.ended) = (was.awaits, was.ended);
            if was.phase == Phase::Released {
                local.phase = Phase::Released;
                self.events.push_back(Event::Released(local.rank));
            }
        }
        // What had departed before it cannot be found missing by those that enter before all are known to be there.
        for was in record.ranks.iter().filter(|was| was.phase == Phase::InBarrier) {
            self.enter(was.rank, was.patience, now_ns);
        }
        self.lose_again(now_ns);
        Ok(())
    }

    /// What frames for this job carry, to find the job by.
    #[must_use]
    pub fn signature(&self) -> u64 {
        self.spread.signature()
    }

    /// Where all ranks are.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// What the owner has to do next. At most two things for each rank, one for each of its answers about names, and
    /// two for the job wait here; and a wish of each for others to be started.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn local(&mut self, rank: Rank) -> Option<&mut Local> {
        self.ranks.iter_mut().find(|local| local.rank == rank)
    }

    // What conversations need.

    pub(crate) fn size(&self) -> u32 {
        self.placement.size()
    }

    /// The job's name among PMI's.
    #[must_use]
    pub fn space_name(&self) -> &str {
        &self.space_name
    }

    pub(crate) fn mapping(&self) -> Option<&str> {
        self.mapping.as_deref()
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Gives a rank's ear to a conversation; false if it is not a rank of this node or another conversation has it.
    pub(crate) fn attach(&mut self, rank: Rank) -> bool {
        let Some(local) = self.local(rank).filter(|local| !local.is_heard && local.departure.is_none()) else {
            return false;
        };
        local.is_heard = true;
        local.has_spoken = true;
        true
    }

    pub(crate) fn finalize(&mut self, rank: Rank, now_ns: u64) {
        self.depart(rank, Departure::Finalized, now_ns);
    }

    pub(crate) fn abort(&mut self, rank: Rank, code: i32, mut message: String, now_ns: u64) {
        if !self.has_failed {
            // What MPI says of it is the least of what its user wants to know.
            if self.local(rank).is_some_and(|local| local.was_refused_spawn) {
                message.push_str(REFUSED_SPAWN);
            }
            self.tell_of_end(rank, Ending::Abort(code), now_ns);
            self.has_failed = true;
            self.watch.retire();
            self.events.push_back(Event::Abort { rank, code, message });
        }
    }

    // What happens to the job.

    /// A rank's descriptor for PMI is closed at its end, while its process may live on.
    pub fn rank_closed(&mut self, rank: Rank, now_ns: u64) {
        self.depart(rank, Departure::Closed, now_ns);
    }

    /// A rank's process is gone.
    pub fn rank_ended(&mut self, rank: Rank, exit: Exit, now_ns: u64) {
        self.rank_ends(rank, exit, now_ns);
        self.depart(rank, Departure::Ended(exit), now_ns);
    }

    fn depart(&mut self, rank: Rank, how: Departure, now_ns: u64) {
        let node = self.here.node;
        let Some(local) = self.local(rank) else { return };
        // How it ended says more than that it closed something.
        if !matches!(local.departure, None | Some(Departure::Closed)) {
            return;
        }
        local.departure = Some(how);
        let (was_waiting, is_unfinished) = (local.phase == Phase::InBarrier, local.has_spoken);
        self.wake_who_await();
        self.card_ends(rank, now_ns);
        self.names.forget(rank);
        self.forget_spawns(rank);
        match how {
            Departure::Ended(exit) if self.outlives_end(exit) || self.outlives_ranks && is_unfinished => {
                self.lose(Lost { rank, node, how });
            }
            Departure::Ended(_) if was_waiting => self.fail(Failure::InBarrier { rank, node, how }),
            Departure::Ended(_) if is_unfinished => self.fail(Failure::NotFinalized { rank, node, how }),
            _ => self.go_on(now_ns),
        }
    }

    fn fail(&mut self, failure: Failure) {
        if !self.has_failed {
            self.has_failed = true;
            self.watch.retire();
            self.events.push_back(Event::Failed(failure));
        }
    }

    // Other nodes. They are named by their index in the placement.

    /// The nodes that this one talks to.
    #[must_use]
    pub fn peers(&self) -> Vec<u32> {
        self.spread.peers().into_iter().collect()
    }

    /// Takes a frame that came on a connection from another node.
    ///
    /// # Errors
    /// [`PeerError`]: nothing of it was taken; the connection is of no more use.
    pub fn handle_frame(&mut self, frame: &PeerFrame, now_ns: u64) -> Result<(), PeerError> {
        match frame.kind() {
            PeerFrameKind::Letter => self.handle_letter(frame, now_ns)?,
            PeerFrameKind::Parcel => self.handle_parcel(frame, now_ns)?,
            kind if kind.is_of_watch() => self.handle_word(frame, now_ns)?,
            _ => {
                self.spread.handle_frame(frame, now_ns)?;
                self.go_on(now_ns);
            }
        }
        self.watch.hear(frame.from(), frame.is_absence(), now_ns);
        Ok(())
    }

    /// Whether there is something to send to a node: connect to it.
    #[must_use]
    pub fn has_output(&self, peer: u32) -> bool {
        let of_ranks = self.names.has_output(peer) || self.pmix.exchange.has_output(peer);
        of_ranks || self.spread.has_output(peer) || self.watch.has_output(peer)
    }

    /// The bytes of the next frame for a node.
    pub fn poll_transmit(&mut self, peer: u32) -> Option<Vec<u8>> {
        if let Some(frame) = self.next_word(peer).or_else(|| self.spread.poll_transmit(peer)) {
            return Some(frame);
        }
        let letter = self.names.poll_transmit(peer).map(|it| (PeerFrameKind::Letter, it));
        let (kind, (hop, body)) =
            letter.or_else(|| self.pmix.exchange.poll_transmit(peer).map(|it| (PeerFrameKind::Parcel, it)))?;
        Some(self.spread.seal(kind, hop, &body))
    }

    /// The connection to a node broke, and what was sent on it may be lost.
    pub fn disconnected(&mut self, peer: u32) {
        self.spread.reconnected(peer);
        self.watch.reconnected(peer);
    }

    /// Whether other nodes have heard all that they were told, and nothing is on its way.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.spread.is_settled() && self.pmix.is_settled()
    }

    /// Steps of barriers that are kept: others' until they are wanted, this node's until they have come. Both are of
    /// two barriers at most, so of `n` nodes there are at most four times `⌈log₂ n⌉`, in a ring `n − 1`.
    #[must_use]
    pub fn kept_steps(&self) -> usize {
        self.spread.kept_steps()
    }

    /// What all this takes of the node's memory, about, bytes: it grows with what ranks put, here and elsewhere.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let of_ranks = self.space.memory_bytes() + self.attributes.memory_bytes() + self.names.memory_bytes();
        of_ranks
            + self.pmix.memory_bytes()
            + self.spread.memory_bytes()
            + self.spawns.memory_bytes()
            + self.watch.memory_bytes()
    }

    /// The node has no memory for that: the job fails.
    pub fn out_of_memory(&mut self) {
        let (rank, node) = (self.here.first, self.here.node);
        self.fail(Failure::OutOfMemory { rank, node });
    }

    /// Barriers that are through.
    #[must_use]
    pub fn barriers(&self) -> u64 {
        self.spread.completed()
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let of_barrier = [self.tell_ns, self.spread.poll_timeout()].map(|at_ns| at_ns.filter(|_| self.lost.is_none()));
        let timeouts = of_barrier.into_iter().chain([self.names.poll_timeout(), self.pmix.poll_timeout()]);
        let of_ranks = timeouts.flatten().min().filter(|_| !self.has_failed);
        of_ranks.into_iter().chain(self.watch.poll_timeout()).min()
    }

    /// Says what time it is.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if self.poll_timeout().is_none_or(|at_ns| now_ns < at_ns) {
            return;
        }
        self.watch.handle_timeout(now_ns);
        self.hear_of_deaths(now_ns);
        if self.has_failed {
            return;
        }
        if self.lost.is_none() && self.tell_ns.take_if(|tell_ns| *tell_ns <= now_ns).is_some() {
            self.events.push_back(Event::Waits { barrier: self.barriers() });
        }
        self.names.handle_timeout(now_ns);
        self.go_on_with_names(now_ns);
        self.go_on_with_cards(now_ns);
        if self.lost.is_some() {
            return;
        }
        if let Some(silent) = self.spread.handle_timeout(now_ns).and_then(|index| self.placement.place(index)) {
            let (rank, node) = (self.here.first, self.here.node);
            self.fail(Failure::Silent { rank, node, silent: silent.node });
        }
    }
}
