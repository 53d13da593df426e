//! What a member does about pieces that its parents in the two trees do not send.

use super::estimate::{HOME, Shape, tree_of};
use super::machine::Machine;
use super::message::Message;

/// Pieces that may come at once from a parent behind one that is missing, before that is asked for.
const QUIET_PIECES: u64 = 5;
/// A parent that is so many pieces later than the estimate is left.
const LATE_PIECES: u64 = 48;
/// Those below wait for so many more, so that who is next to a slow one leaves it, and those below go on with that.
const LATE_PIECES_MORE: u64 = 24;
/// Behind a missing piece more than so many others have come, half of them of its tree: its link is too slow.
const FLOOD_PIECES: u64 = 200;
/// How fast pieces come is looked at over the time of so many.
const SLOW_PIECES: u64 = 64;
/// A parent that is late is left when so many pieces came sooner from others, which were asked to see that.
const PROOFS_MAX: u8 = 4;
/// So far behind a piece of which nothing came others must be before it is asked for: mostly it is the parent's that
/// it was lost on the way to, and comes by itself.
const ABSENT_PIECES: u32 = 8;
/// Pieces of a tree whose parent is left that are asked for at once: more would only wait for each other on the link.
const PULLED_MAX: usize = 4;
/// So far from home members ask whoever took them in for what they missed.
const NEAR_DEPTH: u32 = 3;
/// Questions to home that a member may have open.
const HOME_ASKS_MAX: usize = 2;
/// A parent that does not answer so often is left.
const UNANSWERED_MAX: u8 = 2;

/// What comes from a parent.
#[derive(Clone, Copy, Debug, Default)]
struct Feed {
    parent: u32,
    /// Behind the last piece that came from it.
    reached: u32,
    /// When it was last heard of, or could have been, ns.
    heard_ns: u64,
    /// How often it did not answer.
    unanswered: u8,
    /// How many more pieces came from others than from it.
    proofs: u8,
    /// Nothing is expected of it.
    is_left: bool,
    /// The parent is not the one of the tree's shape.
    is_adopted: bool,
    /// Who was asked to be the parent.
    asked_of: Option<u32>,
    /// The first piece that may be missing.
    low: u32,
    /// What had come, and when, when it was last looked how fast pieces come.
    marked: (u32, u64),
    /// Pieces came at less than half the time that they should.
    is_slow: bool,
}

/// Somebody two below, and the one between, who is silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orphan {
    tree: usize,
    who: u32,
    parent: u32,
    /// So long the one between may answer, ns.
    until_ns: u64,
}

impl Orphan {
    /// `who` asks at that time to get what `parent` does not pass on.
    pub(super) fn new(tree: u8, who: u32, parent: u32, now_ns: u64) -> Self {
        Self { tree: tree.into(), who, parent, until_ns: now_ns }
    }
}

/// What comes from the parents of a member in both trees, and which of those below want nothing from it.
#[derive(Debug)]
pub(super) struct Feeds {
    feeds: [Feed; 2],
    /// Those below that want nothing any more, in the tree in which there are some: the tree, who, and who gets it
    /// instead.
    gone: [Option<(usize, u32, Option<u32>)>; 2],
    orphan: Option<Orphan>,
}

impl Feeds {
    pub(super) fn new(shape: Shape, me: u32, now_ns: u64) -> Self {
        let feed = |tree: usize| {
            let parent = match shape {
                Shape::Two(trees) => trees.parent(tree, me),
                Shape::Branches(_) => HOME,
            };
            Feed { parent, low: tree as u32, heard_ns: now_ns, ..Feed::default() }
        };
        Self { feeds: [feed(0), feed(1)], gone: [None; 2], orphan: None }
    }

    /// A piece came.
    pub(super) fn heard(&mut self, piece: u32, from: u32, now_ns: u64) {
        let feed = &mut self.feeds[tree_of(piece)];
        if feed.parent == from {
            (feed.heard_ns, feed.unanswered) = (now_ns, 0);
            feed.proofs = feed.proofs.saturating_sub(1);
            feed.reached = feed.reached.max(piece + 1);
        }
    }

    /// A piece is there. Whether it came from another than the parent.
    pub(super) fn got(&mut self, piece: u32, from: u32) -> bool {
        let feed = &mut self.feeds[tree_of(piece)];
        let is_other = feed.parent != from;
        feed.proofs = feed.proofs.saturating_add(u8::from(is_other));
        is_other
    }

