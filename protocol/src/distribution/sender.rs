//! What a member has to send, and when its link is free for it.

use alloc::collections::VecDeque;

use super::pieces::PacketSet;
use super::plan::Plan;
use crate::limits::ANSWERS_PER_MEMBER_MAX;

/// A piece on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    pub(super) to: u32,
    pub(super) piece: u32,
    pub(super) packets: PacketSet,
}

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// Pieces for those below, each with the number of the next of them that it goes to.
    pushes: VecDeque<(u32, u32)>,
    /// What was asked for, which goes first: somebody waits for it.
    answers: VecDeque<Burst>,
    /// When the link is free.
    free_ns: u64,
    /// Time that answers may still take before pieces for those below, ns: negative while they have to wait.
    credit_ns: i64,
}

/// The part of the link's time that answers get while there are pieces for those below, who would all be late.
const ANSWERS_SHARE: u64 = 4;
/// The same at home, for which everybody waits.
const HOME_ANSWERS_SHARE: u64 = 16;
/// Answers that may be given at once, as pieces.
const CREDIT_PIECES: u64 = 2;

impl Sender {
    /// A piece is there to be passed on. Whether there was memory to note that.
    pub(super) fn push(&mut self, piece: u32) -> bool {
        let has_room = self.pushes.try_reserve(1).is_ok();
        if has_room {
            self.pushes.push_back((piece, 0));
        }
        has_room
    }

    /// Somebody asked for this. Whether there is room for it.
    pub(super) fn answer(&mut self, burst: Burst) -> bool {
        let again = self.answers.iter_mut().find(|other| other.to == burst.to && other.piece == burst.piece);
        if let Some(again) = again {
            again.packets = again.packets.with(burst.packets);
            return true;
        }
        let has_room = self.answers.len() < ANSWERS_PER_MEMBER_MAX && self.answers.try_reserve(1).is_ok();
        if has_room {
            self.answers.push_back(burst);
        }
        has_room
    }

    /// When something is to be sent next, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        (!self.pushes.is_empty() || !self.answers.is_empty()).then_some(self.free_ns)
    }

    /// Whether everything went to those below.
    pub(super) fn has_pushed(&self) -> bool {
        self.pushes.is_empty()
    }

    /// Whether it has nothing to send.
    pub(super) fn is_idle(&self) -> bool {
        self.due_ns().is_none()
    }

    /// What is sent next, if the link is free. `below` says who gets a piece as the so-and-so-manieth: `None` if nobody
    /// does, `Some(None)` if that one shall not have it.
    pub(super) fn next(
        &mut self,
        plan: &Plan,
        is_home: bool,
        now_ns: u64,
        below: impl Fn(u32, u32) -> Option<Option<u32>>,
    ) -> Option<Burst> {
        if self.free_ns > now_ns {
            return None;
        }
        let may_answer = self.pushes.is_empty() || self.credit_ns >= 0;
        let (burst, is_answer) = match self.answers.pop_front_if(|_| may_answer) {
            Some(burst) => (burst, true),
            None => match self.next_push(plan, below) {
                Some(burst) => (burst, false),
                None => (self.answers.pop_front()?, true),
            },
        };
        let piece_ns = plan.link_ns(plan.wire_bytes(burst.piece, burst.packets));
        let most_ns = (CREDIT_PIECES * plan.piece_ns()).cast_signed();
        let share = if is_home { HOME_ANSWERS_SHARE } else { ANSWERS_SHARE };
        let credit_ns = match is_answer {
            true if self.pushes.is_empty() => 0,
            true => -piece_ns.cast_signed(),
            false => (piece_ns / share).cast_signed(),
        };
        self.credit_ns = (self.credit_ns + credit_ns).min(most_ns);
        // A timer that was late is made up for, by a piece at most.
        self.free_ns = self.free_ns.max(now_ns.saturating_sub(plan.piece_ns())) + piece_ns;
        Some(burst)
    }

    fn next_push(&mut self, plan: &Plan, below: impl Fn(u32, u32) -> Option<Option<u32>>) -> Option<Burst> {
        while let Some((piece, number)) = self.pushes.front_mut() {
            match below(*piece, *number) {
                None => {
                    self.pushes.pop_front();
                }
                Some(to) => {
                    *number += 1;
                    if let Some(to) = to {
                        return Some(Burst { to, piece: *piece, packets: plan.packets(*piece) });
                    }
                }
            }
        }
        None
    }
}
