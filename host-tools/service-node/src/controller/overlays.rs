//! Performance overlays of jobs: their front ends are here, what they say goes to nodes by their I/O nodes, and what
//! they have gathered is recorded.

mod pace;
mod recorded;
mod sampled;
mod view;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coppice_api::job::RankOutcome;
use coppice_api::overlay::{EpochView, OverlayOrder, OverlayPlacement, OverlayState, OverlayView, OverlayWish};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::limits::{
    OVERLAY_CALLERS_MAX, OVERLAY_CHILDREN_MAX, OVERLAY_PERIOD_NS_MAX, OVERLAY_PERIOD_NS_MIN,
};
use coppice_protocol::overlay::placement::Host;
use coppice_protocol::overlay::topology::Topology;
use coppice_protocol::overlay::{Event, FrontEnd, Layout, Part, Standing, Subject, Up};
use coppice_protocol::pset::ToPset;
use coppice_protocol::ranks::Ranks;
use coppice_protocol::ras::{RasKind, Severity};

use self::pace::Pace;
pub use self::recorded::Recorded;
pub use self::sampled::Sampled;
pub(crate) use self::view::units;
use self::view::{epoch_view, process_views, state_of};
use super::job::Job;
use super::requests::{Answer, Refused, reply};
use super::{Controller, Now, ras};
use crate::limits::OVERLAY_LIES_TOLD_MAX;
use crate::plant::Plant;
use crate::profiles::ProfileOrder;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Overlays {
    /// Front ends count their time from here.
    origin: Option<Instant>,
    all: BTreeMap<JobId, Overlay>,
}

/// That of a job.
#[derive(Debug)]
struct Overlay {
    wish: OverlayWish,
    front_end: FrontEnd,
    pace: Pace,
    epochs: u64,
    late: u64,
    lies: u64,
    not_recorded: u64,
    /// Parts that came too late, when it was looked at last.
    dropped: u64,
    last: Option<EpochView>,
}

impl Overlays {
    /// What front ends take for the time, ns.
    fn now_ns(&mut self, now: Now) -> u64 {
        let origin = *self.origin.get_or_insert(now.instant);
        u64::try_from(now.instant.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The last epoch of a job's.
    pub(super) fn last(&self, job: JobId) -> Option<&EpochView> {
        self.all.get(&job)?.last.as_ref()
    }

    /// When one of them wants to know what time it is.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let next_ns = self.all.values().filter_map(|overlay| overlay.front_end.poll_timeout()).min()?;
        self.origin?.checked_add(Duration::from_nanos(next_ns))
    }
}

/// Checks what somebody wants.
///
/// # Errors
/// [`Refused`], one line for people.
pub(crate) fn check(wish: &OverlayWish) -> Result<(), Refused> {
    let period_ns = wish.period_ms.saturating_mul(1_000_000);
    if !(OVERLAY_PERIOD_NS_MIN..=OVERLAY_PERIOD_NS_MAX).contains(&period_ns) {
        let (least, most) = (OVERLAY_PERIOD_NS_MIN / 1_000_000, OVERLAY_PERIOD_NS_MAX / 1_000_000_000);
        return Err(Refused::bad(format!(
            "--overlay: an epoch of {} ms is too short or too long; use {least} ms to {most} s",
            wish.period_ms
        )));
    }
    sampled::check(wish)?;
    topology(wish).map(drop)
}

fn topology(wish: &OverlayWish) -> Result<Option<Topology>, Refused> {
    let parsed = wish.topology.as_deref().map(Topology::parse).transpose();
    parsed.map_err(|error| Refused::bad(format!("--overlay-topology: {error}")))
}

/// What nodes have of a job's ranks.
fn nodes_of(job: &Job) -> BTreeMap<NodeId, Ranks> {
    let mut nodes = BTreeMap::<NodeId, Ranks>::new();
    for (rank, state) in job.ranks.iter() {
        nodes.entry(state.node).or_default().add(rank);
    }
    nodes
}

impl<P: Plant> Controller<P> {
    /// A job runs: if it is to have an overlay it has one from now on.
    pub(super) fn overlay_of_running(&mut self, id: JobId, now: Now) {
        let wish = self.jobs.get(&id).and_then(|job| job.submission.overlay.clone());
        if let Some(wish) = wish
            && let Err(refused) = self.begin_overlay(id, wish, now)
        {
            tracing::warn!(job = id.0, refused.message, "no overlay");
        }
    }