    /// Somebody did not answer what it was asked at that time. Whether that is a parent.
    pub(super) fn not_answered(&mut self, of: u32, asked_ns: u64) -> bool {
        let mut is_parent = false;
        for feed in self.feeds.iter_mut().filter(|feed| feed.parent == of && !feed.is_left) {
            // Who sends pieces is not silent, but busy.
            if feed.heard_ns <= asked_ns {
                feed.unanswered = feed.unanswered.saturating_add(1);
            }
            is_parent = true;
        }
        is_parent
    }

    /// Whether a parent has not answered too often.
    pub(super) fn is_given_up(&self, of: u32) -> bool {
        self.feeds.iter().any(|feed| feed.parent == of && feed.unanswered >= UNANSWERED_MAX)
    }

    /// Whether the parent is left that a piece would come from.
    pub(super) const fn is_left(&self, piece: u32) -> bool {
        self.feeds[tree_of(piece)].is_left
    }

    /// Somebody below wants no more of a tree, or is gone; somebody else may get it instead. Whether that is news.
    pub(super) fn left(&mut self, tree: usize, who: u32, instead: Option<u32>) -> bool {
        let known = self.gone.iter().flatten().any(|(of, gone, _)| (*of, *gone) == (tree, who));
        let slot = self.gone.iter_mut().find(|slot| slot.is_none()).filter(|_| !known);
        let is_news = slot.is_some();
        if let Some(slot) = slot {
            *slot = Some((tree, who, instead));
        }
        is_news
    }

    /// Somebody that was taken in wants no more of a tree. Whether it was.
    pub(super) fn is_let_go(&mut self, tree: usize, who: u32) -> bool {
        let taken_in = self.gone.iter_mut().flatten().find(|(of, _, instead)| (*of, *instead) == (tree, Some(who)));
        taken_in.map(|(_, _, instead)| *instead = None).is_some()
    }

    /// Who gets the pieces of a tree that somebody below would: mostly that one.
    pub(super) fn instead_of(&self, tree: usize, who: u32) -> Option<u32> {
        let gone = self.gone.iter().flatten().find(|(of, gone, _)| (*of, *gone) == (tree, who));
        gone.map_or(Some(who), |(_, _, instead)| *instead)
    }

    /// Somebody answers.
    pub(super) fn is_alive(&mut self, who: u32) {
        self.orphan = self.orphan.filter(|orphan| orphan.parent != who);
    }

    /// When somebody may be taken in, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.orphan.map(|orphan| orphan.until_ns)
    }

    /// Somebody else than the parent sends the pieces of a tree from now on.
    pub(super) fn adopted(&mut self, tree: usize, by: u32, now_ns: u64) {
        if let Some(feed) = self.feeds.get_mut(tree).filter(|feed| feed.asked_of == Some(by)) {
            let Feed { reached, low, .. } = *feed;
            *feed = Feed { parent: by, heard_ns: now_ns, reached, low, is_adopted: true, ..Feed::default() };
        }
    }
}

impl Machine {
    /// Asks for what is missing, of parents or, where they are left, of anybody.
    pub(super) fn look_at_trees(&mut self, now_ns: u64) {
        let quiet_ns = QUIET_PIECES * self.estimate.piece_ns() + 2 * u64::from(self.plan.link.latency_ns);
        // More come while somebody stands still, and then an answer is lost.
        let flood_pieces = FLOOD_PIECES + 4 * u64::from(self.plan.link.stall_ns) / self.estimate.piece_ns();
        let mut next_ns = u64::MAX;
        for tree in 0..2 {
            let Some(low) = self.low(tree) else { continue };
            let Feed { reached, is_adopted, .. } = self.feeds.feeds[tree];
            if !is_adopted && u64::from(reached.saturating_sub(low)) > flood_pieces {
                // More comes than the member's link has room for: it asks for as much as it can take.
                self.leave_all(now_ns);
            }
            if self.is_late(tree, now_ns) && self.is_slow(tree, now_ns) {
                // Perhaps all are late: others are asked before the parent is left.
                if self.feeds.feeds[tree].proofs >= PROOFS_MAX {
                    self.leave(tree, now_ns);
                    self.ask_to_be_adopted(tree, true);
                } else if !self.is_under_way(low) {
                    self.ask_holder(low, now_ns);
                }
            }
            if self.feeds.feeds[tree].is_left {
                self.pull(tree, low, now_ns);
                next_ns = next_ns.min(now_ns + self.estimate.piece_ns());
                continue;
            }
            self.ask_for_gaps(tree, low, now_ns);
            next_ns = next_ns.min(self.ask_if_quiet(tree, low, quiet_ns, now_ns));
        }
        self.look_ns = next_ns;
    }

