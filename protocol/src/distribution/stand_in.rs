//! Who sends to whom when a member of two trees is silent or slow: it, and how fast its links are, is not missed.
//!
//! Two members send to each, and each sends to two. When one fails, those that would send to it send to those it would
//! send to instead, so that nobody has more to do than before ([`stand_in`](crate::trees::TreesOverPsets::stand_in)).
//! They get all from the first piece on that they lack. A slow member is found out by those that send to it
//! ([`Lanes`](super::lanes)), and what it lacks from then on it asks for, as fast as it can take that; one that is
//! silent, or slow only in what it sends, by those to which it should send.

use super::estimate::{HOME, Shape, tree_of};
use super::machine::Machine;
use super::message::Message;

/// Whom a member asks to be its parent, time after time, as steps up from the one that fails: 0 is whoever stands in by
/// the shape of the trees, which may fail, too.
const ASKED: [u32; 4] = [0, 0, 1, 2];

/// Somebody who wants to be sent pieces of a tree instead of one that is silent or slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orphan {
    pub(super) tree: usize,
    pub(super) who: u32,
    /// Who is silent or slow.
    pub(super) parent: u32,
    /// The first piece that it lacks.
    pub(super) first: u32,
    /// So long the one that is silent may still answer, ns.
    pub(super) until_ns: u64,
}

impl Machine {
    fn leave(&mut self, tree: usize, now_ns: u64) {
        let feed = &mut self.feeds.feeds[tree];
        if core::mem::replace(&mut feed.is_left, true) {
            return;
        }
        let parent = feed.parent;
        self.say(parent, Message::Leave { tree: tree as u8 });
        self.look_ns = now_ns;
    }

    /// The member, which lacks nothing, is sent a piece all the same: its parent may not have heard that it left, and
    /// hears it once more for each piece.
    pub(super) fn leave_again(&mut self, from: u32, piece: u32) {
        let Shape::Two(_) = self.shape else { return };
        let tree = tree_of(piece);
        let feed = &mut self.feeds.feeds[tree];
        let is_told = feed.told.replace(piece) == Some(piece);
        if feed.parent == from && feed.is_left && !is_told {
            self.say(from, Message::Leave { tree: tree as u8 });
        }
    }

    /// Leaves both parents: it asks for what it lacks.
    pub(super) fn leave_all(&mut self, now_ns: u64) {
        if let Shape::Two(_) = self.shape {
            (0..2).for_each(|tree| self.leave(tree, now_ns));
        }
    }

    /// Leaves a parent that is silent, or surely fails, in the trees in which it is one.
    pub(super) fn leave_parent(&mut self, parent: u32, is_sure: bool, now_ns: u64) {
        if let Shape::Two(_) = self.shape {
            for tree in 0..2 {
                if self.feeds.feeds[tree].parent == parent && !self.feeds.feeds[tree].is_left {
                    self.turn_away(tree, is_sure, now_ns);
                }
            }
        }
    }

    /// Leaves a parent that is silent or slow, and asks whoever stands in for it.
    pub(super) fn turn_away(&mut self, tree: usize, is_sure: bool, now_ns: u64) {
        self.leave(tree, now_ns);
        self.feeds.feeds[tree].is_failing = is_sure;
        self.ask_to_be_adopted(tree, now_ns);
    }

    /// One says that it is failing, or one above it says so.
    pub(super) fn is_said_to_fail(&mut self, tree: usize, who: u32, by: u32, now_ns: u64) {
        let Shape::Two(trees) = self.shape.clone() else { return };
        if (0..2).any(|tree| trees.is_below(tree, who, by)) {
            self.is_failing(tree, who, now_ns);
        }
    }

    /// One is slow, or silent, from which pieces of a tree come. Who left it without being taken in by another asks
    /// again.
    fn is_failing(&mut self, tree: usize, who: u32, now_ns: u64) {
        let Some(feed) = self.feeds.feeds.get_mut(tree).filter(|feed| feed.parent == who && who != HOME) else {
            return;
        };
        if !feed.is_left {
            self.turn_away(tree, true, now_ns);
        } else if feed.asked_of.is_some() && !feed.is_failing {
            (feed.is_failing, feed.asked) = (true, 0);
            self.ask_to_be_adopted(tree, now_ns);
        }
    }

    fn ask_to_be_adopted(&mut self, tree: usize, now_ns: u64) {
        let Shape::Two(trees) = self.shape.clone() else { return };
        let patience_ns = 4 * self.asks.patience_ns() + u64::from(self.plan.link.stall_ns);
        let (Some(first), feed) = (self.low(tree), &mut self.feeds.feeds[tree]) else { return };
        let (instead_of, is_sure) = (feed.parent, feed.is_failing);
        let Some(mut of) = feed.place.and_then(|place| trees.stand_in(tree, place)) else { return };
        let steps = ASKED.get(usize::from(feed.asked)).copied().unwrap_or(0);
        if steps > 0 {
            of = (0..steps).fold(instead_of, |at, _| trees.parent(tree, at));
        }
        if self.others.is_liar(of) {
            feed.asked_of = None;
            return;
        }
        (feed.asked_of, feed.asked, feed.ask_ns) =
            (Some(of), feed.asked.saturating_add(1), now_ns.saturating_add(patience_ns));
        self.say(of, Message::Adopt { tree: tree as u8, instead_of, first, is_sure });
    }