    /// Somebody wants a job to have an overlay, or another one, or none.
    pub(super) fn order_overlay(&mut self, id: JobId, order: OverlayOrder, answer: Answer<OverlayView>, now: Now) {
        let done = match order.wish {
            Some(wish) => self.begin_or_await(id, wish, now),
            None => self.stop_overlay(id, now),
        };
        let view = done.and_then(|()| self.overlay_view(id));
        reply(answer, view);
    }

    fn begin_or_await(&mut self, id: JobId, wish: OverlayWish, now: Now) -> Result<(), Refused> {
        check(&wish)?;
        let Some(job) = self.jobs.get_mut(&id) else { return Err(self.why_not_under_way(id)) };
        job.submission.overlay = Some(wish.clone());
        if job.is_running() { self.begin_overlay(id, wish, now) } else { Ok(()) }
    }

    fn stop_overlay(&mut self, id: JobId, now: Now) -> Result<(), Refused> {
        let Some(job) = self.jobs.get_mut(&id) else { return Err(self.why_not_under_way(id)) };
        job.submission.overlay = None;
        self.end_overlay(id, now);
        Ok(())
    }

    fn begin_overlay(&mut self, id: JobId, wish: OverlayWish, now: Now) -> Result<(), Refused> {
        let period_ms = wish.period_ms;
        self.begin_overlay_at(id, wish, period_ms, now)
    }

    /// Begins what somebody wants, with epochs of this length.
    fn begin_overlay_at(&mut self, id: JobId, wish: OverlayWish, period_ms: u64, now: Now) -> Result<(), Refused> {
        // What has come of another one is recorded.
        self.end_overlay(id, now);
        let Some(job) = self.jobs.get(&id) else { return Err(self.why_not_under_way(id)) };
        let nodes = nodes_of(job);
        let layout = match (topology(&wish)?, wish.placement) {
            (Some(topology), _) => Layout::Given(topology),
            (None, OverlayPlacement::Average) => Layout::Average,
            (None, OverlayPlacement::Comprehensive) => {
                let host = |(node, ranks): (&NodeId, &Ranks)| (*node, self.host(*node, ranks));
                Layout::Comprehensive(nodes.iter().map(host).collect())
            }
        };
        let period_ns = period_ms.saturating_mul(1_000_000);
        let sample_period_ns = wish.sample_hz.map_or(0, |hz| 1_000_000_000 / u64::from(hz.max(1)));
        let lost: Vec<NodeId> = nodes.keys().copied().filter(|node| self.has_lost(id, *node)).collect();
        let subject = Subject { size: job.submission.ranks, nodes, layout, period_ns, sample_period_ns };
        let now_ns = self.overlays.now_ns(now);
        let generation = job.overlay_generation.saturating_add(1);
        let mut front_end = FrontEnd::new(generation, subject, now_ns);
        lost.into_iter().for_each(|node| front_end.node_lost(node, now_ns));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.overlay_generation = generation;
        }
        self.record_sampling(id, generation, &wish);
        let pace = Pace::new(period_ms);
        let overlay =
            Overlay { wish, front_end, pace, epochs: 0, late: 0, lies: 0, not_recorded: 0, dropped: 0, last: None };
        self.overlays.all.insert(id, overlay);
        self.carry_out_overlay(id, now);
        Ok(())
    }

    /// Whether a job has no rank on a node any more because that was lost.
    fn has_lost(&self, id: JobId, node: NodeId) -> bool {
        self.nodes.get(node).is_none_or(|node| node.job() != Some(id))
    }

    /// What a node is to the placement of processes.
    fn host(&self, node: NodeId, ranks: &Ranks) -> Host {
        let cores = self.config.cores.max(1);
        let status = self.nodes.get(node).and_then(|node| node.status.as_ref());
        let back_ends = u32::try_from(ranks.count()).unwrap_or(u32::MAX);
        Host {
            load: f64::from(back_ends) / f64::from(cores),
            free_memory_bytes: status.map_or(0, |status| status.memory.free),
            bandwidth: self.links.bandwidth_of(node).unwrap_or(u64::MAX),
            // All nodes are one switch away from each other.
            distance: 1,
            back_ends,
            cores,
        }
    }

