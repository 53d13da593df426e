//! Messages for the service node, in order. At its limit nothing is heard any more that could add to them
//! ([`super::Machine::is_full`]); what was heard before, or is due, is said all the same.
//!
//! The service node hears of every rank of a job, so what waits here of launches and ends goes together: as many as
//! come before it takes the message are in one.

use std::collections::VecDeque;

use coppice_protocol::control::{Ends, RankReport};
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::ENDS_BYTES_MAX;
use coppice_protocol::pset::{FromPset, NodeEnds};
use coppice_protocol::retain::RetainedProgram;

use crate::limits::OUTBOX_MESSAGES_MAX;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<FromPset>,
    /// What the reports in the last message may take, if it is one of ends, bytes.
    ends_bytes: usize,
}

impl Outbox {
    pub(super) fn push(&mut self, message: FromPset) {
        self.queue.push_back(message);
    }

    /// A rank was launched. That may be said before the end of others.
    pub(super) fn launched(&mut self, job: JobId, rank: Rank) {
        let mut last = self.queue.iter_mut().rev();
        let last = match last.next() {
            Some(FromPset::Ended(_)) => last.next(),
            last => last,
        };
        let is_told = match last {
            Some(FromPset::Launched { job: of, ranks }) => *of == job && ranks.add(rank),
            _ => false,
        };
        if !is_told {
            self.push(FromPset::Launched { job, ranks: rank.into() });
        }
    }

    /// A rank of a node has ended, which holds this then.
    pub(super) fn ended(&mut self, node: NodeId, report: RankReport, held: &[RetainedProgram]) {
        let bytes = report.bytes_max();
        match self.queue.back_mut() {
            Some(FromPset::Ended(all)) if self.ends_bytes + bytes <= ENDS_BYTES_MAX => {
                self.ends_bytes += bytes;
                match all.last_mut() {
                    Some(last) if last.node == node => {
                        last.ends.held = held.to_vec();
                        last.ends.reports.push(report);
                    }
                    _ => all.push(NodeEnds { node, ends: Ends { held: held.to_vec(), reports: vec![report] } }),
                }
            }
            _ => {
                self.ends_bytes = bytes;
                let ends = Ends { held: held.to_vec(), reports: vec![report] };
                self.push(FromPset::Ended(vec![NodeEnds { node, ends }]));
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<FromPset> {
        self.queue.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether there is room also for what nobody misses.
    pub(super) fn has_room_to_spare(&self) -> bool {
        self.queue.len() < OUTBOX_MESSAGES_MAX / 2
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= OUTBOX_MESSAGES_MAX
    }
}
