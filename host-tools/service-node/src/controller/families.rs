//! Jobs that ranks of others have started: a family is all jobs that come from one, and is in one network.
//!
//! A rank's wish comes from its node, its program is looked for off the controller's loop ([`Plant::spawn`]), and comes
//! back as a request. Then the new job gets free nodes, all nodes of the family are told where they are, and when all
//! have said that they know the job is started and the rank hears of it. One job at a time joins a family, as its nodes
//! have numbers in the network in the order in which they came; others wait for that.
//!
//! A job of a family that fails has those that it has started ended, and the one that has started it, unless that
//! outlives its ranks. One that comes to its end in good order leaves the others alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use coppice_api::cluster::ClusterState;
use coppice_api::counted;
use coppice_api::job::{EXIT_COPPICE, SpawnedBy, Submission};
use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::limits::FAMILY_RANGES_MAX;
use coppice_protocol::pset::ToPset;
use coppice_protocol::spawn::{Joined, KeyValue, Origin, Spawn, Spawned};
use coppice_protocol::text::ByteString;
use coppice_protocol::world::{Kin, NetworkTag, NodeRange, World};

use super::job::{Job, Needs};
use super::ranks::RankState;
use super::requests::{Answer, Refused, reply};
use super::{Controller, Now};
use crate::database::FileKey;
use crate::limits::{JOIN_NODES_TIME_MAX, JOIN_TIME_MAX, WISHES_MAX, WISHES_PER_JOB_MAX};
use crate::plant::{Plant, SpawnOrder};
use crate::scheduler::Start;
use crate::store::Held;

/// Families of which a job is under way, by the job that all come from.
#[derive(Debug, Default)]
pub(super) struct Families {
    all: BTreeMap<JobId, Family>,
    /// Wishes of ranks of which nothing has come yet, at most [`WISHES_MAX`].
    wishes: BTreeSet<(JobId, Rank)>,
    /// Jobs that are to end because another of their family has failed.
    condemned: Vec<Condemned>,
}

/// A job that is to end because another of its family has failed.
#[derive(Debug)]
struct Condemned {
    job: JobId,
    reason: String,
    /// That of the other.
    exit_status: u8,
}

/// See this module.
#[derive(Debug)]
struct Family {
    tag: NetworkTag,
    /// All nodes that ever came, in the network's order.
    nodes: Vec<NodeRange>,
    /// Jobs that are under way.
    members: BTreeSet<JobId>,
    joining: Option<Joining>,
    waiting: VecDeque<Waiting>,
}

/// A job that cannot join yet.
#[derive(Debug)]
struct Waiting {
    request: Box<SpawnRequest>,
    answer: Answer<JobId>,
    /// Since when. However many wait before it, it does not for longer than [`JOIN_TIME_MAX`], and for nodes that are
    /// too few for no longer than [`JOIN_NODES_TIME_MAX`].
    since: Instant,
}

/// A job whose nodes come to a family's network.
#[derive(Debug)]
struct Joining {
    job: JobId,
    /// Nodes of which jobs have not said that they know.
    awaits: BTreeSet<(JobId, NodeId)>,
    /// How many nodes there are with these.
    count: u32,
    deadline: Instant,
}

/// How a job has come to be that a rank has started.
#[derive(Debug)]
pub(super) struct Descent {
    /// The job that all of its family come from.
    root: JobId,
    parent: JobId,
    rank: Rank,
    number: u64,
    keys: Vec<KeyValue>,
    /// What was in the family's network before it.
    before: Vec<NodeRange>,
    /// The rank was told what came of its wish.
    is_told: bool,
}

/// A job that is to be taken because a rank wants it.
#[derive(Debug)]
pub struct SpawnRequest {
    /// What the rank wants.
    pub spawn: Spawn,
    /// The same as a submission.
    pub submission: Submission,
    /// Its program.
    pub program: Held,
    /// The file that is in.
    pub file: FileKey,
}

/// The nodes of a job, in its order.
fn ranges_of(job: &Job) -> Vec<NodeRange> {
    World::new(job.key.clone(), 1, job.ranks.by_node().map(|(node, _)| node)).nodes
}

fn count(nodes: &[NodeRange]) -> u32 {
    nodes.iter().fold(0, |sum, range| sum.saturating_add(range.count))
}