    /// A job's overlay, for people.
    pub(super) fn overlay_view(&mut self, id: JobId) -> Result<OverlayView, Refused> {
        let Some(job) = self.jobs.get(&id) else { return Err(self.why_not_under_way(id)) };
        let none = OverlayView {
            job: id.0,
            state: if job.submission.overlay.is_some() { OverlayState::Waiting } else { OverlayState::Off },
            generation: job.overlay_generation,
            wish: job.submission.overlay.clone(),
            period_ms: None,
            ranks: job.submission.ranks,
            nodes_here: 0,
            nodes: job.submission.nodes_wanted(),
            processes: Vec::new(),
            epochs: 0,
            late: 0,
            dropped: 0,
            lies: 0,
            not_recorded: 0,
            missing: Vec::new(),
            last: None,
        };
        let Some(overlay) = self.overlays.all.get(&id) else { return Ok(none) };
        let (refused, dropped) = overlay.front_end.refused_and_dropped();
        let end_of = |rank: Rank| job.ranks.get(rank).and_then(|state| state.end());
        let has_ended = |rank: Rank| end_of(rank).is_some_and(|end| end.outcome != RankOutcome::Lost);
        Ok(OverlayView {
            state: state_of(overlay.front_end.standing()),
            wish: Some(overlay.wish.clone()),
            period_ms: Some(overlay.pace.period_ms()),
            nodes_here: u32::try_from(overlay.front_end.nodes_here()).unwrap_or(u32::MAX),
            processes: process_views(&overlay.front_end),
            epochs: overlay.epochs,
            late: overlay.late,
            dropped: refused.saturating_add(dropped),
            lies: overlay.lies,
            not_recorded: overlay.not_recorded,
            missing: view::missing_views(&overlay.front_end, has_ended),
            last: overlay.last.clone(),
            ..none
        })
    }

    /// A node says something to the front end.
    pub(super) fn overlay_heard(&mut self, pset: PsetId, node: NodeId, id: JobId, said: &[u8], now: Now) {
        let now_ns = self.overlays.now_ns(now);
        let is_there = self.jobs.get(&id).is_some_and(|job| job.ranks.are_on(node, pset));
        let Some(overlay) = self.overlays.all.get_mut(&id).filter(|_| is_there) else { return };
        match Up::decode(said) {
            Ok(message) => overlay.front_end.handle(node, message, now_ns),
            Err(_) => overlay.lies += 1,
        }
        self.carry_out_overlay(id, now);
    }

    /// A node of a job is gone.
    pub(super) fn overlay_loses(&mut self, id: JobId, node: NodeId, now: Now) {
        let now_ns = self.overlays.now_ns(now);
        let Some(overlay) = self.overlays.all.get_mut(&id) else { return };
        overlay.front_end.node_lost(node, now_ns);
        self.carry_out_overlay(id, now);
    }

    /// A job is over, or nobody wants to look at it any more.
    pub(super) fn end_overlay(&mut self, id: JobId, now: Now) {
        let Some(overlay) = self.overlays.all.get_mut(&id) else { return };
        overlay.front_end.end();
        self.carry_out_overlay(id, now);
        self.overlays.all.remove(&id);
    }

    /// Says what time it is.
    pub(super) fn advance_overlays(&mut self, now: Now) {
        let now_ns = self.overlays.now_ns(now);
        let is_due = |overlay: &Overlay| overlay.front_end.poll_timeout().is_some_and(|due_ns| due_ns <= now_ns);
        let due: Vec<JobId> =
            self.overlays.all.iter().filter(|(_, overlay)| is_due(overlay)).map(|(id, _)| *id).collect();
        for id in due {
            if let Some(overlay) = self.overlays.all.get_mut(&id) {
                overlay.front_end.handle_timeout(now_ns);
            }
            self.carry_out_overlay(id, now);
        }
    }

