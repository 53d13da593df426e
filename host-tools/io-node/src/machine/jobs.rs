//! The jobs on this pset, with their programs, streams and ranks.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::control::{Launch, Signal, ToNode};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::pset::{Member, StartJob, ToPset};
use coppice_protocol::ranks::RankRange;
use coppice_protocol::retain::Retained;
use coppice_protocol::ship::Owner;
use coppice_protocol::spawn::{Joined, Spawned};
use coppice_protocol::staging::Staging;
use coppice_protocol::text::ByteString;
use coppice_protocol::trace::Traced;
use coppice_protocol::world::World;

use super::broadcasts::Broadcasts;
use super::calls::Turns;
use super::effect::PlaceId;
use super::input::Input;
use super::output::Output;
use super::overlays::Orders;
use super::ranks::{RankState, Ranks};
use crate::limits::SIGNALS_KEPT_MAX;

/// A job, from its start until the service node has heard of all its ranks.
#[derive(Debug)]
pub(super) struct Job {
    spec: StartJob,
    /// What it has outside.
    pub place: PlaceId,
    /// While its root and program are being opened: what came for it, in order. Input is bounded by its window.
    pub later: Option<Vec<ToPset>>,
    /// The ranks on this pset.
    pub ranks: Ranks,
    /// Its output.
    pub output: Output,
    /// Its input.
    pub input: Input,
    /// Its calls that may wait for the disk.
    pub turns: Turns,
    /// Its nodes were told of it.
    pub is_launched: bool,
    /// It was killed.
    pub is_killed: bool,
    signals: Signals,
    /// Which of its ranks are traced, if that was said since it was started.
    traced: Option<Traced>,
    /// Nodes that it goes on without, and the ranks that were lost with each.
    lost: BTreeMap<NodeId, Vec<Rank>>,
    /// Nodes that have come to its network since it was started, in order.
    joined: Vec<Joined>,
    /// What came last of what each of its ranks wanted to be started.
    spawned: BTreeMap<Rank, Spawned>,
    /// How many checkpoints of it were made, if that was said.
    checkpointed: Option<u64>,
    /// Barriers that ranks were said to wait in or have left.
    waited: u64,
    /// What its nodes were told of its overlay.
    pub overlay: Orders,
    /// Files that its nodes read.
    pub broadcasts: Broadcasts,
}

/// The signals that a job was sent.
#[derive(Debug, Default)]
struct Signals {
    /// How many there were.
    count: u32,
    /// The last of them.
    kept: VecDeque<Signal>,
}

impl Job {
    /// A job whose root and program are being opened.
    pub(super) fn new(spec: StartJob, place: PlaceId) -> Self {
        Self {
            ranks: Ranks::new(spec.job, &spec.members),
            spec,
            place,
            later: Some(Vec::new()),
            output: Output::default(),
            input: Input::default(),
            turns: Turns::default(),
            is_launched: false,
            is_killed: false,
            signals: Signals::default(),
            traced: None,
            lost: BTreeMap::new(),
            joined: Vec::new(),
            spawned: BTreeMap::new(),
            checkpointed: None,
            waited: 0,
            overlay: Orders::default(),
            broadcasts: Broadcasts::default(),
        }
    }

    /// Its number.
    pub(super) fn id(&self) -> JobId {
        self.spec.job
    }

    /// The directory of the host that is its root.
    pub(super) fn root(&self) -> &ByteString {
        &self.spec.root
    }

    /// What its ranks read and look up is kept for jobs that come, as far as anything of that may be kept.
    pub(super) fn keeps_files(&self) -> bool {
        self.spec.keeps_files && self.spec.leases
    }

    /// The rank that reads the job's standard input, if it is on this pset.
    pub(super) fn input_rank(&self) -> Option<&RankState> {
        self.spec.input_rank.and_then(|rank| self.ranks.get(rank))
    }

    /// Does that rank read the job's standard input?
    pub(super) fn reads_input(&self, rank: Rank) -> bool {
        self.spec.input_rank == Some(rank)
    }

    /// Whether its nodes may have leases of files.
    pub(super) fn has_leases(&self) -> bool {
        self.spec.leases
    }

    /// Over what files that its nodes read are broadcast, if they are.
    pub(super) fn broadcasts_over(&self) -> Option<&Staging> {
        self.spec.broadcasts.as_deref()
    }

    /// Where its ranks are.
    pub(super) fn world(&self) -> &World {
        &self.spec.world
    }

    /// Whether all of its ranks are on this pset.
    pub(super) fn is_all_here(&self) -> bool {
        self.ranks.count() >= self.spec.size as usize
    }

    /// Whether it has ranks on a node, ended or not.
    pub(super) fn is_on(&self, node: NodeId) -> bool {
        self.ranks.on(node).is_some()
    }

    /// The nodes on this pset that keep something of it for others, when it is on several.
    pub(super) fn nodes_that_share(&self) -> Vec<NodeId> {
        if self.spec.world.node_count() == 1 {
            return Vec::new();
        }
        self.ranks.nodes().collect()
    }

    /// Whether it was not said before that ranks wait in this barrier or a later one.
    pub(super) fn is_new_wait(&mut self, barrier: u64) -> bool {
        let is_new = barrier >= self.waited;
        self.waited = self.waited.max(barrier.saturating_add(1));
        is_new
    }

    /// Numbers a signal that it is sent. At [`SIGNALS_KEPT_MAX`] the oldest is forgotten.
    pub(super) fn add_signal(&mut self, signal: u8) -> Signal {
        let id = self.id();
        let signals = &mut self.signals;
        signals.count = signals.count.saturating_add(1);
        let signal = Signal { job: id, sequence: signals.count, signal };
        if signals.kept.len() >= SIGNALS_KEPT_MAX {
            signals.kept.pop_front();
        }
        signals.kept.push_back(signal);
        signal
    }