impl Families {
    /// When a job has joined its family too late.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let joining = self.all.values().filter_map(|family| family.joining.as_ref()).map(|joining| joining.deadline);
        // They wait in the order in which they came.
        let waiting = self.all.values().filter_map(|family| {
            let most = if family.joining.is_none() { JOIN_NODES_TIME_MAX } else { JOIN_TIME_MAX };
            Some(family.waiting.front()?.since + most)
        });
        joining.chain(waiting).min()
    }

    /// Whether a job, or the cluster, has as many wishes as it may have.
    fn are_full(&self, job: JobId) -> bool {
        let of_job = self.wishes.range((job, Rank(0))..=(job, Rank(u32::MAX))).count();
        self.wishes.len() >= WISHES_MAX || of_job >= WISHES_PER_JOB_MAX
    }

    fn of_joining(&mut self, job: JobId) -> Option<&mut Family> {
        self.all.values_mut().find(|family| family.joining.as_ref().is_some_and(|joining| joining.job == job))
    }
}

impl<P: Plant> Controller<P> {
    /// A rank wants others to be started.
    pub(super) fn spawn_wanted(&mut self, pset: PsetId, node: NodeId, spawn: Spawn) {
        let Some(job) = self.jobs.get_mut(&spawn.job) else { return };
        let is_there = job.ranks.get(spawn.rank).is_some_and(|rank| (rank.pset, rank.node) == (pset, node));
        // It may be said again.
        if !is_there || !job.is_new_wish(spawn.rank, spawn.number) {
            return;
        }
        if self.families.are_full(spawn.job) {
            let reason = format!(
                "{WISHES_PER_JOB_MAX} ranks of the job, or {WISHES_MAX} of the cluster, wait for others to be started \
                 already"
            );
            return self.not_spawned(&spawn, reason);
        }
        self.families.wishes.insert((spawn.job, spawn.rank));
        let is_found = spawn.wanted.program == job.submission.name;
        let submission = Box::new(submission_of(&spawn, &job.submission));
        self.plant.spawn(SpawnOrder { spawn, submission, is_found });
    }

    /// Nothing comes of what a rank wanted.
    pub(super) fn not_spawned(&mut self, spawn: &Spawn, reason: String) {
        self.families.wishes.remove(&(spawn.job, spawn.rank));
        if let Some(job) = self.jobs.get(&spawn.job) {
            // A rank may want that again and again, whoever takes what is said of it.
            job.feed.progress(&JobEvent::NotSpawned { rank: spawn.rank.0, reason: reason.clone() });
        }
        self.tell_spawned(spawn.job, spawn.rank, spawn.number, Err(reason));
    }

    fn tell_spawned(&mut self, job: JobId, rank: Rank, number: u64, outcome: Result<JobId, String>) {
        let of_rank = self.jobs.get(&job).and_then(|job| job.ranks.get(rank));
        if let Some(pset) = of_rank.map(|rank| rank.pset) {
            self.plant.tell(pset, &ToPset::Spawned(Spawned { job, rank, number, outcome }));
        }
    }

    /// Takes a job that a rank wants, now or when others have joined its family.
    pub(super) fn spawn(&mut self, request: Box<SpawnRequest>, answer: Answer<JobId>, now: Now) {
        let root = self.root_of(request.spawn.job);
        if let Some(family) = self.families.all.get_mut(&root).filter(|family| family.joining.is_some()) {
            return family.waiting.push_back(Waiting { request, answer, since: now.instant });
        }
        self.join_now(root, Waiting { request, answer, since: now.instant }, now);
    }

    /// Whether it did: one that may wait for nodes that others of the family are about to give up is the next again.
    fn join_now(&mut self, root: JobId, waiting: Waiting, now: Now) -> bool {
        let wanted = waiting.request.submission.nodes_wanted() as usize;
        let may_wait = waiting.since + JOIN_NODES_TIME_MAX > now.instant && wanted <= self.nodes.len();
        if let Some(family) = self.families.all.get_mut(&root)
            && may_wait
            && self.nodes.ready().len() < wanted
            && family.members.len() > 1
        {
            family.waiting.push_front(waiting);
            return false;
        }
        let Waiting { request, answer, .. } = waiting;
        self.families.wishes.remove(&(request.spawn.job, request.spawn.rank));
        let result = self.begin_joining(root, *request, now);
        reply(answer, result);
        true
    }

