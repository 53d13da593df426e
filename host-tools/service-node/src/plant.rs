//! The processes a cluster consists of, as the controller sees them: orders go in, events come out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use coppice_api::checkpoint::{CheckpointCost, CheckpointName};
use coppice_api::job::Submission;
use coppice_api::link::{Direction, LinkCounters, LinkShape, LinkShapes, RecordingCounters, Station};
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::spawn::Spawn;
use coppice_protocol::world::JobKey;
use coppice_qemu::machine::Accelerator;
use tokio::sync::oneshot;

use crate::controller::Newest;
use crate::output::{OutputEvent, OutputOrder};
use crate::profiles::ProfileOrder;
use crate::store::{Found, Held, Source};

/// Largest IP packet on the cluster's network, bytes.
pub const MTU: u16 = 9000;

/// How many starts a helper process has had: events of an earlier one are recognised by it and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub u32);

impl Incarnation {
    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// Fresh secrets for one boot of a node.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Shared by the node and its I/O node.
    pub key: NodeKey,
    /// Seed of the node's random numbers.
    pub seed: [u8; 32],
}

/// What the controller can have done. Every order returns at once; what comes of it comes as a [`PlantEvent`].
pub trait Plant {
    /// Finds out how nodes are executed → [`PlantEvent::Accelerator`].
    fn find_accelerator(&mut self);

    /// Starts the fabric with a link of these shapes for every node and I/O node → [`PlantEvent::Fabric`].
    fn start_fabric(&mut self, incarnation: Incarnation, links: &BTreeMap<Station, LinkShapes>);

    /// Ends the fabric: in good order, or at once.
    fn stop_fabric(&mut self, how: Stop);

    /// Has the fabric say that it is alive → [`PlantEvent::Fabric`].
    fn ask_fabric(&mut self);

    /// Has the fabric do something with its links → for each order one [`FromFabric::Answer`] with this number. From a
    /// fabric that is gone none comes, as its end is about to be reported.
    fn tell_fabric(&mut self, request: u64, orders: &[FabricOrder]);

    /// Starts an I/O node → [`PlantEvent::Pset`].
    fn start_io_node(&mut self, pset: PsetId, incarnation: Incarnation);

    /// Kills an I/O node.
    fn kill_io_node(&mut self, pset: PsetId);

    /// Sends a message to an I/O node. To one that is gone: lost, as its end is about to be reported.
    fn tell(&mut self, pset: PsetId, message: &ToPset);

    /// Secrets from the system's generator.
    ///
    /// # Errors
    /// If the system has none, one line.
    fn secrets(&mut self) -> Result<Secrets, String>;

    /// A key for a job, from the system's generator.
    ///
    /// # Errors
    /// If the system has none, one line.
    fn job_key(&mut self) -> Result<JobKey, String>;

    /// Makes sure of the stored copy of a job's program or of a file that it has staged, from its file if need be →
    /// [`PlantEvent::Program`].
    fn check_program(&mut self, job: JobId, copy: Held, source: Source);

    /// Has the keeper of logs do something → [`PlantEvent::Output`].
    fn keep(&mut self, order: OutputOrder);

    /// Has something recorded of a job's overlay. False: too much waits to be recorded, and it is not.
    fn record_profile(&mut self, order: ProfileOrder) -> bool;

    /// Says when all of that is written which was to be recorded before.
    fn profiles_written(&mut self) -> oneshot::Receiver<()>;

    /// Has something done with checkpoints → [`PlantEvent::Checkpoint`].
    fn checkpoint(&mut self, order: CheckpointOrder);

    /// Has the program looked for that a rank wants to run → [`crate::controller::Request::Spawn`], or
    /// [`crate::controller::Request::NotSpawned`].
    fn spawn(&mut self, order: SpawnOrder);

    /// Starts a node's machine → [`PlantEvent::Machine`].
    fn boot(&mut self, personality: &Personality, accelerator: Accelerator);

    /// The node has read its personality: remove it from the host.
    fn forget_personality(&mut self, node: NodeId);

    /// Kills a node's machine.
    fn kill_machine(&mut self, node: NodeId);
}

/// What is done with checkpoints without anybody asking for it.
#[derive(Clone, Debug)]
pub enum CheckpointOrder {
    /// Make one of a job, and when it is whole delete those of the job that are too many, the oldest → one
    /// [`CheckpointEvent::Tried`].
    Make {
        /// The job.
        job: JobId,
        /// How many stay.
        keep: u32,
    },
    /// Have a new job go on from the newest checkpoint of this one, which has lost a node →
    /// [`crate::controller::Request::Restart`], or [`CheckpointEvent::NotRestarted`].
    Restart {
        /// The job.
        job: JobId,
        /// What it was submitted with.
        submission: Box<Submission>,
    },
}

