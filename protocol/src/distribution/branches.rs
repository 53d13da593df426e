//! What a member does in the published scheme: nothing for others, and nothing for itself, before its own branch has
//! its piece; then it asks for the pieces of other branches.

use super::estimate::{HOME, Shape};
use super::machine::Machine;
use super::message::Message;
use super::scheme::{AskVariant, Scheme};
use crate::limits::ASKS_PER_MEMBER_MAX;
use crate::trees::Branches;

/// How many pieces a member's own may be late before it asks for it.
const LATE_PIECES: u64 = 8;
/// Questions for any piece that a member has open: an answer may bring what another brings, too.
const ANY_ASKS_MAX: usize = 6;

/// How far a member's branch is.
#[derive(Debug, Default)]
pub(super) struct Branch {
    /// The first piece of the branch that may be missing, as the so-and-so-manieth.
    low: u32,
}

impl Machine {
    /// Whether it has the pieces of its own branch and has passed them on.
    pub(super) fn is_branch_served(&self) -> bool {
        self.me == HOME || self.sender.has_pushed() && self.own_missing().is_none()
    }

    /// The first piece of its own branch that it lacks.
    fn own_missing(&self) -> Option<u32> {
        let Shape::Branches(tree) = self.shape else { return None };
        let branch = tree.place(self.me)?.branch;
        let pieces = self.plan.pieces();
        (self.branch.low..)
            .map_while(|number| number.checked_mul(tree.branches())?.checked_add(branch))
            .take_while(|piece| *piece < pieces)
            .find(|piece| !self.have.has(*piece))
    }

    /// A piece that by the estimate a member has: its branch's first.
    pub(super) fn branch_piece_of(&self, member: u32) -> Option<u32> {
        let Shape::Branches(tree) = self.shape else { return None };
        Some(tree.place(member)?.branch)
    }

    /// The first of the pieces of a member's branch that is missing here.
    fn lacked_of(&self, tree: Branches, member: u32) -> Option<u32> {
        let branch = tree.place(member)?.branch;
        let pieces = (branch..self.plan.pieces()).step_by(tree.branches() as usize);
        pieces.into_iter().find(|piece| !self.have.has(*piece))
    }

    pub(super) fn look_at_branches(&mut self, tree: Branches, now_ns: u64) {
        let piece_ns = self.estimate.piece_ns();
        if let Some(piece) = self.own_missing() {
            self.branch.low = piece / tree.branches();
            let late_ns = LATE_PIECES * piece_ns + 4 * u64::from(self.plan.link.latency_ns);
            let by_ns = self.estimate.has_by(&self.shape, self.me, piece).unwrap_or(0).saturating_add(late_ns);
            let begun_ns = self.begun_ns.unwrap_or(now_ns);
            if begun_ns + by_ns > now_ns {
                self.look_ns = begun_ns + by_ns;
                return;
            }
            if !self.is_under_way(piece) {
                let parent = self.shape.parent(self.me, piece).filter(|parent| !self.others.is_avoided(*parent));
                self.ask(piece, parent.unwrap_or(HOME), now_ns);
            }
            self.look_ns = now_ns + piece_ns;
            return;
        }
        self.branch.low = self.plan.pieces();
        let asked = self.asks.len();
        if self.is_branch_served() {
            match self.plan.scheme {
                Scheme::Branches { ask: AskVariant::NodeFirst, .. } => self.ask_nodes(tree, now_ns),
                _ => self.ask_for_pieces(now_ns),
            }
        }
        // All have the pieces of their branches by now, and there is nobody to ask for what is missing.
        let late_ns = 4 * u64::from(self.plan.pieces()) * (piece_ns + u64::from(self.plan.link.latency_ns));
        if self.asks.len() == 0 && self.elapsed_ns(now_ns) > late_ns {
            self.others.miss();
        }
        // Nobody is asked all the time who does not answer.
        let is_well = self.others.misses() == 0 && self.asks.len() > asked;
        let pause_ns = if is_well { 0 } else { self.asks.patience_ns() / 16 };
        self.look_ns = now_ns + pause_ns.max(piece_ns + u64::from(self.plan.link.latency_ns));
    }

    fn ask_for_pieces(&mut self, now_ns: u64) {
        let pieces = self.plan.pieces();
        for _ in 0..2 * ASKS_PER_MEMBER_MAX {
            if self.asks.is_full() {
                return;
            }
            let start = self.choose(pieces);
            let found = self.have.missing_from(start).find(|piece| !self.is_under_way(*piece));
            let found = found.or_else(|| self.have.missing_from(0).find(|piece| !self.is_under_way(*piece)));
            let Some(piece) = found else { return };
            if !self.is_home_wanted(piece) {
                self.ask_holder(piece, now_ns);
            } else if self.asks.count_of(HOME) == 0 {
                self.ask_home(piece, now_ns);
            }
        }
    }

    fn ask_nodes(&mut self, tree: Branches, now_ns: u64) {
        if self.others.misses() > 0 {
            // Answers do not come, or bring nothing: it is asked for what is missing.
            return self.ask_for_pieces(now_ns);
        }
        for _ in 0..ASKS_PER_MEMBER_MAX {
            if self.asks.len() >= ANY_ASKS_MAX {
                return;
            }
            let member = self.choose(self.plan.members) + 1;
            let Some(piece) = self.lacked_of(tree, member) else { continue };
            let by_ns = self.estimate.serves_by(tree, member, piece);
            let has_some = by_ns.is_some_and(|by_ns| by_ns <= self.elapsed_ns(now_ns));
            if member != self.me && has_some && !self.others.is_avoided(member) {
                let has = self.have.clone();
                if self.asks.add(None, member, now_ns) {
                    self.say(member, Message::AskAny { has });
                }
            }
        }
    }
}