    /// The job that all of its family come from.
    fn root_of(&self, job: JobId) -> JobId {
        self.jobs.get(&job).and_then(|job| job.descent.as_ref()).map_or(job, |descent| descent.root)
    }

    fn begin_joining(&mut self, root: JobId, request: SpawnRequest, now: Now) -> Result<JobId, Refused> {
        let SpawnRequest { spawn, submission, program, file } = request;
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        let parent = self.jobs.get(&spawn.job).filter(|job| !job.is_being_killed());
        let parent = parent.ok_or_else(|| Refused::conflict("the job that wants them ends"))?;
        if parent.ranks.get(spawn.rank).is_none_or(RankState::has_ended) {
            return Err(Refused::conflict("the rank that wants them has ended"));
        }
        // Of use if it is the first of its family.
        let (tag, of_root) = (parent.key.network_tag(parent.id), ranges_of(parent));
        self.records.check().map_err(|why| Refused::unavailable(&why))?;
        self.check_size(&submission, &program)?;
        let free = self.nodes.ready().clone();
        let wanted = submission.nodes_wanted() as usize;
        if free.len() < wanted {
            return Err(Refused::conflict(&format!(
                "{} {} {}, and {} free",
                counted(submission.ranks as usize, "rank"),
                if submission.ranks == 1 { "needs" } else { "need" },
                counted(wanted, "node"),
                match free.len() {
                    0 => "none is".to_owned(),
                    1 => "only one is".to_owned(),
                    free => format!("only {free} are"),
                }
            )));
        }
        let known = self.families.all.get(&root).map_or(of_root.len(), |family| family.nodes.len());
        if known + wanted > FAMILY_RANGES_MAX {
            return Err(Refused::conflict("too many nodes have come to the network of the job"));
        }
        self.keep_program(&program, file, &submission, now)?;
        let key = self.plant.job_key().map_err(|error| Refused::conflict(&error))?;
        let id = self.records.storage_mut().add_job(&submission, program.id, &[], now.realtime_ns)?;
        let new = || Family { tag, nodes: of_root, members: [root].into(), joining: None, waiting: VecDeque::new() };
        let family = self.families.all.entry(root).or_insert_with(new);
        family.members.insert(id);
        let mut job = Job::new(id, submission, Needs { program, staged: Vec::new() }, key, now);
        let Spawn { job: parent, rank, number, wanted } = spawn;
        let (keys, before) = (wanted.keys, family.nodes.clone());
        job.descent = Some(Descent { root, parent, rank, number, keys, before, is_told: false });
        self.jobs.insert(id, job);
        self.open_log(id);
        if let Some(parent) = self.jobs.get(&parent) {
            parent.feed.event(&JobEvent::Spawned { job: id.0, rank: rank.0 });
        }
        self.changed = true;
        // Nothing is told to its own nodes before the others know them.
        self.start_job(&Start { job: id, from: free }, now);
        self.tell_family(root, id, now);
        Ok(id)
    }

    /// Tells the nodes of a family that those of this job have come.
    fn tell_family(&mut self, root: JobId, id: JobId, now: Now) {
        let Some(family) = self.families.all.get_mut(&root) else { return };
        let Some(job) = self.jobs.get(&id) else { return };
        let first = count(&family.nodes);
        let nodes = ranges_of(job);
        family.nodes.extend_from_slice(&nodes);
        let count = count(&family.nodes);
        let mut awaits = BTreeSet::new();
        for member in family.members.iter().copied().filter(|member| *member != id) {
            let Some(job) = self.jobs.get(&member) else { continue };
            awaits.extend(job.ranks.live_nodes().map(|node| (member, node)));
            for pset in job.ranks.live_psets() {
                self.plant.tell(pset, &ToPset::Joined(Joined { job: member, first, nodes: nodes.clone() }));
            }
        }
        family.joining = Some(Joining { job: id, awaits, count, deadline: now.instant + JOIN_TIME_MAX });
        self.start_if_known(root);
    }

