//! Ends that take a moment: of ranks, whose files are closed first, so that whoever hears of the end finds their room
//! free; and of the I/O node, whose nodes are told to power off.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::control::{RankReport, ToNode};
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::retain::RetainedProgram;

use super::effect::{Effect, PlaceId};
use super::lines::LineId;
use super::timers::Timer;
use super::{Machine, Now};
use crate::clock::ns;
use crate::limits::{CLOSE_TIME_MAX, SHUTDOWN_GRACE};

/// The ranks whose end is known and not told yet. As long as a node has one, nothing else is heard of it, so that what
/// it said comes in order.
#[derive(Debug, Default)]
pub(super) struct Closing {
    ends: BTreeMap<(PlaceId, Rank), End>,
    /// Those of each node that has any.
    on: BTreeMap<NodeId, BTreeSet<(PlaceId, Rank)>>,
}

/// What is to be told.
#[derive(Debug)]
struct End {
    node: NodeId,
    report: RankReport,
    /// What the node holds.
    held: Vec<RetainedProgram>,
}

impl Closing {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is one of that node.
    pub(super) fn has_of(&self, node: NodeId) -> bool {
        self.on.contains_key(&node)
    }

    fn add(&mut self, key: (PlaceId, Rank), end: End) {
        self.on.entry(end.node).or_default().insert(key);
        self.ends.insert(key, end);
    }

    fn take(&mut self, key: (PlaceId, Rank)) -> Option<End> {
        let end = self.ends.remove(&key)?;
        if let Entry::Occupied(mut on) = self.on.entry(end.node) {
            on.get_mut().remove(&key);
            if on.get().is_empty() {
                on.remove();
            }
        }
        Some(end)
    }

    fn take_all(&mut self, node: NodeId) -> impl Iterator<Item = End> {
        self.on.remove(&node).into_iter().flatten().filter_map(|key| self.ends.remove(&key))
    }
}

/// The end of the I/O node.
#[derive(Debug)]
pub(super) struct Stopping {
    /// Connections that have not taken everything.
    waits_for: BTreeSet<LineId>,
}

impl Machine {
    /// A rank has ended, which is told when its files are closed; not much later, as a mount may not answer.
    pub(super) fn tell_end_when_closed(
        &mut self,
        place: PlaceId,
        node: NodeId,
        report: RankReport,
        held: &[RetainedProgram],
        now: Now,
    ) {
        self.timers.set(now.ns + ns(CLOSE_TIME_MAX), Timer::Closing(place, report.rank));
        self.closing.add((place, report.rank), End { node, report, held: held.to_vec() });
    }

    /// The files of a rank that has ended are closed, or it took too long.
    pub fn closed(&mut self, place: PlaceId, rank: Rank, now: Now) {
        let Some(End { node, report, held }) = self.closing.take((place, rank)) else { return };
        self.outbox.ended(node, report, &held);
        if let Some(line) = self.nodes.control_line(node) {
            self.listen(line, now);
        }
    }

    /// Tells what is known of the ends of ranks on a node, closed or not.
    pub(super) fn tell_ends_on(&mut self, node: NodeId) {
        for End { node, report, held } in self.closing.take_all(node) {
            self.outbox.ended(node, report, &held);
        }
    }

    /// Tells all nodes to power off, and waits a moment for them to hear it.
    pub(super) fn stop(&mut self, now: Now) {
        let lines = self.nodes.controls();
        for &line in &lines {
            if let Err(error) = self.send(line, 0, &ToNode::PowerOff, Vec::new()) {
                tracing::debug!(%error, "power-off was not sent");
            }
            self.effects.push(Effect::Flush(line));
        }
        self.timers.set(now.ns + ns(SHUTDOWN_GRACE), Timer::Stop);
        self.stopping = Some(Stopping { waits_for: lines.into_iter().collect() });
    }

    /// A connection's node has all that was queued for it, or will not have it any more.
    pub fn flushed(&mut self, line: LineId) {
        if let Some(stopping) = &mut self.stopping {
            stopping.waits_for.remove(&line);
        }
    }

    /// The time for that is over.
    pub(super) fn stopped(&mut self) {
        if let Some(stopping) = &mut self.stopping
            && !std::mem::take(&mut stopping.waits_for).is_empty()
        {
            tracing::debug!("not every node took its power-off");
        }
    }

    /// Whether the I/O node was told to end: nothing more is to be ordered.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stopping.as_ref().is_some_and(|stopping| stopping.waits_for.is_empty())
    }
}