    /// It goes on without a node and these ranks.
    pub(super) fn goes_on_without(&mut self, node: NodeId, ranks: Vec<Rank>) {
        self.lost.insert(node, ranks);
    }

    /// Nodes that it goes on without, and the ranks that were lost with each.
    pub(super) fn lost(&self) -> impl Iterator<Item = (NodeId, &Vec<Rank>)> {
        self.lost.iter().map(|(node, ranks)| (*node, ranks))
    }

    /// Nodes have come to its network.
    pub(super) fn joined(&mut self, joined: Joined) {
        self.joined.push(joined);
    }

    /// This came of what a rank wanted to be started.
    pub(super) fn spawned(&mut self, spawned: Spawned) {
        self.spawned.insert(spawned.rank, spawned);
    }

    /// What a node of it is told of ranks that others have started, in order.
    pub(super) fn of_spawns(&self, node: NodeId) -> impl Iterator<Item = ToNode> {
        let is_there = move |rank: Rank| self.ranks.get(rank).is_some_and(|rank| rank.node == node);
        let spawned = self.spawned.values().filter(move |spawned| is_there(spawned.rank));
        let joined = self.joined.iter().cloned().map(ToNode::Joined);
        joined.chain(spawned.cloned().map(ToNode::Spawned))
    }

    /// So many checkpoints of it were made.
    pub(super) fn has_checkpoints(&mut self, made: u64) {
        self.checkpointed = Some(made);
    }

    /// How many checkpoints of it were made, if its nodes were told.
    pub(super) fn checkpointed(&self) -> Option<u64> {
        self.checkpointed
    }

    /// These of its ranks are traced from now on.
    pub(super) fn trace(&mut self, traced: Traced) {
        self.traced = Some(traced);
    }

    /// Which of its ranks are traced, if its nodes were told otherwise than when they were to launch them.
    pub(super) fn traced(&self) -> Option<Traced> {
        self.traced
    }

    /// The signals that it was sent, as far as they are remembered.
    pub(super) fn signals(&self) -> Vec<Signal> {
        self.signals.kept.iter().copied().collect()
    }

    /// The program's hash.
    pub(super) fn program_id(&self) -> ProgramId {
        self.spec.program
    }

    /// What a node needs to launch ranks that follow each other, and whether it is known what they look up.
    pub(super) fn launch(&self, member: &Member, range: RankRange, has_manifest: bool) -> Launch {
        let spec = &self.spec;
        let restore = member.restore.as_ref().map(|restore| {
            let from = range.first.0.saturating_sub(member.first.0);
            // As many as a node may have.
            restore.part(from as usize, range.count as usize)
        });
        Launch {
            job: spec.job,
            first: range.first,
            count: range.count,
            size: spec.size,
            program: spec.program,
            program_bytes: spec.program_bytes,
            path: spec.path.clone(),
            executable: spec.executable.clone(),
            arguments: spec.arguments.clone(),
            environment: spec.environment.clone(),
            directory: spec.directory.clone(),
            user: spec.user,
            group: spec.group,
            umask: spec.umask,
            use_retained: member.use_retained,
            keeps_files: self.keeps_files(),
            has_manifest,
            world: spec.world.clone(),
            staging: spec.staging.as_deref().cloned(),
            traced: self.traced.unwrap_or(spec.traced),
            core_file: spec.core_file,
            outlives_ranks: spec.outlives_ranks,
            universe: spec.universe,
            origin: spec.origin.clone(),
            restore,
        }
    }
}

/// All jobs on this pset.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    table: BTreeMap<JobId, Job>,
}

impl Jobs {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.table.len()
    }

    /// Adds one.
    pub(super) fn insert(&mut self, job: Job) {
        self.table.insert(job.id(), job);
    }

    /// One of them.
    pub(super) fn get(&self, job: JobId) -> Option<&Job> {
        self.table.get(&job)
    }

    /// One of them.
    pub(super) fn get_mut(&mut self, job: JobId) -> Option<&mut Job> {
        self.table.get_mut(&job)
    }

    /// The one that has this place.
    pub(super) fn at(&mut self, job: JobId, place: PlaceId) -> Option<&mut Job> {
        self.table.get_mut(&job).filter(|job| job.place == place)
    }

    /// Forgets one.
    pub(super) fn remove(&mut self, job: JobId) -> Option<Job> {
        self.table.remove(&job)
    }

    /// Those with ranks on `node` that have not ended.
    pub(super) fn live_on(&self, node: NodeId) -> Vec<JobId> {
        self.table.values().filter(|job| job.ranks.are_live_on(node)).map(Job::id).collect()
    }

    /// Was `node` told to retain what that answer is about?
    pub(super) fn was_told_to_retain(&self, node: NodeId, answer: &Retained) -> bool {
        let job = self.table.get(&answer.job).filter(|job| job.program_id() == answer.program);
        job.and_then(|job| job.ranks.on(node)).is_some_and(|member| member.use_retained)
    }

    /// A rank by its owner, if it runs on `node`: no node speaks for another's ranks. Nor is there any as long as its
    /// job is being opened.
    pub(super) fn rank_on(&mut self, node: NodeId, owner: Owner) -> Option<(&mut Job, Rank)> {
        let job = self.table.get_mut(&owner.job).filter(|job| job.later.is_none())?;
        job.ranks.get(owner.rank).filter(|rank| rank.node == node)?;
        Some((job, owner.rank))
    }
}