    /// A node knows so many of the nodes of its job's network.
    pub(super) fn node_knows(&mut self, pset: PsetId, node: NodeId, id: JobId, nodes: u32) {
        if self.jobs.get(&id).is_none_or(|job| !job.ranks.are_on(node, pset)) {
            return;
        }
        let root = self.root_of(id);
        let Some(joining) = self.families.all.get_mut(&root).and_then(|family| family.joining.as_mut()) else { return };
        if nodes >= joining.count && joining.awaits.remove(&(id, node)) {
            self.start_if_known(root);
        }
    }

    /// Ranks of a job on these nodes have ended: nodes where none runs any more need to know nothing.
    pub(super) fn ended_in_family(&mut self, id: JobId, nodes: &[NodeId]) {
        let root = self.root_of(id);
        let Some(family) = self.families.all.get_mut(&root) else { return };
        let Some(joining) = family.joining.as_mut().filter(|joining| !joining.awaits.is_empty()) else { return };
        let job = self.jobs.get(&id);
        for node in nodes {
            if job.is_none_or(|job| !job.ranks.are_live_on(*node)) {
                joining.awaits.remove(&(id, *node));
            }
        }
        self.start_if_known(root);
    }

    /// Starts the job that joins a family, if all nodes of that know its nodes.
    fn start_if_known(&mut self, root: JobId) {
        let Some(joining) = self.families.all.get(&root).and_then(|family| family.joining.as_ref()) else { return };
        let id = joining.job;
        let is_to_start = joining.awaits.is_empty() && self.jobs.get(&id).is_some_and(Job::awaits_family);
        if is_to_start {
            self.start_from(id, 0);
        }
    }

    /// A job was started: if a rank has wanted that, it hears of it, and the next may join the family.
    pub(super) fn started_in_family(&mut self, id: JobId) {
        let Some(descent) = self.jobs.get_mut(&id).and_then(|job| job.descent.as_mut()) else { return };
        descent.is_told = true;
        let (parent, rank, number) = (descent.parent, descent.rank, descent.number);
        self.tell_spawned(parent, rank, number, Ok(id));
        self.has_joined(id);
    }

    /// Nobody waits for this job's nodes to be known any more.
    fn has_joined(&mut self, id: JobId) {
        if let Some(family) = self.families.of_joining(id) {
            family.joining = None;
            // For those that wait.
            self.changed = true;
        }
    }

    /// Takes jobs that had to wait until others have joined their family.
    fn join_next(&mut self, now: Now) {
        let roots: Vec<JobId> = self.families.all.keys().copied().collect();
        for root in roots {
            while let Some(family) = self.families.all.get_mut(&root).filter(|family| family.joining.is_none()) {
                let Some(waiting) = family.waiting.pop_front() else { break };
                if !self.join_now(root, waiting, now) {
                    break;
                }
            }
        }
    }

    /// A job has ended, for a reason if it has failed.
    pub(super) fn left_family(
        &mut self,
        id: JobId,
        descent: Option<&Descent>,
        (exit_status, reason): (u8, Option<&str>),
    ) {
        let root = descent.map_or(id, |descent| descent.root);
        let Some(family) = self.families.all.get_mut(&root) else { return };
        family.members.remove(&id);
        if let Some(Descent { parent, rank, number, is_told: false, .. }) = descent {
            let reason = reason.unwrap_or("they were ended before they began").to_owned();
            self.tell_spawned(*parent, *rank, *number, Err(reason));
            return self.leave(root, id);
        }
        if let Some(reason) = reason {
            let started_by = |job: &&Job| job.descent.as_ref().is_some_and(|descent| descent.parent == id);
            let children = self.jobs.values().filter(started_by).map(|child| (child.id, "which has started it"));
            let parent = descent.and_then(|descent| self.jobs.get(&descent.parent));
            let parent = parent.filter(|parent| !parent.outlives_ranks());
            let parent = parent.map(|parent| (parent.id, "which it has started"));
            self.families.condemned.extend(children.chain(parent).map(|(job, what)| Condemned {
                job,
                reason: format!("job {id}, {what}, ended: {reason}"),
                exit_status,
            }));
        }
        self.leave(root, id);
    }

