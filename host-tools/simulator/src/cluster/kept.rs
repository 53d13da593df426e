//! The keeper of jobs' output: one after the other, it takes what it is given when its disk does. Its logs outlive the
//! service node, and are cut there and where the disk is full.

use std::collections::BTreeMap;

use coppice_api::output::OutputCut;
use coppice_protocol::ids::{JobId, PsetId};
use coppice_service_node::output::{OutputEvent, OutputOrder, Summary};
use coppice_service_node::plant::PlantEvent;

use super::queue::{Event, MILLISECOND_NS, SECOND_NS};
use super::world::World;

/// How long the disk takes for a piece of output, mostly and at times, ns.
const PIECE_NS_MAX: u64 = MILLISECOND_NS;
const SLOW_NS_MAX: u64 = 5 * SECOND_NS;
const SLOW_PER_MILLE: u64 = 10;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Logs of jobs under way.
    open: BTreeMap<JobId, Summary>,
    /// Of those that have ended, or lost their service node.
    closed: BTreeMap<JobId, Summary>,
    /// When it has done all it was told, ns.
    until_ns: u64,
}

impl World {
    /// What the keeper does with an order.
    pub(super) fn keep(&mut self, order: OutputOrder) {
        let is_slow = self.random.chance(SLOW_PER_MILLE);
        let takes_ns = self.random.delay(if is_slow { SLOW_NS_MAX } else { PIECE_NS_MAX });
        self.kept.until_ns = self.kept.until_ns.max(self.now_ns) + takes_ns;
        match order {
            OutputOrder::Open { job, .. } => drop(self.kept.open.insert(job, Summary::default())),
            OutputOrder::Append(piece) => {
                let (job, bytes) = (piece.job, piece.bytes.len() as u64);
                self.trials.saw(job, piece.rank.0, &piece.bytes);
                // Nobody else sees what a job writes that is nobody's.
                if self.is_detached(job) {
                    self.checkers.jobs.output(job, piece.rank.0, &piece.bytes);
                    self.checkers.limits.sent(job, piece.pset, piece.bytes.len());
                }
                let is_well = self.host.disk.is_well();
                let Some(summary) = self.kept.open.get_mut(&job) else {
                    return self.violate(format!("output of job {job}, which has no log, is to be kept"));
                };
                let is_cut = summary.cut.is_none() && !is_well;
                if is_cut {
                    summary.cut = Some(OutputCut::Disk);
                }
                *(if summary.cut.is_none() { &mut summary.bytes } else { &mut summary.dropped }) += bytes;
                let length = summary.bytes;
                if is_cut {
                    self.trace.count("logs of output cut", 1);
                    self.kept_says(job, OutputEvent::Cut { cut: OutputCut::Disk, why: "it is full".to_owned() });
                }
                self.kept_says(job, OutputEvent::Taken { pset: piece.pset, bytes: piece.bytes.len(), length });
            }
            OutputOrder::Cut(job) => {
                if let Some(summary) = self.kept.open.get_mut(&job) {
                    summary.cut.get_or_insert(OutputCut::Late);
                }
                self.trace.count("logs of output given up", 1);
            }
            OutputOrder::Close(job) => match self.kept.open.remove(&job) {
                Some(summary) => {
                    self.kept.closed.insert(job, summary);
                    self.kept_says(job, OutputEvent::Closed(summary));
                }
                None => self.violate(format!("the log of job {job}, which has none, is closed")),
            },
            OutputOrder::Look(job) => {
                self.trace.count("logs looked at that a service node left", 1);
                let nothing = Summary { cut: Some(OutputCut::ServiceNode), ..Summary::default() };
                let found = self.kept.closed.get(&job).copied().unwrap_or(nothing);
                self.kept_says(job, OutputEvent::Closed(found));
            }
        }
    }

    fn kept_says(&mut self, job: JobId, event: OutputEvent) {
        let in_ns = self.kept.until_ns.saturating_sub(self.now_ns);
        self.plan(in_ns, Event::Plant(Box::new(PlantEvent::Output { job, event })));
    }

    /// The service node hears of what was taken.
    pub(super) fn kept_taken(&mut self, job: JobId, pset: PsetId, bytes: usize) {
        if self.is_detached(job) {
            self.checkers.limits.taken(job, pset, bytes);
        }
    }

    /// The keeper died with its service node.
    pub(super) fn kept_dies(&mut self) {
        let open = std::mem::take(&mut self.kept.open);
        let cut = |summary: Summary| Summary { cut: summary.cut.or(Some(OutputCut::ServiceNode)), ..summary };
        self.kept.closed.extend(open.into_iter().map(|(job, summary)| (job, cut(summary))));
        self.kept.until_ns = self.now_ns;
    }
}