    /// The same again, if nobody says anything to it. If nobody is left to ask, those below shall turn to others.
    pub(super) fn ask_again_to_be_adopted(&mut self, tree: usize, now_ns: u64) {
        let feed = &mut self.feeds.feeds[tree];
        if feed.asked_of.is_none() || feed.ask_ns > now_ns {
            return;
        }
        if usize::from(feed.asked) < ASKED.len() {
            self.ask_to_be_adopted(tree, now_ns);
        } else {
            feed.asked_of = None;
            self.send_away();
        }
    }

    /// Says to all that it sends to that they shall turn to others.
    fn send_away(&mut self) {
        let who = self.me;
        for (tree, to) in self.sender.lanes.all().into_iter().flatten() {
            self.say(to, Message::Failing { tree: tree as u8, who });
        }
    }

    /// Somebody sends the pieces of a tree from now on.
    pub(super) fn adopted(&mut self, tree: usize, by: u32, now_ns: u64) {
        let Shape::Two(trees) = self.shape.clone() else { return };
        let me = self.me;
        // It may have been found out since it was asked.
        if self.others.is_liar(by) {
            self.say(by, Message::Leave { tree: tree as u8 });
            return;
        }
        // Whoever is next below it on the way here would be its child.
        let place = trees.children(tree, by).into_iter().flatten().find(|child| trees.is_below(tree, me, *child));
        self.feeds.adopted(tree, by, place, now_ns);
    }

    /// Somebody asks to get what another would. If that one is said to be silent, it is asked whether it is.
    pub(super) fn adopt(&mut self, orphan: Orphan, is_sure: bool, now_ns: u64) {
        let Orphan { tree, who, parent, .. } = orphan;
        let Shape::Two(trees) = self.shape.clone() else { return };
        let has_begun = self.me != HOME || self.begun_ns.is_some();
        // Nobody gets what it sends from itself, round about.
        let is_shape = tree < 2 && who != parent && trees.is_below(tree, who, parent) && parent != HOME;
        if !is_shape || !has_begun || self.me != HOME && trees.is_below(tree, self.me, who) {
            return;
        }
        if self.sender.lanes.sends(tree, who) {
            // It has not heard that it is.
            self.say(who, Message::Adopted { tree: tree as u8 });
        } else if !self.may_take_in(parent) {
            // It asks another, or again.
        } else if is_sure {
            self.take_in(orphan, now_ns);
        } else if self.feeds.orphan.is_none() {
            let patience_ns = self.asks.patience_ns() + u64::from(self.plan.link.stall_ns);
            self.feeds.orphan = Some(Orphan { until_ns: now_ns.saturating_add(patience_ns), ..orphan });
            self.say(parent, Message::Probe);
        }
    }

    /// Whether it sends to one that fails, and can send to another instead: who has to ask for pieces itself is no
    /// help.
    fn may_take_in(&self, parent: u32) -> bool {
        self.sender.lanes.serves(parent) && self.feeds.feeds.iter().all(|feed| self.me == HOME || !feed.is_left)
    }

    /// Takes in whom nobody sends anything, if whoever should is still silent.
    pub(super) fn take_in_if_due(&mut self, now_ns: u64) {
        if let Some(orphan) = self.feeds.orphan.take_if(|orphan| orphan.until_ns <= now_ns) {
            self.take_in(orphan, now_ns);
        }
    }

    fn take_in(&mut self, orphan: Orphan, now_ns: u64) {
        let Orphan { tree, who, parent, first, .. } = orphan;
        let have = &self.have;
        let pieces = (first..self.plan.pieces()).filter(|piece| tree_of(*piece) == tree && have.has(*piece));
        if let Some(from) = self.sender.lanes.replace(parent, (tree, who), pieces) {
            self.say(who, Message::Adopted { tree: tree as u8 });
            self.say(parent, Message::Dropped { tree: from as u8 });
            self.warn_those_below(parent, Some(who), now_ns);
        }
    }

    /// Says to all below a member that is slow or silent, but for one, that they shall turn to others.
    pub(super) fn warn_those_below(&mut self, who: u32, but: Option<u32>, now_ns: u64) {
        let Shape::Two(trees) = self.shape.clone() else { return };
        for tree in 0..2 {
            for below in trees.children(tree, who).into_iter().flatten().filter(|below| Some(*below) != but) {
                if below == self.me {
                    self.is_failing(tree, who, now_ns);
                } else {
                    self.say(below, Message::Failing { tree: tree as u8, who });
                }
            }
        }
    }

    /// A parent sends nothing more: whatever is missing is asked for, and those below get it from others sooner.
    pub(super) fn dropped(&mut self, tree: usize, from: u32, now_ns: u64) {
        if let Some(feed) = self.feeds.feeds.get_mut(tree).filter(|feed| feed.parent == from && !feed.is_left) {
            feed.is_left = true;
            self.look_ns = now_ns;
            self.send_away();
        }
    }

    /// Somebody below asks for something that would be sent to it if another did not get it instead. It may not know.
    pub(super) fn remind(&mut self, who: u32, piece: u32) {
        let tree = tree_of(piece);
        if self.sender.lanes.is_replaced(tree, who) {
            self.say(who, Message::Dropped { tree: tree as u8 });
        }
    }
}
