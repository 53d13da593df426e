//! Giving jobs their nodes.

use std::collections::BTreeMap;
use std::path::Path;

use coppice_api::job::{FileCalls, Submission};
use coppice_api::path;
use coppice_api::retain::{LastProgram, PlacedNode, Placement};
use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::{Member, StartJob, ToPset};
use coppice_protocol::text::ByteString;
use coppice_protocol::world::World;

use super::job::Job;
use super::links::Links;
use super::node::{Nodes, Phase};
use super::ranks::{RankState, Ranks};
use super::staging::Bandwidth;
use super::{Controller, Now, staging};
use crate::plant::Plant;
use crate::records::What;
use crate::scheduler::placement::{self, Candidate};
use crate::scheduler::{Pool, Running, Start};
use crate::store::ProgramStore;

impl<P: Plant> Controller<P> {
    /// Starts the jobs that have become possible.
    pub(super) fn start_jobs(&mut self, now: Now) {
        // What could not be recorded is not begun; the queue goes on when that is possible again.
        if self.records.check().is_err() {
            return;
        }
        while !self.scheduler.is_empty() && !self.nodes.ready().is_empty() {
            let pool = self.pool(now);
            let Some(start) = self.scheduler.next_start(&pool) else { return };
            self.start_job(&start, now);
        }
    }

    /// The nodes as the scheduler sees them.
    fn pool(&self, now: Now) -> Pool {
        let mut pool = Pool { free: self.nodes.ready().clone(), ..Pool::default() };
        let mut busy: BTreeMap<JobId, Vec<NodeId>> = BTreeMap::new();
        for node in self.nodes.iter() {
            match node.phase() {
                Phase::Busy(job) => busy.entry(job).or_default().push(node.id),
                Phase::Waiting | Phase::Booting { .. } | Phase::Stopping => {
                    pool.coming.insert(node.id);
                }
                Phase::Ready | Phase::Failed => {}
            }
        }
        for (job, nodes) in busy {
            let left = self.jobs.get(&job).and_then(|job| job.left(now.instant));
            pool.running.push(Running { nodes, left });
        }
        pool
    }

    pub(super) fn start_job(&mut self, start: &Start, now: Now) {
        let id = start.job;
        let Some(job) = self.jobs.get(&id) else { return };
        let placement = place(job, start, &self.nodes);
        let ahead = self.decide_ahead(job, &placement);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let run = LastProgram {
            program: job.program.id.to_string(),
            path: job.submission.name.clone(),
            bytes: job.program.bytes,
            job: id.0,
            at_ns: now.realtime_ns,
        };
        let mut ranks: Vec<RankState> = Vec::with_capacity(job.submission.ranks as usize);
        let mut boots: Vec<(NodeId, Generation)> = Vec::with_capacity(placement.nodes.len());
        for placed in &placement.nodes {
            self.nodes.set_phase(NodeId(placed.node), Phase::Busy(id));
            let Some(node) = self.nodes.get_mut(NodeId(placed.node)) else { continue };
            node.holdings.last = Some(run.clone());
            let use_retained = job.submission.retain && placed.pages > 0;
            boots.push((node.id, node.generation));
            let (node, pset) = (node.id, node.pset);
            let left = job.submission.ranks as usize - ranks.len();
            let rank = || RankState::new(node, pset, use_retained);
            ranks.extend(std::iter::repeat_with(rank).take(left.min(job.submission.ranks_per_node as usize)));
        }
        tracing::info!(job = id.0, placement = placement.summary, ahead = ahead.summary, "job starts");
        let nodes = boots.iter().map(|(node, _)| node.0).collect();
        let program = job.program.id;
        let (recorded, ahead_of) = (placement.clone(), Some(ahead.clone()));
        let started = What::Started { job: id, nodes: boots, placement: recorded, ahead: ahead_of, program, run };
        self.records.add(started, now);
        let is_wanted = job.descent.is_some();
        job.start(Ranks::new(ranks), placement, ahead, now);
        job.feed.event(&JobEvent::Started { nodes });
        self.changed = true;
        if is_wanted {
            // Its family is to know of it first.
            return;
        }
        self.start_from(id, 0);
    }

    /// Has the ranks of a job started; its program and what it has staged are as they should be.
    pub(super) fn tell_start(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (kin, origin) = self.kin_of(job);
        // Whatever is free at this moment may be another job's in the next.
        let usable = u32::try_from(self.nodes.len() - self.nodes.failed().len()).unwrap_or(u32::MAX);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.awaits_copy, job.is_told) = (None, true);
        let Submission { ranks, ranks_per_node, .. } = job.submission;
        let universe = usable.saturating_mul(ranks_per_node).max(ranks);
        let message = start_message(job, &self.store, &self.links, self.config.host_cores);
        let world = World { kin, ..message.world };
        tell_start(job, StartJob { world, universe, origin, ..message }, &mut self.plant);
        self.started_in_family(id);
    }
}