    /// Says what the front end has to say, and records what it has gathered.
    fn carry_out_overlay(&mut self, id: JobId, now: Now) {
        let Some(overlay) = self.overlays.all.get_mut(&id) else { return };
        while let Some((node, order)) = overlay.front_end.poll_transmit() {
            let Some(pset) = self.nodes.get(node).map(|node| node.pset) else { continue };
            self.plant.tell(pset, &ToPset::Overlay { job: id, node, order });
        }
        let (mut lies, mut is_too_wide, mut slower_ms) = (Vec::new(), false, None);
        let (_, mut dropped) = overlay.front_end.refused_and_dropped();
        dropped = dropped.saturating_sub(core::mem::replace(&mut overlay.dropped, dropped));
        while let Some(event) = overlay.front_end.poll_event() {
            let (part, is_late): (Part, bool) = match event {
                Event::Started { processes, depth } => {
                    tracing::info!(job = id.0, processes, depth, "overlay runs");
                    continue;
                }
                Event::TooWide => {
                    is_too_wide = true;
                    continue;
                }
                Event::Lie(node) => {
                    overlay.lies += 1;
                    if overlay.lies <= OVERLAY_LIES_TOLD_MAX {
                        lies.push(node);
                    }
                    continue;
                }
                Event::Stacks(stacks) => {
                    let stacks = stacks.iter().map(|(frames, count)| (frames.to_vec(), count)).collect();
                    let generation = overlay.front_end.generation();
                    // What is not recorded is not shown either; that it is so the epochs say.
                    let order = ProfileOrder::Stacks { job: id, generation, stacks };
                    overlay.not_recorded += u64::from(!self.plant.record_profile(order));
                    continue;
                }
                Event::Epoch(part) => (part, false),
                Event::Late(part) => (part, true),
            };
            overlay.epochs += u64::from(!is_late);
            overlay.late += u64::from(is_late);
            if is_late || dropped > 0 {
                overlay.pace.is_late(part.epoch());
            }
            slower_ms = slower_ms.or(if is_late { None } else { overlay.pace.epoch() });
            let view = epoch_view(&overlay.front_end, &part, now.realtime_ns);
            if overlay.last.as_ref().is_none_or(|last| last.epoch <= view.epoch) {
                overlay.last = Some(view.clone());
            }
            if !self.plant.record_profile(ProfileOrder::Epoch(id, Box::new(view))) {
                overlay.not_recorded += 1;
                overlay.pace.is_late(part.epoch());
            }
        }
        let (wish, is_over) = (overlay.wish.clone(), overlay.front_end.standing() == Standing::Over);
        if is_too_wide {
            let text = format!(
                "the topology of job {id}'s overlay has a process with more than {OVERLAY_CHILDREN_MAX} below it, or a \
                 node that more than {OVERLAY_CALLERS_MAX} others speak to: the front end hears all nodes itself"
            );
            self.record_ras(None, &ras(Severity::Warn, RasKind::Overlay, Some(id), text), now);
        }
        if let Some(period_ms) = slower_ms.filter(|_| !is_over) {
            let text =
                format!("what job {id}'s overlay gathers comes late: ranks are looked at every {period_ms} ms now");
            self.record_ras(None, &ras(Severity::Info, RasKind::Overlay, Some(id), text), now);
            if let Err(refused) = self.begin_overlay_at(id, wish, period_ms, now) {
                tracing::warn!(job = id.0, refused.message, "no overlay any more");
            }
        }
        for node in lies {
            let text = format!("node {node} says to the overlay of job {id} what it cannot know");
            self.record_ras(Some(node), &ras(Severity::Warn, RasKind::Overlay, Some(id), text), now);
        }
    }
}

/// As people write them, such as `0-3,7`.
fn in_ranges(ranks: &Ranks) -> String {
    let mut text = String::new();
    for range in ranks.ranges() {
        let last = Rank(range.first.0.saturating_add(range.count.saturating_sub(1)));
        let comma = if text.is_empty() { "" } else { "," };
        match range.count {
            1 => text += &format!("{comma}{}", range.first),
            _ => text += &format!("{comma}{}-{last}", range.first),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use coppice_api::overlay::OverlayWish;
    use coppice_protocol::ids::Rank;
    use coppice_protocol::ranks::Ranks;

    use super::{check, in_ranges};

    #[test]
    fn ranks_are_written_as_people_do() {
        let of = |ranks: &[u32]| in_ranges(&ranks.iter().copied().map(Rank).collect::<Ranks>());
        assert_eq!([of(&[]), of(&[4]), of(&[0, 1, 2, 3, 7]), of(&[1, 3, 4])], ["", "4", "0-3,7", "1,3-4"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        check(&OverlayWish::default()).expect("fine");
        check(&OverlayWish { sample_hz: Some(1000), ..OverlayWish::default() }).expect("fine");
        let cases = [
            (OverlayWish { period_ms: 9, ..OverlayWish::default() }, "an epoch of 9 ms"),
            (OverlayWish { period_ms: 3_600_001, ..OverlayWish::default() }, "10 ms to 3600 s"),
            (OverlayWish { sample_hz: Some(0), ..OverlayWish::default() }, "use 1 to 1000"),
            (OverlayWish { sample_hz: Some(1001), ..OverlayWish::default() }, "cannot be sampled 1001 times"),
            (OverlayWish { topology: Some("0:0 1:0".into()), ..OverlayWish::default() }, "--overlay-topology: "),
        ];
        for (wish, words) in cases {
            let refused = check(&wish).expect_err(words);
            assert!(refused.message.contains(words) && !refused.message.contains('\n'), "{}", refused.message);
        }
    }
}
