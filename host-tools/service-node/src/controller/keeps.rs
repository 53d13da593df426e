//! Having nodes keep files without a job.
//!
//! The nodes are told at once; the order is answered when each of them has the file, or will not have it. Nodes and I/O
//! nodes see to that: who gets nothing for long gives up, and who is silent is lost. If whoever gave the order goes
//! away, the transfer is given up, and nodes that do not have all of the file keep nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use coppice_api::cluster::ClusterState;
use coppice_api::keep::{KeepOrder, KeepReport, NotKept};
use coppice_api::stream::StagingProgress;
use coppice_api::{path, shown};
use coppice_protocol::distribution;
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::keep::{KeepFile, KeepOutcome, KeepProgress, Kept, KeptTransfer};
use coppice_protocol::pset::ToPset;
use coppice_protocol::staging::StagedFile;
use coppice_protocol::world::World;
use tokio::sync::watch;

use super::requests::{Answer, Refused, reply};
use super::{Controller, Now, staging};
use crate::limits::KEEPS_MAX;
use crate::plant::Plant;
use crate::store::Held;

/// An order that waits for nodes.
#[derive(Debug)]
struct Keep {
    answer: Answer<KeepReport>,
    progress: watch::Sender<StagingProgress>,
    /// The stored copy, which stays as long.
    file: Held,
    report: KeepReport,
    /// Where it is sent from.
    home: PsetId,
    psets: BTreeSet<PsetId>,
    /// How many nodes were told.
    nodes: u32,
    /// Nodes that have not answered.
    pending: BTreeSet<NodeId>,
    since: Instant,
}

impl Keep {
    fn fail(&mut self, node: NodeId, reason: &str) {
        if self.pending.remove(&node) {
            self.report.failed.push(NotKept { node: node.0, reason: reason.to_owned() });
        }
    }
}

/// Orders that wait for nodes, at most [`KEEPS_MAX`], by the numbers that whoever gave them chose.
#[derive(Debug, Default)]
pub(super) struct Keeps(BTreeMap<u64, Keep>);

impl Keeps {
    /// The files that are needed.
    pub(super) fn files(&self) -> impl Iterator<Item = &Held> {
        self.0.values().map(|keep| &keep.file)
    }
}

impl<P: Plant> Controller<P> {
    /// Answers when each of the nodes has the file or will not have it, and says meanwhile how far that is.
    pub(super) fn keep(
        &mut self,
        request: u64,
        order: &KeepOrder,
        file: Held,
        (progress, answer): (watch::Sender<StagingProgress>, Answer<KeepReport>),
        now: Now,
    ) {
        match self.begin_keep(request, order, &file, now) {
            Ok((home, told)) => {
                let (bytes, hash) = (file.bytes, file.id.to_string());
                let report = KeepReport { hash, bytes, nodes: 0, had: 0, failed: Vec::new(), took_ns: 0 };
                let pending: BTreeSet<NodeId> = told.values().flatten().copied().collect();
                let (psets, since) = (told.into_keys().collect(), now.instant);
                let nodes = u32::try_from(pending.len()).unwrap_or(u32::MAX);
                let keep = Keep { answer, progress, file, report, home, psets, nodes, pending, since };
                self.keeps.0.insert(request, keep);
            }
            Err(refused) => reply(answer, Err(refused)),
        }
    }

    /// Tells the nodes, if the order can be taken. Gives the pset that sends the file, and all that were told.
    fn begin_keep(
        &mut self,
        request: u64,
        order: &KeepOrder,
        file: &Held,
        now: Now,
    ) -> Result<(PsetId, BTreeMap<PsetId, Vec<NodeId>>), Refused> {
        self.check_keep(request, file)?;
        let nodes = self.nodes_to_keep(order)?;
        let home = nodes.first().map_or(PsetId(0), |(_, pset)| *pset);
        let key = self.plant.job_key().map_err(|error| Refused::conflict(&error))?;
        let staged = StagedFile { content: file.id, bytes: file.bytes, path: None };
        let scheme = distribution::Scheme::TwoTrees;
        let speed = staging::speed(self.links.to(nodes.iter().map(|(node, _)| *node), home, scheme));
        let from = (home, self.links.psets());
        let transfer = KeptTransfer {
            request,
            world: World::new(key, 1, nodes.iter().map(|(node, _)| *node)),
            staging: staging::over(vec![staged], from, scheme, speed),
        };
        transfer.staging.check(0, transfer.world.node_count()).map_err(|error| {
            let (name, bytes) = (shown(&order.file), file.bytes);
            Refused::bad(format!("cannot stage '{name}' of {bytes} bytes: {error}; stage less"))
        })?;
        self.records.storage_mut().use_file(file, &order.file, now.realtime_ns)?;
        let mut told: BTreeMap<PsetId, Vec<NodeId>> = BTreeMap::new();
        nodes.into_iter().for_each(|(node, pset)| told.entry(pset).or_default().push(node));
        for (pset, nodes) in &told {
            let file = path::bytes(self.store.path(file.id));
            let order = KeepFile { transfer: transfer.clone(), nodes: nodes.clone(), file };
            self.plant.tell(*pset, &ToPset::Keep(order));
        }
        Ok((home, told))
    }

