//! The fabric and the I/O nodes: started, watched, started anew.
//!
//! Nodes need their I/O node, I/O nodes need the fabric. When one of them ends, what rests on it is ended too and comes
//! back in order: simpler to reason about than half a network.

use std::time::Instant;

use coppice_api::cluster::{ClusterState, ProcessView};
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ras::{RasKind, Severity};

use super::{Controller, Now, ras};
use crate::limits::{HELPER_ANSWER_TIME_MAX, HELPER_ASK_INTERVAL, HELPER_ATTEMPTS_MAX, HELPER_START_TIME_MAX};
use crate::plant::{FromFabric, HelperEvent, Incarnation, Plant, Stop};

/// What is wrong with a helper that was asked and says nothing.
const SILENT: &str = "did not say that it is alive for 15 s";

/// What the limit is called there.
const _: () = assert!(HELPER_ANSWER_TIME_MAX.as_secs() == 15);

/// What a helper process is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HelperPhase {
    /// There is none.
    #[default]
    Off,
    /// Started; not listening yet.
    Starting {
        /// When it counts as failed.
        deadline: Instant,
    },
    /// It does its work. It is asked whether it does, now and then.
    Listening {
        /// When it is to be asked next or, if `asked`, to have answered.
        deadline: Instant,
        /// It was asked and has said nothing since.
        asked: bool,
    },
    /// It was told to end.
    Stopping,
}

/// What is due for a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelperDue {
    /// To be asked whether it is alive.
    Ask,
    /// It did not get ready in time.
    Late,
    /// It did not answer.
    Silent,
}

/// A process the nodes rest on.
#[derive(Debug, Default)]
pub(super) struct Helper {
    phase: HelperPhase,
    incarnation: Incarnation,
    /// Starts in a row that failed.
    failures: u32,
    pid: Option<u32>,
}

