//! What a member has to send, and when its link is free for it.

use alloc::collections::VecDeque;

use super::estimate::Shape;
use super::lanes::Lanes;
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
#[derive(Debug)]
pub(super) struct Sender {
    /// Pieces for those below in two trees.
    pub(super) lanes: Lanes,
    /// Pieces for those below in a branch, each with the number of the next of them that it goes to.
    pushes: VecDeque<(u32, u32)>,
    is_two_trees: bool,
    /// What was asked for, which goes first: somebody waits for it.
    answers: VecDeque<Burst>,
    /// When the link is free.
    free_ns: u64,
    /// Time that answers may still take before pieces for those below, ns: negative while they have to wait.
    credit_ns: i64,
    /// How often something went that was asked for.
    answered: u64,
}

/// The part of the link's time that answers get while there are pieces for those below, who would all be late.
const ANSWERS_SHARE: u64 = 4;
/// The same at home, for which everybody waits.
const HOME_ANSWERS_SHARE: u64 = 16;
/// Answers that may be given at once, as pieces.
const CREDIT_PIECES: u64 = 2;

impl Sender {
    /// `None` if there is no memory for it.
    pub(super) fn new(plan: &Plan, shape: &Shape, me: u32) -> Option<Self> {
        let (lanes, pushes, answers) = (Lanes::new(plan, shape, me)?, VecDeque::new(), VecDeque::new());
        Some(Self {
            lanes,
            is_two_trees: matches!(shape, Shape::Two(_)),
            pushes,
            answers,
            free_ns: 0,
            credit_ns: 0,
            answered: 0,
        })
    }

    /// A piece is there to be passed on. Whether there was memory to note that.
    pub(super) fn push(&mut self, piece: u32) -> bool {
        if self.is_two_trees {
            return self.lanes.push(piece);
        }
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
        let is_now = !self.pushes.is_empty() || !self.answers.is_empty();
        let ready_ns = if is_now { Some(0) } else { self.lanes.due_ns() };
        ready_ns.map(|ready_ns| self.free_ns.max(ready_ns))
    }

    /// Whether everything went to those below.
    pub(super) fn has_pushed(&self) -> bool {
        self.pushes.is_empty()
    }

    /// How many pieces those below have still to be sent, or may not have.
    pub(super) fn left(&self) -> usize {
        self.pushes.len() + self.lanes.left()
    }

    /// How often something went that was asked for.
    pub(super) const fn answered(&self) -> u64 {
        self.answered
    }

    /// Whether it has nothing to send.
    pub(super) fn is_idle(&self) -> bool {
        self.due_ns().is_none()
    }

    /// What is sent next, if the link is free. `below` says who gets a piece of a branch as the so-and-so-manieth.
    pub(super) fn next(
        &mut self,
        plan: &Plan,
        is_home: bool,
        now_ns: u64,
        below: impl Fn(u32, u32) -> Option<u32>,
    ) -> Option<Burst> {
        if self.free_ns > now_ns {
            return None;
        }
        let has_pushes = !self.pushes.is_empty() || self.lanes.due_ns().is_some_and(|due_ns| due_ns <= now_ns);
        let may_answer = !has_pushes || self.credit_ns >= 0;
        let (burst, is_answer) = match self.answers.pop_front_if(|_| may_answer) {
            Some(burst) => (burst, true),
            None => match self.next_push(plan, now_ns, below) {
                Some(burst) => (burst, false),
                None => (self.answers.pop_front()?, true),
            },
        };
        self.answered += u64::from(is_answer);
        let piece_ns = plan.link_ns(plan.wire_bytes(burst.piece, burst.packets));
        let most_ns = (CREDIT_PIECES * plan.piece_ns()).cast_signed();
        let share = if is_home { HOME_ANSWERS_SHARE } else { ANSWERS_SHARE };
        let credit_ns = match is_answer {
            true if !has_pushes => 0,
            true => -piece_ns.cast_signed(),
            false => (piece_ns / share).cast_signed(),
        };
        self.credit_ns = (self.credit_ns + credit_ns).min(most_ns);
        // A timer that was late is made up for, by a piece at most.
        self.free_ns = self.free_ns.max(now_ns.saturating_sub(plan.piece_ns())) + piece_ns;
        Some(burst)
    }

    fn next_push(&mut self, plan: &Plan, now_ns: u64, below: impl Fn(u32, u32) -> Option<u32>) -> Option<Burst> {
        if let Some((to, piece)) = self.lanes.next(now_ns) {
            return Some(Burst { to, piece, packets: plan.packets(piece) });
        }
        while let Some((piece, number)) = self.pushes.front_mut() {
            let Some(to) = below(*piece, *number) else {
                self.pushes.pop_front();
                continue;
            };
            *number += 1;
            return Some(Burst { to, piece: *piece, packets: plan.packets(*piece) });
        }
        None
    }
}