/// Chooses a job's nodes.
fn place(job: &Job, start: &Start, nodes: &Nodes) -> Placement {
    let (program, retain) = (job.program.id, job.submission.retain);
    let candidate = |id: NodeId| Some(nodes.get(id)?.holdings.candidate(id, program));
    let listed = &job.submission.nodes;
    let nodes: Vec<PlacedNode> = if listed.is_empty() {
        let candidates: Vec<Candidate> = start.from.iter().copied().filter_map(candidate).collect();
        let choose = if retain { placement::choose } else { placement::choose_by_number };
        choose(&candidates, job.submission.nodes_wanted() as usize)
    } else {
        let candidates: Vec<Candidate> = listed.iter().copied().map(NodeId).filter_map(candidate).collect();
        placement::as_listed(&candidates)
    };
    Placement { summary: placement::summary(&nodes, retain), nodes }
}

/// Tells the I/O nodes of a job's ranks to start it, and sends the one that needs it what there is of its input.
fn tell_start(job: &mut Job, message: StartJob, plant: &mut impl Plant) {
    let mut members: BTreeMap<PsetId, Vec<Member>> = BTreeMap::new();
    let mut next = 0;
    for (index, (node, ranks)) in job.ranks.by_node().enumerate() {
        let Some(state) = ranks.first() else { continue };
        let first = Rank(next);
        // Never more than a job has, of which there are as many as a number of 32 bits says.
        let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        next = next.saturating_add(count);
        let restore = job.restore.as_ref().and_then(|restore| restore.of_node(index, first, count));
        let member = Member { node, first, count, use_retained: state.use_retained, restore };
        members.entry(state.pset).or_default().push(member);
    }
    let mut message = message;
    for (pset, members) in members {
        message.members = members;
        let start = ToPset::Start(message);
        plant.tell(pset, &start);
        let ToPset::Start(same) = start else { return };
        message = same;
    }
    let early_input = std::mem::take(&mut job.early_input);
    let input_rank = job.submission.input_rank.and_then(|rank| job.ranks.get(Rank(rank)));
    if let Some(pset) = input_rank.map(|state| state.pset) {
        for bytes in early_input {
            plant.tell(pset, &ToPset::Input { job: job.id, bytes });
        }
    }
}

fn start_message(job: &mut Job, store: &ProgramStore, links: &Links, host_cores: usize) -> StartJob {
    let (staging, staged_files) = staging::of_job(job, store, links);
    if let Some(staging) = &staging {
        let nodes = job.ranks.by_node().map(|(node, _)| node);
        let link = Bandwidth::of(links.to(nodes, staging.home, staging.scheme));
        let passes_on = |pset: &PsetId| *pset == staging.home || staging.scheme.knows_psets();
        let psets = job.ranks.psets().filter(passes_on).collect();
        job.transfers.begin(staging.clone(), link, psets);
    }
    let leases = may_have_leases(job, links);
    let broadcasts = if leases { staging::of_broadcasts(job, links) } else { None };
    if let Some((staging, link)) = &broadcasts {
        job.transfers.may_broadcast(staging.clone(), *link);
    }
    let submission = &job.submission;
    let arguments = std::iter::once(&submission.name).chain(&submission.arguments).cloned().collect();
    StartJob {
        job: job.id,
        size: submission.ranks,
        root: path::bytes(&submission.root),
        program: job.program.id,
        program_bytes: job.program.bytes,
        program_file: path::bytes(store.path(job.program.id)),
        path: submission.name.clone(),
        executable: in_root(submission).map(Box::new),
        arguments,
        environment: submission.environment.clone(),
        directory: submission.directory.clone(),
        user: rustix::process::getuid().as_raw(),
        group: rustix::process::getgid().as_raw(),
        umask: submission.umask,
        input_rank: submission.input_rank.map(Rank),
        members: Vec::new(),
        world: World {
            startup: submission.startup,
            nodes_per_core: u16::try_from(job.ranks.by_node().count().div_ceil(host_cores)).unwrap_or(u16::MAX),
            passage: links.passage(job.ranks.by_node().map(|(node, _)| node)),
            ..World::new(job.key.clone(), submission.ranks_per_node, job.ranks.by_node().map(|(node, _)| node))
        },
        staging: staging.map(Box::new),
        staged_files,
        traced: job.traced(),
        core_file: submission.core_file,
        keeps_files: submission.retain,
        leases,
        broadcasts: broadcasts.map(|(staging, _)| Box::new(staging)),
        outlives_ranks: job.outlives_ranks(),
        universe: submission.ranks,
        origin: None,
    }
}

/// Whether a job's nodes may have leases of files: not if other psets, which know nothing of them, have ranks that use
/// the same files.
fn may_have_leases(job: &Job, links: &Links) -> bool {
    let is_alone =
        links.psets().psets().nth(1).is_none() || job.descent.is_none() && job.ranks.psets().nth(1).is_none();
    job.submission.io == FileCalls::Leased && is_alone
}

/// Where the job's program lies for its ranks, if it lies in their root. Neither path has links in it if the tool could
/// see to that.
fn in_root(submission: &Submission) -> Option<ByteString> {
    let below = submission.program.strip_prefix(&submission.root).ok()?;
    Some(path::bytes(Path::new("/").join(below)))
}
