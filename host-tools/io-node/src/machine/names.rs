//! Leases of names ([`coppice_protocol::lease::Names`]): which answers nodes may keep, and changes that wait until
//! nodes have forgotten what they keep.
//!
//! A call that changes names or attributes waits here before anything is done on the host, holding nothing but its
//! node's slot, until all other nodes have given their leases back; after [`RECALL_TIME_MAX`] it fails with `EIO`. What
//! is done to a file by who has it open to write needs no asking: its attributes are told, but not to be kept.

use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::lease::{Mark, Names};
use coppice_protocol::ship::{Call, FileStatus, Keeping, Known, Notice, Reply};
use rustix::io::Errno;

use super::calls::{CallId, failed};
use super::effect::{Answer, Effect, PlaceId};
use super::leases::{Party, file_of, is_regular};
use super::timers::Timer;
use super::{Machine, Now};
use crate::clock::ns;
use crate::limits::RECALL_TIME_MAX;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct NameLeases {
    table: Names<Party>,
    /// Changes that wait, in order.
    waiting: Vec<CallId>,
}

/// What a call means for names.
#[derive(Debug, Default)]
pub(super) struct AboutNames {
    /// When its answer may be kept.
    mark: Option<Mark>,
    /// It changes some, and that counts.
    changes: bool,
    /// What is to be done when it has waited.
    waits: Option<Call>,
    /// As [`Keeping::is_plain`].
    is_plain: bool,
    /// As in [`Known::Entries`].
    listed: Vec<Option<FileStatus>>,
}

impl AboutNames {
    /// Of a call of which nobody keeps anything.
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    /// Takes out of an answer what is said beside what it is.
    pub(super) fn hear(&mut self, (reply, bytes): Answer) -> Answer {
        let Reply::Known(keeping, known) = reply else { return (reply, bytes) };
        self.is_plain |= keeping.is_plain;
        let known = match known {
            Known::Entries { next, attributes } => {
                self.listed = attributes;
                Known::Entries { next, attributes: Vec::new() }
            }
            other => other,
        };
        (known.into(), bytes)
    }

    /// It waits until this may be done.
    pub(super) fn waits_with(&mut self, call: Call) {
        self.waits = Some(call);
    }

    /// Whether its paths led through no symbolic link.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether it waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits.is_some()
    }
}

impl NameLeases {
    /// Changes that wait.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }
}

impl Machine {
    /// A call begins, of a rank whose node may have leases. Gives also whether it is to wait; then
    /// [`Machine::wait_for_names`] is to follow.
    pub(super) fn names_begin(&mut self, party: Party, call: &mut Call) -> (AboutNames, bool) {
        let mut about = AboutNames::default();
        let mut waits = false;
        if call.changes_names() {
            let (recalls, mark) = self.names.table.change(party);
            (about.mark, about.changes) = (mark, true);
            for (party, number) in recalls {
                self.recall_names(party, number);
            }
            waits = !self.names.table.may_change(party);
        } else if let Call::Manifest { .. } = call {
            about.mark = self.names.table.look_at_all(party);
        } else if call.looks_at_names() {
            about.mark = self.names.table.look(party);
        } else if let Call::Close(_) = call {
            about.mark = self.names.table.beside(party);
        }
        if let Call::List { attributes, .. } = call {
            *attributes &= about.mark.is_some();
        }
        (about, waits)
    }

    /// A change waits until nobody else has a lease.
    pub(super) fn wait_for_names(&mut self, id: CallId, now: Now) {
        self.calls.waits_for_lease(id);
        self.names.waiting.push(id);
        self.timers.set(now.ns + ns(RECALL_TIME_MAX), Timer::RecallNames(id));
    }

    /// A call is over, whatever became of it. Gives what may be kept of its answer: all, and attributes of files that
    /// nobody has open to write.
    pub(super) fn names_end(&mut self, party: Party, about: &AboutNames) -> (bool, bool) {
        let kept = about.mark.map_or((false, false), |mark| self.names.table.still(party, mark));
        if about.changes {
            self.names.table.changed(party);
        }
        kept
    }

    /// The answer to a call of which so much may be kept.
    pub(super) fn keepable(
        &self,
        about: AboutNames,
        (all, attributes): (bool, bool),
        (reply, bytes): Answer,
    ) -> Answer {
        let Some(mark) = about.mark.filter(|_| all) else { return (reply, bytes) };
        let may_be_kept =
            |status: &FileStatus| attributes && !(is_regular(status) && self.leases.is_written(file_of(status)));
        let mut keeping = Keeping { number: mark.number, is_plain: about.is_plain, attributes };
        match reply.into_known() {
            Ok(mut known) => {
                match &mut known {
                    Known::Opened { status, .. } | Known::Status(status) => keeping.attributes = may_be_kept(status),
                    // Some of what was said may be of before.
                    Known::Manifest { made, .. } if !attributes => *made = 0,
                    Known::Entries { attributes, .. } => {
                        let listed = about.listed.into_iter();
                        *attributes = listed.map(|status| status.filter(&may_be_kept)).collect();
                    }
                    _ => {}
                }
                (Reply::Known(keeping, known), bytes)
            }
            Err(reply) => (*reply, bytes),
        }
    }

    /// Somebody has closed a file that was open to be written.
    pub(super) fn wrote(&mut self) {
        self.names.table.wrote();
    }

    /// A node gives its lease back.
    pub(super) fn names_returned(&mut self, node: NodeId, (place, job): (PlaceId, JobId), number: u64, now: Now) {
        if self.names.table.returned(Self::party(node, place, job), number) {
            self.changes_go_on(now);
        }
    }

    /// A job has no rank on a node any more.
    pub(super) fn names_gone(&mut self, party: Party, now: Now) {
        if self.names.table.gone(party) {
            self.changes_go_on(now);
        }
    }

    /// Some lease is no more: changes that nothing is in the way of go on.
    fn changes_go_on(&mut self, _now: Now) {
        for id in std::mem::take(&mut self.names.waiting) {
            let Some((party, owner, about)) = self.calls.waiting_for_names(id) else { continue };
            if !self.names.table.may_change(party) {
                self.names.waiting.push(id);
            } else if let Some(call) = about.waits.take() {
                self.calls.goes_out(id);
                self.effects.push(Effect::Names { id, place: party.place(), rank: owner.rank, call });
            }
        }
    }

    /// A change has waited long enough.
    pub(super) fn recall_of_names_is_late(&mut self, id: CallId, now: Now) {
        let Some((_, owner, _)) = self.calls.waiting_for_names(id) else { return };
        self.tell_of_kept_lease(owner);
        self.names.waiting.retain(|other| *other != id);
        self.finish(id, failed(Errno::IO), now);
    }

    fn recall_names(&mut self, party: Party, number: u64) {
        self.notify_node(party.node(), &Notice::RecallNames { job: party.job(), number });
    }

    /// A node has a new connection: it is asked again for what it was asked for.
    pub(super) fn recall_names_again(&mut self, node: NodeId) {
        let parties: Vec<Party> = self.names.table.holders().filter(|party| party.node() == node).collect();
        for party in parties {
            if let Some(number) = self.names.table.recalled(party) {
                self.recall_names(party, number);
            }
        }
    }
}
