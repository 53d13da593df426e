//! Having nodes give retained pages back.
//!
//! All nodes that are up are told at once; the order is answered when each of them has answered or was lost, or after
//! [`FORGET_TIME_MAX`] with the silent ones. A node that answers later is believed all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use coppice_api::cluster::ClusterState;
use coppice_api::limits::HASH_DIGITS_MIN;
use coppice_api::retain::{ForgetOrder, Forgotten};
use coppice_protocol::ids::{NodeId, ProgramId, PsetId};
use coppice_protocol::pset::ToPset;
use coppice_protocol::retain::Discarded;
use coppice_protocol::text::ByteString;

use super::requests::{Answer, Refused, reply};
use super::{Controller, Now};
use crate::limits::{FORGET_TIME_MAX, FORGETS_MAX};
use crate::plant::Plant;

/// An order that waits for nodes.
#[derive(Debug)]
struct Forget {
    answer: Answer<Forgotten>,
    /// What was given back so far.
    forgotten: Forgotten,
    /// Nodes that have not answered.
    pending: BTreeSet<NodeId>,
    since: Instant,
}

impl Forget {
    fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    fn finish(mut self, now: Now) {
        let round_trip = now.instant.saturating_duration_since(self.since);
        self.forgotten.round_trip_ns = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
        self.forgotten.silent = self.pending.iter().map(|node| node.0).collect();
        reply(self.answer, Ok(self.forgotten));
    }
}

/// Orders that wait for nodes, at most [`FORGETS_MAX`], by the number their messages carry.
#[derive(Debug, Default)]
pub(super) struct Forgets {
    last: u64,
    open: BTreeMap<u64, Forget>,
}

impl Forgets {
    /// When one of them has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        // Numbered as they came.
        self.open.first_key_value().map(|(_, forget)| forget.since + FORGET_TIME_MAX)
    }

    fn finish_where(&mut self, now: Now, is_done: impl Fn(&Forget) -> bool) {
        let done: Vec<u64> =
            self.open.iter().filter(|(_, forget)| is_done(forget)).map(|(request, _)| *request).collect();
        for request in done {
            if let Some(forget) = self.open.remove(&request) {
                forget.finish(now);
            }
        }
    }
}

impl<P: Plant> Controller<P> {
    pub(super) fn forget(&mut self, order: &ForgetOrder, answer: Answer<Forgotten>, now: Now) {
        let program = match self.check_forget(order) {
            Ok(program) => program,
            Err(refused) => return reply(answer, Err(refused)),
        };
        self.forgets.last += 1;
        let request = self.forgets.last;
        let mut told: BTreeMap<PsetId, Vec<NodeId>> = BTreeMap::new();
        for node in self.nodes.iter_mut().filter(|node| node.is_up()) {
            node.holdings.owes(request);
            told.entry(node.pset).or_default().push(node.id);
        }
        let pending = told.values().flatten().copied().collect();
        for (pset, nodes) in told {
            self.plant.tell(pset, &ToPset::Discard { request, program, nodes });
        }
        let forget = Forget { answer, forgotten: Forgotten::default(), pending, since: now.instant };
        self.forgets.open.insert(request, forget);
        self.forgets.finish_where(now, Forget::is_done);
    }

    /// Whether an order can be taken, and the program it means; none: all.
    fn check_forget(&mut self, order: &ForgetOrder) -> Result<Option<ProgramId>, Refused> {
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        let program = order.program.as_ref().map(|program| self.find_program(program)).transpose()?;
        // Nobody waits for the answers of those whose users went away.
        self.forgets.open.retain(|_, forget| !forget.answer.is_closed());
        if self.forgets.open.len() >= FORGETS_MAX {
            return Err(Refused::conflict(&format!(
                "{FORGETS_MAX} orders to forget programs wait for nodes already; try again when they are done"
            )));
        }
        Ok(program)
    }

    /// The program that is meant by the first digits of its hash or by the path it was submitted from last.
    fn find_program(&self, program: &ByteString) -> Result<ProgramId, Refused> {
        let is_hash = |text: &&str| text.len() >= HASH_DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(text) = program.to_str().filter(is_hash) {
            match self.records.storage().programs_by_hash(text)?[..] {
                [] => {}
                [program] => return Ok(program),
                _ => {
                    let line = format!("'{program}' begins the hashes of several programs; give more digits of it");
                    return Err(Refused::conflict(&line));
                }
            }
            // Nodes are asked for a program nobody knows, too; they have nothing to give back.
            if let Ok(hash) = blake3::Hash::from_hex(text) {
                return Ok(ProgramId(*hash.as_bytes()));
            }
        }
        let found = self.records.storage().program_from(program)?;
        found.ok_or_else(|| {
            Refused::missing(format!(
                "no program '{program}' was run; give its path, or {HASH_DIGITS_MIN} or more digits of its hash, see \
                 `coppice programs`"
            ))
        })
    }

    /// A node's answer to an order to discard.
    pub(super) fn node_discarded(&mut self, pset: PsetId, id: NodeId, answer: &Discarded, now: Now) {
        let node = self.nodes.get_mut(id).filter(|node| node.pset == pset && node.is_up());
        if node.is_none_or(|node| !node.holdings.answered(answer.request)) {
            let request = answer.request;
            return tracing::debug!(pset = pset.0, node = id.0, request, "discarded, but not asked to");
        }
        self.set_held(id, &answer.still_held, now);
        let Some(forget) = self.forgets.open.get_mut(&answer.request) else { return };
        forget.pending.remove(&id);
        let forgotten = &mut forget.forgotten;
        forgotten.nodes += u32::from(!answer.given_back.is_empty());
        for given in &answer.given_back {
            forgotten.pages = forgotten.pages.saturating_add(given.pages);
            forgotten.bytes = forgotten.bytes.saturating_add(given.bytes);
        }
        self.forgets.finish_where(now, Forget::is_done);
    }

    /// A node is lost: it will not answer, and holds nothing.
    pub(super) fn owes_no_more(&mut self, node: NodeId, now: Now) {
        for forget in self.forgets.open.values_mut() {
            forget.pending.remove(&node);
        }
        self.forgets.finish_where(now, Forget::is_done);
    }

    pub(super) fn advance_forgets(&mut self, now: Now) {
        self.forgets.finish_where(now, |forget| forget.since + FORGET_TIME_MAX <= now.instant);
    }

    /// The cluster goes down: nobody waits for its nodes any more.
    pub(super) fn end_forgets(&mut self) {
        for (_, forget) in std::mem::take(&mut self.forgets.open) {
            reply(forget.answer, Err(Refused::conflict("the cluster is going down")));
        }
    }
}