/// What takes long, and is done beside everything else.
#[derive(Debug)]
pub enum Task {
    /// Something with checkpoints.
    Checkpoint(CheckpointOrder),
    /// Submitting what a rank wants.
    Spawn(SpawnOrder),
}

/// A rank wants others to be started.
#[derive(Clone, Debug)]
pub struct SpawnOrder {
    /// What it wants.
    pub spawn: Spawn,
    /// What the new job is to be submitted with, when its program is found.
    pub submission: Box<Submission>,
    /// It is that of the rank's own job.
    pub is_found: bool,
}

/// What was done with checkpoints of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointEvent {
    /// There is this one, whoever wanted it, and it cost that.
    Made(Newest, CheckpointCost),
    /// One was not made that had to do with the newest: the next one is to keep all pages.
    NoBase,
    /// This one is not there any more.
    Deleted(CheckpointName),
    /// An order to make one is carried out, well or not.
    Tried {
        /// What went wrong, one line each.
        troubles: Vec<String>,
    },
    /// Nothing goes on from a checkpoint.
    NotRestarted {
        /// Why, one line.
        reason: String,
    },
}

/// What the fabric can be told to do with its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricOrder {
    /// Make a link like this.
    Shape(Station, Direction, LinkShape),
    /// Record the frames of a link in this file.
    Record(Station, PathBuf),
    /// End the recording of a link; the answer comes when all of it is written.
    EndRecording(Station),
    /// Count what passed on all links.
    Count,
}

/// What the fabric says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromFabric {
    /// It has done all it was told before, its set-up first.
    Alive,
    /// What came of one of the orders with this number.
    Answer {
        /// The number.
        request: u64,
        /// What came of it; an error is one line.
        outcome: Result<FabricOutcome, String>,
    },
    /// A recording ended by itself.
    RecordingEnded {
        /// Whose link it is of.
        link: Station,
        /// Why, one line.
        reason: String,
    },
}

/// What came of an order that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricOutcome {
    /// It is done.
    Done,
    /// Answer to [`FabricOrder::Count`].
    Counted(LinkCounts),
}

/// What the fabric counted of its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// When, ns of a clock that only ever goes on.
    pub at_ns: u64,
    /// By link.
    pub links: BTreeMap<Station, LinkCount>,
}

/// What the fabric counted of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCount {
    /// Whether the station could be reached when last tried.
    pub up: bool,
    /// To the station.
    pub to: LinkCounters,
    /// From the station.
    pub from: LinkCounters,
    /// Frames that wait for the station to take them.
    pub queued_frames: u64,
    /// Of the recording that is being made.
    pub recording: Option<RecordingCounters>,
}

/// How to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ask it to.
    Orderly,
    /// Kill it.
    AtOnce,
}

/// What comes of orders, and what happens by itself.
#[derive(Debug)]
pub enum PlantEvent {
    /// How nodes are executed, or why they cannot be.
    Accelerator(Result<Accelerator, String>),
    /// Something about the fabric.
    Fabric {
        /// Which start of it.
        incarnation: Incarnation,
        /// What.
        event: HelperEvent<FromFabric>,
    },
    /// Something about an I/O node.
    Pset {
        /// Whose.
        pset: PsetId,
        /// Which start of it.
        incarnation: Incarnation,
        /// What.
        event: HelperEvent<FromPset>,
    },
    /// The stored copy of a job's program was looked at.
    Program {
        /// The job.
        job: JobId,
        /// What was found; or why the program cannot be run, one line.
        found: Result<Found, String>,
    },
    /// The keeper of logs did something.
    Output {
        /// The job whose log it is.
        job: JobId,
        /// What.
        event: OutputEvent,
    },
    /// Something was done with checkpoints.
    Checkpoint {
        /// The job they are of.
        job: JobId,
        /// What.
        event: CheckpointEvent,
    },
    /// Something about a node's machine.
    Machine {
        /// Whose.
        node: NodeId,
        /// Which boot.
        generation: Generation,
        /// What.
        event: MachineEvent,
    },
}

/// Something about a helper process.
#[derive(Debug)]
pub enum HelperEvent<M> {
    /// It runs with this process id.
    Started {
        /// Process id.
        pid: u32,
    },
    /// It said this.
    Said(M),
    /// It ended or could not be started; one line.
    Ended(String),
}

/// Something about a machine.
#[derive(Debug)]
pub enum MachineEvent {
    /// It runs with this process id.
    Started {
        /// Process id.
        pid: u32,
    },
    /// It ended or could not be started.
    Ended {
        /// How, one line.
        reason: String,
        /// What its console says of it.
        last_words: LastWords,
    },
}

/// What the console of a machine that ended says of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastWords {
    /// Nothing.
    None,
    /// Why the kernel panicked, one line.
    Panic(String),
    /// No panic; the end of what it printed, one line.
    Tail(String),
}