    /// The first piece of a tree that is missing.
    fn low(&mut self, tree: usize) -> Option<u32> {
        let low = self.feeds.feeds[tree].low;
        let low = self.have.missing_from(low).find(|piece| tree_of(*piece) == tree);
        self.feeds.feeds[tree].low = low.unwrap_or(self.plan.pieces());
        low
    }

    /// Whether what a parent should have sent by now is late beyond all that others are late, too.
    fn is_late(&self, tree: usize, now_ns: u64) -> bool {
        let feed = &self.feeds.feeds[tree];
        let next = if feed.reached == 0 { tree as u32 } else { feed.reached + 1 };
        if feed.is_left || self.begun_ns.is_none() || next >= self.plan.pieces() {
            return false;
        }
        let depth = match self.shape {
            Shape::Two(trees) => u64::from(trees.depth(tree, self.me)),
            Shape::Branches(_) => 0,
        };
        let late_ns = (LATE_PIECES + depth * LATE_PIECES_MORE) * self.estimate.piece_ns()
            + 8 * u64::from(self.plan.link.latency_ns)
            + u64::from(self.plan.link.stall_ns);
        let by_ns = self.estimate.has_by(self.shape, self.me, next);
        by_ns.is_some_and(|by_ns| by_ns.saturating_add(late_ns) < self.elapsed_ns(now_ns))
    }

    /// Whether fewer than half of the pieces came lately that should have.
    fn is_slow(&mut self, tree: usize, now_ns: u64) -> bool {
        let piece_ns = self.estimate.piece_ns();
        let feed = &mut self.feeds.feeds[tree];
        let (reached, at_ns) = feed.marked;
        let took_ns = now_ns.saturating_sub(at_ns);
        if took_ns >= SLOW_PIECES * piece_ns {
            feed.is_slow = at_ns > 0 && u64::from(feed.reached - reached) * 2 * piece_ns < took_ns;
            feed.marked = (feed.reached, now_ns);
        }
        feed.is_slow
    }

    fn ask_for_gaps(&mut self, tree: usize, low: u32, now_ns: u64) {
        let feed = self.feeds.feeds[tree];
        if low + 1 >= feed.reached {
            return;
        }
        let depth = match self.shape {
            Shape::Two(trees) => trees.depth(tree, self.me),
            Shape::Branches(_) => 1,
        };
        // Who took the member in has no time for all that it missed before; but near to home few others have it.
        let is_elsewhere = feed.is_adopted && depth > NEAR_DEPTH;
        let missing: alloc::vec::Vec<u32> = self
            .have
            .missing_from(low)
            .take_while(|piece| piece + 1 < feed.reached)
            .filter(|piece| tree_of(*piece) == tree && !self.is_under_way(*piece))
            .filter(|piece| piece + ABSENT_PIECES < feed.reached || self.assemblies.get(*piece).is_some())
            .take(crate::limits::ASKS_PER_MEMBER_MAX)
            .collect();
        for piece in missing {
            let is_asked =
                if is_elsewhere { self.ask_holder(piece, now_ns) } else { self.ask(piece, feed.parent, now_ns) };
            if !is_asked {
                break;
            }
        }
    }

    fn ask_if_quiet(&mut self, tree: usize, low: u32, quiet_ns: u64, now_ns: u64) -> u64 {
        let feed = self.feeds.feeds[tree];
        let begun_ns = self.begun_ns.unwrap_or(now_ns);
        let expected_ns = begun_ns + self.estimate.has_by(self.shape, self.me, low).unwrap_or(0);
        let at_ns = feed.heard_ns.max(expected_ns) + quiet_ns;
        if at_ns > now_ns {
            return at_ns;
        }
        if !self.is_under_way(low) {
            self.ask(low, feed.parent, now_ns);
        }
        now_ns + quiet_ns
    }