    fn check_keep(&self, request: u64, file: &Held) -> Result<(), Refused> {
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        self.records.check().map_err(|why| Refused::unavailable(&why))?;
        if self.keeps.0.len() >= KEEPS_MAX || self.keeps.0.contains_key(&request) {
            return Err(Refused::conflict(&format!(
                "{KEEPS_MAX} files are on their way to nodes that are to keep them already; try again when they are \
                 there"
            )));
        }
        self.check_kept(std::slice::from_ref(file))?;
        let (bytes, free) = (file.bytes, self.smallest_free());
        if bytes > free {
            return Err(Refused::bad(format!(
                "cannot stage {bytes} bytes: a node has {free} bytes of memory free; stage less, or use \
                 `coppice up --memory` with more"
            )));
        }
        Ok(())
    }

    /// The nodes that are to keep a file, each with its pset.
    fn nodes_to_keep(&self, order: &KeepOrder) -> Result<Vec<(NodeId, PsetId)>, Refused> {
        if order.nodes.is_empty() {
            let up: Vec<_> = self.nodes.iter().filter(|node| node.is_up()).map(|node| (node.id, node.pset)).collect();
            let none = || Refused::conflict("no node is up; see `coppice nodes`");
            return if up.is_empty() { Err(none()) } else { Ok(up) };
        }
        let mut seen = BTreeSet::new();
        let one = |number: &u32| {
            let name = self.config.paths.name();
            let Some(node) = self.nodes.get(NodeId(*number)) else {
                let nodes = self.nodes.len();
                return Err(Refused::bad(format!(
                    "--nodes: cluster '{name}' has no node {number}; it has {nodes}, counted from 0"
                )));
            };
            if !seen.insert(*number) {
                return Err(Refused::bad(format!("--nodes names node {number} twice; name each node once")));
            }
            if !node.is_up() {
                return Err(Refused::conflict(&format!("--nodes: node {number} is not up; see `coppice nodes`")));
            }
            Ok((node.id, node.pset))
        };
        order.nodes.iter().map(one).collect()
    }

    /// A node has a file, or will not have it.
    pub(super) fn node_kept(&mut self, pset: PsetId, id: NodeId, answer: &Kept, now: Now) {
        let is_there = self.nodes.get(id).is_some_and(|node| node.pset == pset && node.is_up());
        let keep = self.keeps.0.get_mut(&answer.request).filter(|keep| is_there && keep.pending.contains(&id));
        let Some(keep) = keep else {
            let request = answer.request;
            return tracing::debug!(
                pset = pset.0,
                node = id.0,
                request,
                "keeps a file, but was not asked to, or no more"
            );
        };
        match &answer.outcome {
            KeepOutcome::Whole { was_here } => {
                keep.pending.remove(&id);
                keep.report.nodes += 1;
                keep.report.had += u32::from(*was_here);
            }
            KeepOutcome::Refused(reason) => keep.fail(id, reason),
            KeepOutcome::OtherBoot(_) => keep.fail(id, "it was booted anew"),
        }
        if !matches!(answer.outcome, KeepOutcome::OtherBoot(_)) {
            self.set_held(id, &answer.held, now);
        }
        self.finish_keeps(now);
    }

    /// The pset that sends a file says how far that is: whoever ordered it may want to know.
    pub(super) fn keep_goes_on(&mut self, pset: PsetId, KeepProgress { request, bytes, whole }: KeepProgress) {
        let Some(keep) = self.keeps.0.get(&request).filter(|keep| keep.home == pset) else { return };
        let (total, nodes) = (keep.report.bytes, keep.nodes);
        let progress = StagingProgress { bytes: bytes.min(total), total, whole: whole.min(nodes), nodes };
        keep.progress.send_replace(progress);
    }

    /// The pset that was to send a file cannot.
    pub(super) fn keep_failed(&mut self, pset: PsetId, request: u64, reason: &str, now: Now) {
        let Some(keep) = self.keeps.0.get_mut(&request).filter(|keep| keep.psets.contains(&pset)) else { return };
        let of_pset = |node: &NodeId| self.nodes.get(*node).is_some_and(|node| node.pset == pset);
        // Without home nobody gets it.
        let is_home = keep.home == pset;
        let lost: Vec<NodeId> = keep.pending.iter().filter(|node| is_home || of_pset(node)).copied().collect();
        lost.into_iter().for_each(|node| keep.fail(node, reason));
        self.finish_keeps(now);
    }

    /// A node is lost, with all that it had.
    pub(super) fn keeps_no_more(&mut self, node: NodeId, now: Now) {
        for keep in self.keeps.0.values_mut() {
            keep.fail(node, "it was lost");
        }
        self.finish_keeps(now);
    }

    fn finish_keeps(&mut self, now: Now) {
        for (request, keep) in self.keeps.0.extract_if(.., |_, keep| keep.pending.is_empty()) {
            for pset in keep.psets {
                self.plant.tell(pset, &ToPset::EndKeep { request });
            }
            let took = now.instant.saturating_duration_since(keep.since);
            let mut report = keep.report;
            report.took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            report.failed.sort_by_key(|failed| failed.node);
            reply(keep.answer, Ok(report));
        }
    }

    /// Whoever gave an order is gone, or has its answer.
    pub(super) fn end_keep(&mut self, request: u64) {
        let Some(keep) = self.keeps.0.remove(&request) else { return };
        for pset in keep.psets {
            self.plant.tell(pset, &ToPset::EndKeep { request });
        }
    }

    /// The cluster goes down: nobody waits for its nodes any more.
    pub(super) fn end_keeps(&mut self) {
        for (_, keep) in std::mem::take(&mut self.keeps.0) {
            reply(keep.answer, Err(Refused::conflict("the cluster is going down")));
        }
    }
}
