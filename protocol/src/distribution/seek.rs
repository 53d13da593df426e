//! Whom a member asks for what it lacks, and what it makes of no answer.

use super::asks::Asked;
use super::estimate::{HOME, Shape, tree_of};
use super::machine::Machine;
use super::message::Message;
use crate::trees::Place;

/// Of those that are asked at random, so many are tried until one may have what is wanted.
const HOLDER_TRIES: u32 = 12;
/// So many of them are of the member's own pset, unless whoever was asked last did not have it.
const NEAR_TRIES: u32 = 8;
/// Where members stand still, who does not answer is silent when nothing was heard of it for so many times that an
/// answer may take, besides.
const SILENT_TIMES: u64 = 2;
/// So many in a row that did not have it, for each step from home, then that is asked.
const MISSES_MAX: u32 = 3;
/// As many steps everybody is taken to be from home in a tree of branches, where all of a branch may be gone.
const BRANCH_STEPS: u32 = 8;

impl Machine {
    /// Asks a member for what is missing of a piece, if there is room for that.
    pub(super) fn ask(&mut self, piece: u32, of: u32, now_ns: u64) -> bool {
        self.ask_since(piece, of, now_ns, now_ns)
    }

    /// The same if it was asked for it before.
    fn ask_since(&mut self, piece: u32, of: u32, since_ns: u64, now_ns: u64) -> bool {
        let assembly = self.assemblies.get(piece);
        let whole = self.plan.packets(piece);
        let packets = assembly.map_or(whole, |assembly| whole.without(assembly.packets));
        let is_asked = !packets.is_empty() && self.asks.add_again(Some(piece), of, since_ns, now_ns);
        if is_asked {
            self.say(of, Message::Ask { piece, packets });
        }
        is_asked
    }

    /// Asks somebody at random who by the estimate has a piece. Whether anybody was asked.
    pub(super) fn ask_holder(&mut self, piece: u32, now_ns: u64) -> bool {
        let elapsed_ns = self.elapsed_ns(now_ns);
        if let Some(holder) = self.holder(piece, elapsed_ns) {
            return self.ask(piece, holder, now_ns);
        }
        // Perhaps one of those that did not answer does now.
        let had_suspects = self.others.forgive();
        // Where all should have it, and there is nobody to ask, home is.
        let is_due = match &self.shape {
            Shape::Two(trees) => self.estimate.all_have_by(trees, piece) <= elapsed_ns,
            Shape::Branches(_) => had_suspects || self.others.has_liars(),
        };
        if is_due {
            self.others.miss();
        }
        false
    }

    /// Whether too many in a row did not have what they were asked for.
    pub(super) fn is_home_wanted(&self, piece: u32) -> bool {
        let steps = match &self.shape {
            Shape::Two(trees) => trees.depth(tree_of(piece), self.me),
            Shape::Branches(_) => BRANCH_STEPS,
        };
        let most = if self.farewell.is_over() { 1 } else { MISSES_MAX * steps };
        self.others.misses() >= most
    }

    /// Asks home, which has all.
    pub(super) fn ask_home(&mut self, piece: u32, now_ns: u64) -> bool {
        // When all is over, others are not asked again before one of them has had something.
        if !self.farewell.is_over() {
            self.others.hit();
        }
        self.ask(piece, HOME, now_ns)
    }

    fn holder(&mut self, piece: u32, elapsed_ns: u64) -> Option<u32> {
        for number in 0..HOLDER_TRIES {
            let is_near = number < NEAR_TRIES && self.others.misses() == 0;
            let member = self.random_member(piece, is_near)?;
            let is_likely = match &self.shape {
                // What is late at a member is late below it.
                Shape::Two(trees) => {
                    !trees.is_below(tree_of(piece), member, self.me)
                        && self.estimate.all_have_by(trees, piece) <= elapsed_ns
                }
                Shape::Branches(tree) => {
                    let by_ns = self.estimate.serves_by(*tree, member, piece);
                    by_ns.is_some_and(|by_ns| by_ns <= elapsed_ns)
                }
            };
            if member != self.me && is_likely && !self.others.is_avoided(member) {
                return Some(member);
            }
        }
        None
    }

    fn random_member(&mut self, piece: u32, is_near: bool) -> Option<u32> {
        match &self.shape {
            Shape::Two(trees) => {
                let topology = trees.topology();
                let near = topology.neighbours(topology.place(self.me).0).filter(|_| is_near);
                let (first, last) = near.unwrap_or(1..=self.plan.members).into_inner();
                // Home is asked in another way.
                let first = first.max(1);
                (first <= last).then(|| first + self.choose(last - first + 1))
            }
            Shape::Branches(tree) => {
                let tree = *tree;
                let branch = piece % tree.branches();
                let numbers = (self.plan.members - branch).div_ceil(tree.branches());
                let number = self.choose(numbers);
                tree.member(Place { branch, number })
            }
        }
    }

    /// Somebody does not have what it was asked for.
    pub(super) fn not_here(&mut self, from: u32, piece: Option<u32>, now_ns: u64) {
        let Some(asked) = self.asks.refused(piece, from) else { return };
        let is_to_come = |piece: &u32| {
            let is_parent = match self.shape {
                Shape::Two(_) => self.feeds.is_parent(*piece, from),
                Shape::Branches(_) => self.shape.parent(self.me, *piece) == Some(from),
            };
            is_parent && from != HOME
        };
        if let Some(piece) = piece.filter(is_to_come) {
            self.asks.wait_for(piece, from, asked.since_ns, now_ns);
        } else {
            self.others.miss();
            let about = piece.or_else(|| self.branch_piece_of(from));
            if let (Some(about), Some(begun_ns)) = (about, self.begun_ns) {
                self.estimate.correct(&self.shape, from, about, now_ns.saturating_sub(begun_ns));
            }
        }
        self.look(now_ns);
    }

    /// What was asked for did not come in time.
    pub(super) fn not_answered(&mut self, asked: Asked, now_ns: u64) {
        let stall_ns = u64::from(self.plan.link.stall_ns);
        if asked.is_to_come {
            // Perhaps it came and is lost. Where it does not come for long, whoever else has it is asked.
            let until_ns = asked.since_ns.saturating_add(stall_ns);
            if let Some(piece) = asked.piece.filter(|piece| !self.have.has(*piece)) {
                match until_ns > now_ns {
                    true => self.ask_since(piece, asked.of, asked.since_ns, now_ns),
                    false => self.ask_holder(piece, now_ns),
                };
            }
        } else {
            if let Some(piece) = asked.piece {
                self.assemblies.give_up(piece, asked.of, asked.is_heard);
            }
            if asked.is_heard {
                self.look_ns = self.look_ns.min(now_ns);
                return;
            }
            self.others.miss();
            if !self.feeds.not_answered(asked.of, asked.at_ns) && asked.of != HOME {
                self.others.suspect(asked.of);
            }
            let more_ns = stall_ns.min(SILENT_TIMES * self.asks.patience_ns());
            if self.feeds.is_given_up(asked.of, stall_ns + more_ns, now_ns) {
                self.leave_parent(asked.of, false, now_ns);
            }
        }
        self.look_ns = self.look_ns.min(now_ns);
    }
}