    /// Whether a piece was asked for, or is being checked.
    pub(super) fn is_under_way(&self, piece: u32) -> bool {
        self.asks.has(piece) || self.assemblies.get(piece).is_some_and(|assembly| assembly.is_complete)
    }

    fn pull(&mut self, tree: usize, low: u32, now_ns: u64) {
        let missing: alloc::vec::Vec<u32> =
            self.have.missing_from(low).filter(|piece| tree_of(*piece) == tree).take(PULLED_MAX).collect();
        for piece in missing {
            if self.asks.is_full() {
                break;
            }
            if !self.is_under_way(piece) && !self.pull_one(piece, now_ns) {
                break;
            }
        }
    }

    /// Asks somebody, or home, if so many did not have it: home has all, but everybody waits for it.
    fn pull_one(&mut self, piece: u32, now_ns: u64) -> bool {
        if !self.is_home_wanted(piece) {
            return self.ask_holder(piece, now_ns);
        }
        self.asks.count_of(HOME) < HOME_ASKS_MAX && self.ask_home(piece, now_ns)
    }

    fn leave(&mut self, tree: usize, now_ns: u64) {
        let feed = &mut self.feeds.feeds[tree];
        if core::mem::replace(&mut feed.is_left, true) {
            return;
        }
        let parent = feed.parent;
        self.say(parent, Message::Leave { tree: tree as u8 });
        self.look_ns = now_ns;
    }

    /// Leaves a parent in the trees in which it is one.
    pub(super) fn leave_parent(&mut self, parent: u32, now_ns: u64) {
        if let Shape::Two(_) = self.shape {
            for tree in 0..2 {
                if self.feeds.feeds[tree].parent == parent && !self.feeds.feeds[tree].is_left {
                    self.leave(tree, now_ns);
                    self.ask_to_be_adopted(tree, false);
                }
            }
        }
    }

    /// Asks whoever is above a parent that is silent or slow to send to the member instead.
    fn ask_to_be_adopted(&mut self, tree: usize, is_slow: bool) {
        let Shape::Two(trees) = self.shape else { return };
        let feed = &mut self.feeds.feeds[tree];
        let instead_of = feed.parent;
        if instead_of != HOME && !feed.is_adopted {
            let above = trees.parent(tree, instead_of);
            feed.asked_of = Some(above);
            self.say(above, Message::Adopt { tree: tree as u8, instead_of, is_slow });
        }
    }

    /// Somebody asks to get what one below would. If that one is said to be silent, it is asked whether it is.
    pub(super) fn adopt(&mut self, orphan: Orphan, is_slow: bool) {
        let Shape::Two(trees) = self.shape else { return };
        let Orphan { tree, who, parent, .. } = orphan;
        let is_shape = tree < 2 && trees.parent(tree, parent) == self.me && trees.parent(tree, who) == parent;
        if !is_shape || self.feeds.orphan.is_some() {
            return;
        }
        let stall_ns = u64::from(self.plan.link.stall_ns);
        let patience_ns = if is_slow { 0 } else { self.asks.patience_ns() + stall_ns };
        self.feeds.orphan = Some(Orphan { until_ns: orphan.until_ns.saturating_add(patience_ns), ..orphan });
        if !is_slow {
            self.say(parent, Message::Probe);
        }
    }

    /// Somebody that is sent the pieces of a tree wants no more of them.
    pub(super) fn let_go(&mut self, tree: usize, who: u32) {
        let Shape::Two(trees) = self.shape else { return };
        if !self.feeds.is_let_go(tree, who) && tree < 2 && trees.children(tree, self.me).contains(&Some(who)) {
            self.feeds.left(tree, who, None);
        }
    }

    /// Takes in whom nobody sends anything, if whoever should is still silent.
    pub(super) fn take_in(&mut self, now_ns: u64) {
        let Some(orphan) = self.feeds.orphan.filter(|orphan| orphan.until_ns <= now_ns) else { return };
        self.feeds.orphan = None;
        if self.feeds.left(orphan.tree, orphan.parent, Some(orphan.who)) {
            self.say(orphan.who, Message::Adopted { tree: orphan.tree as u8 });
        }
    }

    /// Leaves both parents: it asks for what it lacks.
    pub(super) fn leave_all(&mut self, now_ns: u64) {
        if let Shape::Two(_) = self.shape {
            (0..2).for_each(|tree| self.leave(tree, now_ns));
        }
    }
}