    fn leave(&mut self, root: JobId, id: JobId) {
        self.has_joined(id);
        if self.families.all.get(&root).is_some_and(|family| family.members.is_empty()) {
            let family = self.families.all.remove(&root);
            for Waiting { answer, .. } in family.into_iter().flat_map(|family| family.waiting) {
                reply(answer, Err(Refused::conflict("the job that wants them has ended")));
            }
        }
    }

    /// Ends jobs whose family has failed, and takes those that waited.
    pub(super) fn advance_families(&mut self, now: Now) {
        // Some end at once, and may condemn others.
        while let Some(Condemned { job: id, reason, exit_status }) = self.families.condemned.pop() {
            if let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.is_being_killed()) {
                job.failed(exit_status);
                self.kill_job(id, Some(reason), now);
            }
        }
        self.join_next(now);
    }

    /// Gives up jobs that nodes of their family do not know in time, and those that wait for these for too long.
    pub(super) fn give_up_joining(&mut self, now: Now) {
        let is_late = |waiting: &mut Waiting| waiting.since + JOIN_TIME_MAX <= now.instant;
        for family in self.families.all.values_mut().filter(|family| family.joining.is_some()) {
            while let Some(Waiting { answer, .. }) = family.waiting.pop_front_if(is_late) {
                let seconds = JOIN_TIME_MAX.as_secs();
                let why = format!("others that the job and its family want have been started for {seconds} s");
                reply(answer, Err(Refused::conflict(&why)));
            }
        }
        let joining = self.families.all.values().filter_map(|family| family.joining.as_ref());
        let late: Vec<JobId> =
            joining.filter(|joining| joining.deadline <= now.instant).map(|joining| joining.job).collect();
        for id in late {
            if self.jobs.get(&id).is_some_and(Job::awaits_family) {
                let seconds = JOIN_TIME_MAX.as_secs();
                let reason =
                    format!("nodes of the job that wants it did not come to know its nodes within {seconds} s");
                self.end_unstarted(id, EXIT_COPPICE, Some(reason), now);
            } else if let Some(joining) = self.families.of_joining(id).and_then(|family| family.joining.as_mut()) {
                // Its program is looked at, which has a time of its own.
                joining.deadline = now.instant + JOIN_TIME_MAX;
            }
        }
    }

    /// Whether a job is in one network with others, or not in one of its own: it cannot be written down alone.
    pub(super) fn has_family(&self, id: JobId) -> bool {
        let family = self.families.all.get(&self.root_of(id));
        family.is_some_and(|family| family.members.iter().any(|member| *member != id))
            || self.jobs.get(&id).is_some_and(|job| job.descent.is_some())
    }

    /// The family of a job that a rank has started, for its nodes.
    pub(super) fn kin_of(&self, job: &Job) -> (Option<Box<Kin>>, Option<Box<Origin>>) {
        let Some(descent) = &job.descent else { return (None, None) };
        let Some(family) = self.families.all.get(&descent.root) else { return (None, None) };
        let kin = Kin { tag: family.tag, before: descent.before.clone() };
        (Some(Box::new(kin)), Some(Box::new(Origin { job: descent.parent, keys: descent.keys.clone() })))
    }
}

/// Where it runs: in the directory of the rank's job, or one that may be named from there.
fn directory_of(spawn: &Spawn, own: &Submission) -> ByteString {
    match spawn.wanted.directory.as_deref() {
        None => own.directory.clone(),
        Some(named) if named.starts_with(b"/") => named.into(),
        Some(named) => [&own.directory[..], b"/", named].concat().into(),
    }
}

/// The job that a rank wants: as its own, but for what it says. Its program is found later.
fn submission_of(spawn: &Spawn, own: &Submission) -> Submission {
    let Spawn { job, rank, wanted, .. } = spawn;
    Submission {
        name: wanted.program.clone(),
        arguments: wanted.arguments.clone(),
        directory: directory_of(spawn, own),
        ranks: wanted.ranks,
        input_rank: None,
        timeout_ms: None,
        estimate_ms: None,
        nodes: Vec::new(),
        staged: Vec::new(),
        traced: false,
        restarted_from: None,
        spawned_by: Some(SpawnedBy { job: job.0, rank: rank.0 }),
        checkpoint_policy: None,
        ..own.clone()
    }
}