impl Helper {
    pub(super) fn is_alive(&self) -> bool {
        self.phase != HelperPhase::Off
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(super) fn is_listening(&self) -> bool {
        matches!(self.phase, HelperPhase::Listening { .. })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.phase == HelperPhase::Stopping
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            HelperPhase::Starting { deadline } | HelperPhase::Listening { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    pub(super) fn stopping(&mut self) {
        if self.is_alive() {
            self.phase = HelperPhase::Stopping;
        }
    }

    fn start(&mut self, now: Now) -> Incarnation {
        self.incarnation = self.incarnation.next();
        self.phase = HelperPhase::Starting { deadline: now.instant + HELPER_START_TIME_MAX };
        self.incarnation
    }

    fn listening(&mut self, now: Now) {
        if matches!(self.phase, HelperPhase::Starting { .. }) {
            self.phase = HelperPhase::Listening { deadline: now.instant + HELPER_ASK_INTERVAL, asked: false };
            self.failures = 0;
        }
    }

    /// It said something, whatever it is.
    fn heard(&mut self, now: Now) {
        if let HelperPhase::Listening { deadline, asked } = &mut self.phase {
            (*deadline, *asked) = (now.instant + HELPER_ASK_INTERVAL, false);
        }
    }

    /// What is due for it.
    fn due(&mut self, now: Now) -> Option<HelperDue> {
        match &mut self.phase {
            HelperPhase::Starting { deadline } if *deadline <= now.instant => Some(HelperDue::Late),
            HelperPhase::Listening { deadline, asked } if *deadline <= now.instant => {
                // If this comes late it was we who did not run, and the answer may lie there unheard.
                let is_late = *deadline + HELPER_ASK_INTERVAL <= now.instant;
                let is_silent = std::mem::replace(asked, true) && !is_late;
                *deadline = now.instant + HELPER_ANSWER_TIME_MAX;
                Some(if is_silent { HelperDue::Silent } else { HelperDue::Ask })
            }
            _ => None,
        }
    }

    /// It has ended. Returns whether it may be started once more.
    fn ended(&mut self) -> bool {
        if matches!(self.phase, HelperPhase::Starting { .. }) {
            self.failures += 1;
        }
        self.phase = HelperPhase::Off;
        self.pid = None;
        self.failures < HELPER_ATTEMPTS_MAX
    }

    fn has_given_up(&self) -> bool {
        self.failures >= HELPER_ATTEMPTS_MAX
    }
}

/// A pset's I/O node.
#[derive(Debug)]
pub(super) struct Pset {
    pub(super) id: PsetId,
    pub(super) nodes: Vec<NodeId>,
    pub(super) helper: Helper,
}

impl Pset {
    pub(super) fn new(id: PsetId, nodes: Vec<NodeId>) -> Self {
        Self { id, nodes, helper: Helper::default() }
    }
}

impl<P: Plant> Controller<P> {
    pub(super) fn start_fabric(&mut self, now: Now) {
        let incarnation = self.fabric.start(now);
        self.plant.start_fabric(incarnation, &self.links.shapes());
    }

    /// Starts the I/O nodes that are not there, once there is a fabric.
    pub(super) fn start_io_nodes(&mut self, now: Now) {
        if !self.fabric.is_alive() && !self.fabric.has_given_up() && self.psets.iter().all(|p| !p.helper.is_alive()) {
            self.start_fabric(now);
        }
        if !self.fabric.is_listening() {
            return;
        }
        for pset in &mut self.psets {
            if !pset.helper.is_alive() && !pset.helper.has_given_up() {
                let incarnation = pset.helper.start(now);
                self.plant.start_io_node(pset.id, incarnation);
            }
        }
    }

    pub(super) fn fabric_event(&mut self, incarnation: Incarnation, event: HelperEvent<FromFabric>, now: Now) {
        if incarnation != self.fabric.incarnation {
            return;
        }
        match event {
            HelperEvent::Started { pid } => self.fabric.pid = Some(pid),
            HelperEvent::Said(said) => {
                self.fabric.heard(now);
                match said {
                    FromFabric::Alive => self.fabric.listening(now),
                    FromFabric::Answer { request, outcome } => return self.fabric_answered(request, outcome, now),
                    FromFabric::RecordingEnded { link, reason } => return self.recording_ended(link, &reason, now),
                }
            }
            HelperEvent::Ended(reason) => {
                let again = self.fabric.ended();
                self.changed = true;
                self.fabric_owes_no_more();
                if self.state == ClusterState::Stopping {
                    return;
                }
                let reason = format!("the fabric ended: {reason}");
                self.record_ras(None, &ras(Severity::Error, RasKind::IoNodeLost, None, reason.clone()), now);
                self.recordings_gone(&reason, now);
                for index in 0..self.psets.len() {
                    self.end_pset(index, &reason, now);
                }
                if !again {
                    self.fail(reason);
                }
            }
        }
        self.changed = true;
    }

    pub(super) fn pset_event(
        &mut self,
        pset: PsetId,
        incarnation: Incarnation,
        event: HelperEvent<FromPset>,
        now: Now,
    ) {
        let Some(known) = self.pset_mut(pset) else { return };
        if incarnation != known.helper.incarnation {
            return;
        }
        if matches!(event, HelperEvent::Said(_)) {
            known.helper.heard(now);
        }
        match event {
            HelperEvent::Started { pid } => known.helper.pid = Some(pid),
            HelperEvent::Said(FromPset::Listening) => known.helper.listening(now),
            HelperEvent::Said(message) => return self.pset_message(pset, message, now),
            HelperEvent::Ended(reason) => {
                let expected = known.helper.phase == HelperPhase::Stopping;
                let again = known.helper.ended();
                self.changed = true;
                let reason = format!("the I/O node of pset {pset} ended: {reason}");
                self.regions.pset_lost(pset, &reason);
                if self.state == ClusterState::Stopping {
                    return;
                }
                if !expected {
                    self.record_ras(None, &ras(Severity::Error, RasKind::IoNodeLost, None, reason.clone()), now);
                    self.end_nodes_of(pset, &reason, now);
                }
                if !again {
                    self.fail(reason);
                }
            }
        }
        self.changed = true;
    }

    /// Ends an I/O node and all that rests on it.
    fn end_pset(&mut self, index: usize, reason: &str, now: Now) {
        let Some(pset) = self.psets.get_mut(index) else { return };
        let id = pset.id;
        if pset.helper.is_alive() {
            pset.helper.stopping();
            self.plant.kill_io_node(id);
        }
        self.end_nodes_of(id, reason, now);
    }

    /// An I/O node that breaks the protocol is of no use any more.
    pub(super) fn distrust_pset(&mut self, pset: PsetId, reason: &str, now: Now) {
        let reason = format!("the I/O node of pset {pset} was ended: {reason}");
        self.record_ras(None, &ras(Severity::Error, RasKind::IoNodeLost, None, reason.clone()), now);
        self.end_pset(pset.0 as usize, &reason, now);
    }

    fn end_nodes_of(&mut self, pset: PsetId, reason: &str, now: Now) {
        let nodes = self.pset_mut(pset).map(|pset| pset.nodes.clone());
        for node in nodes.unwrap_or_default() {
            self.end_node(node, reason, now);
        }
    }

    pub(super) fn advance_helpers(&mut self, now: Now) {
        match self.fabric.due(now) {
            None => {}
            Some(HelperDue::Ask) => self.plant.ask_fabric(),
            Some(HelperDue::Late) => {
                tracing::warn!("the fabric takes too long to start");
                self.plant.stop_fabric(Stop::AtOnce);
                self.fabric.phase = HelperPhase::Stopping;
                self.fabric.failures += 1;
            }
            Some(HelperDue::Silent) => {
                let text = format!("the fabric {SILENT}");
                self.record_ras(None, &ras(Severity::Error, RasKind::IoNodeLost, None, text.clone()), now);
                self.plant.stop_fabric(Stop::AtOnce);
                self.fabric.stopping();
                for index in 0..self.psets.len() {
                    self.end_pset(index, &text, now);
                }
            }
        }
        for index in 0..self.psets.len() {
            let Some(pset) = self.psets.get_mut(index) else { continue };
            match pset.helper.due(now) {
                None => {}
                Some(HelperDue::Ask) => self.plant.tell(pset.id, &ToPset::Ask),
                Some(HelperDue::Late) => {
                    tracing::warn!(pset = pset.id.0, "the I/O node takes too long to start");
                    self.plant.kill_io_node(pset.id);
                    pset.helper.phase = HelperPhase::Stopping;
                    pset.helper.failures += 1;
                }
                Some(HelperDue::Silent) => {
                    let pset = pset.id;
                    self.distrust_pset(pset, &format!("it {SILENT}"), now);
                }
            }
        }
    }

    pub(super) fn helper_views(&self) -> Vec<ProcessView> {
        let fabric = self.fabric.pid.map(|pid| ProcessView { role: "fabric".into(), pset: None, pid });
        let io_nodes = self.psets.iter().filter_map(|pset| {
            let pid = pset.helper.pid?;
            Some(ProcessView { role: "io-node".into(), pset: Some(pset.id.0), pid })
        });
        fabric.into_iter().chain(io_nodes).collect()
    }
}
