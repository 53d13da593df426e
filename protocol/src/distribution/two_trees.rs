//! What a member does about pieces that its parents in the two trees do not send.

use super::estimate::{HOME, Shape, tree_of};
use super::machine::Machine;
use super::message::Message;
use super::pieces::PacketSet;
use super::stand_in::Orphan;

/// Pieces that may come at once from a parent behind one that is missing, before that is asked for.
const QUIET_PIECES: u64 = 5;
/// The same where they come more slowly than the link would have it, as times from one to the next.
const QUIET_PACES: u64 = 3;
/// A parent that is so many pieces later than the estimate is left.
const LATE_PIECES: u64 = 48;
/// Those below wait for so many more, so that who is next to a slow one leaves it, and those below go on with that.
const LATE_PIECES_MORE: u64 = 24;
/// How fast pieces come is looked at over the time of so many.
const SLOW_PIECES: u64 = 64;
/// A parent that is late is left when so many pieces came sooner from others, which were asked to see that.
const PROOFS_MAX: u8 = 4;
/// So far behind a piece of which nothing came others must be before it is asked for: mostly it is the parent's that
/// it was lost on the way to, and comes by itself.
const ABSENT_PIECES: u32 = 8;
/// Pieces of a tree whose parent is left that are asked for at once: more would only wait for each other on the link.
const PULLED_MAX: usize = 4;
/// Questions to home that a member may have open.
const HOME_ASKS_MAX: usize = 2;
/// A parent that does not answer so often is left.
const UNANSWERED_MAX: u8 = 2;

/// What comes from a parent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feed {
    pub(super) parent: u32,
    /// How far the member is from home in the tree, which takes some time to find out.
    depth: u32,
    /// Behind the last piece that came from it.
    pub(super) reached: u32,
    /// The piece of which something came from it last, unasked.
    pub(super) current: Option<u32>,
    /// The piece that it was told of last.
    pub(super) told: Option<u32>,
    /// When the current one began to come, and how long it is from one to the next, smoothed, ns.
    pub(super) current_ns: u64,
    pub(super) pace_ns: u64,
    /// When a piece came from it last, or could have come, ns.
    pub(super) heard_ns: u64,
    /// When it last said anything, ns.
    pub(super) alive_ns: u64,
    /// How often it did not answer.
    pub(super) unanswered: u8,
    /// How many more pieces came from others than from it.
    pub(super) proofs: u8,
    /// Nothing is expected of it.
    pub(super) is_left: bool,
    /// Who would be the parent's child where the member is: itself, or one above it for which it stands in.
    pub(super) place: Option<u32>,
    /// Who was asked to be the parent, how often, and when that is done again, ns.
    pub(super) asked_of: Option<u32>,
    pub(super) asked: u8,
    pub(super) ask_ns: u64,
    /// The first piece that may be missing.
    pub(super) low: u32,
    /// What had come, and when, when it was last looked how fast pieces come.
    pub(super) marked: (u32, u64),
    /// Pieces came at less than half the time that they should.
    is_slow: bool,
    /// The parent was left because it surely fails, and not as it may be silent.
    pub(super) is_failing: bool,
}

/// What comes from the parents of a member in both trees, and whom it may take in.
#[derive(Debug)]
pub(super) struct Feeds {
    pub(super) feeds: [Feed; 2],
    pub(super) orphan: Option<Orphan>,
}

impl Feeds {
    pub(super) fn new(shape: &Shape, me: u32, now_ns: u64) -> Self {
        let feed = |tree: usize| {
            let (parent, depth) = match shape {
                Shape::Two(trees) => (trees.parent(tree, me), trees.depth(tree, me)),
                Shape::Branches(_) => (HOME, 0),
            };
            Feed { parent, depth, place: Some(me), low: tree as u32, heard_ns: now_ns, ..Feed::default() }
        };
        Self { feeds: [feed(0), feed(1)], orphan: None }
    }

    /// Some of a piece came. Gives the one that came before from the same parent, if that is over now.
    pub(super) fn heard(&mut self, piece: u32, from: u32, is_asked: bool, now_ns: u64) -> Option<u32> {
        let feed = &mut self.feeds[tree_of(piece)];
        if feed.parent != from {
            return None;
        }
        (feed.heard_ns, feed.unanswered) = (now_ns, 0);
        feed.proofs = feed.proofs.saturating_sub(1);
        feed.reached = feed.reached.max(piece + 1);
        // What was asked for comes between the others.
        if is_asked || feed.current == Some(piece) {
            return None;
        }
        if feed.current.is_some() {
            let took_ns = now_ns.saturating_sub(feed.current_ns);
            feed.pace_ns = if feed.pace_ns == 0 { took_ns } else { (7 * feed.pace_ns + took_ns) / 8 };
        }
        feed.current_ns = now_ns;
        let told = feed.told;
        feed.current.replace(piece).filter(|passed| told != Some(*passed))
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
            if feed.heard_ns.max(feed.alive_ns) <= asked_ns {
                feed.unanswered = feed.unanswered.saturating_add(1);
            }
            is_parent = true;
        }
        is_parent
    }

    /// Whether a parent has not answered too often, and was not heard of for longer than anybody stands still.
    pub(super) fn is_given_up(&self, of: u32, stall_ns: u64, now_ns: u64) -> bool {
        self.feeds.iter().any(|feed| {
            let is_silent = feed.heard_ns.max(feed.alive_ns).saturating_add(stall_ns) <= now_ns;
            feed.parent == of && feed.unanswered >= UNANSWERED_MAX && is_silent
        })
    }

    /// Whether somebody is the parent from which a piece is to come, and is not left.
    pub(super) const fn is_parent(&self, piece: u32, who: u32) -> bool {
        let feed = &self.feeds[tree_of(piece)];
        feed.parent == who && !feed.is_left
    }

    /// Somebody said something.
    pub(super) fn is_alive(&mut self, who: u32, now_ns: u64) {
        for feed in self.feeds.iter_mut().filter(|feed| feed.parent == who) {
            (feed.alive_ns, feed.unanswered) = (now_ns, 0);
        }
        self.orphan = self.orphan.filter(|orphan| orphan.parent != who);
    }

    /// When somebody may be taken in, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.orphan.map(|orphan| orphan.until_ns)
    }

    /// Somebody else than the parent sends the pieces of a tree from now on, from the first that is missing.
    pub(super) fn adopted(&mut self, tree: usize, by: u32, place: Option<u32>, now_ns: u64) {
        if let Some(feed) = self.feeds.get_mut(tree).filter(|feed| feed.asked_of == Some(by)) {
            let Feed { low, depth, .. } = *feed;
            *feed = Feed { parent: by, depth, place, heard_ns: now_ns, reached: low, low, ..Feed::default() };
        }
    }
}

impl Machine {
    /// Asks for what is missing, of parents or, where they are left, of anybody.
    pub(super) fn look_at_trees(&mut self, now_ns: u64) {
        let mut next_ns = u64::MAX;
        for tree in 0..2 {
            let Some(low) = self.low(tree) else { continue };
            if self.is_late(tree, now_ns) && self.is_slow(tree, now_ns) {
                // Perhaps all are late: others are asked before the parent is left.
                if self.feeds.feeds[tree].proofs >= PROOFS_MAX {
                    self.turn_away(tree, true, now_ns);
                } else if !self.is_under_way(low) {
                    self.ask_holder(low, now_ns);
                }
            }
            if self.feeds.feeds[tree].is_left {
                self.ask_again_to_be_adopted(tree, now_ns);
                self.pull(tree, low, now_ns);
                next_ns = next_ns.min(now_ns + self.estimate.piece_ns());
                continue;
            }
            self.ask_for_gaps(tree, low, now_ns);
            next_ns = next_ns.min(self.ask_if_quiet(tree, low, now_ns));
        }
        self.look_ns = next_ns;
    }

    /// The first piece of a tree that is missing.
    pub(super) fn low(&mut self, tree: usize) -> Option<u32> {
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
        let late_ns = (LATE_PIECES + u64::from(feed.depth) * LATE_PIECES_MORE) * self.estimate.piece_ns()
            + 8 * u64::from(self.plan.link.latency_ns)
            + u64::from(self.plan.link.stall_ns);
        self.estimate.comes_by(feed.depth, next).saturating_add(late_ns) < self.elapsed_ns(now_ns)
    }

    /// Whether fewer than half of the pieces came lately that should have, and than came of the other tree: where both
    /// are slow, it is not the parents.
    fn is_slow(&mut self, tree: usize, now_ns: u64) -> bool {
        let piece_ns = self.estimate.piece_ns();
        let other_ns = self.feeds.feeds[1 - tree].pace_ns;
        let feed = &mut self.feeds.feeds[tree];
        let (reached, at_ns) = feed.marked;
        let took_ns = now_ns.saturating_sub(at_ns);
        if took_ns >= SLOW_PIECES * piece_ns {
            // As pieces of both trees take turns, one of its own should come in the time of two.
            let came = u64::from(feed.reached - reached) / 2;
            let is_below = |pace_ns: u64| came * 2 * pace_ns < took_ns;
            feed.is_slow = at_ns > 0 && is_below(2 * piece_ns) && other_ns > 0 && is_below(other_ns);
            feed.marked = (feed.reached, now_ns);
        }
        feed.is_slow
    }

    fn ask_for_gaps(&mut self, tree: usize, low: u32, now_ns: u64) {
        let feed = self.feeds.feeds[tree];
        if low >= feed.reached {
            return;
        }
        let missing: alloc::vec::Vec<u32> = self
            .have
            .missing_from(low)
            .take_while(|piece| *piece < feed.reached)
            .filter(|piece| tree_of(*piece) == tree && !self.is_under_way(*piece))
            .filter(|piece| piece + 1 < feed.reached || self.is_past(*piece))
            .filter(|piece| piece + ABSENT_PIECES < feed.reached || self.assemblies.get(*piece).is_some())
            .take(crate::limits::ASKS_PER_MEMBER_MAX)
            .collect();
        for piece in missing {
            if !self.ask(piece, feed.parent, now_ns) {
                break;
            }
        }
    }

    /// Whether the last packet of a piece came, behind which none are to be expected.
    fn is_past(&self, piece: u32) -> bool {
        let last = PacketSet::one(self.plan.packets(piece).count().saturating_sub(1));
        self.assemblies.get(piece).is_some_and(|assembly| !assembly.packets.within(last).is_empty())
    }

    fn ask_if_quiet(&mut self, tree: usize, low: u32, now_ns: u64) -> u64 {
        let feed = self.feeds.feeds[tree];
        let usual_ns = QUIET_PIECES * self.estimate.piece_ns();
        let paces_ns = (QUIET_PACES * feed.pace_ns).min(usual_ns + u64::from(self.plan.link.stall_ns));
        let quiet_ns = usual_ns.max(paces_ns) + 2 * u64::from(self.plan.link.latency_ns);
        let begun_ns = self.begun_ns.unwrap_or(now_ns);
        let expected_ns = begun_ns + self.estimate.comes_by(feed.depth, low);
        let at_ns = feed.heard_ns.max(expected_ns) + quiet_ns;
        if at_ns > now_ns {
            return at_ns;
        }
        if !self.is_under_way(low) {
            self.ask(low, feed.parent, now_ns);
        }
        now_ns + quiet_ns
    }

    /// Tells a parent that a piece is there, or that no more comes of it, and how much is missing.
    pub(super) fn say_arrived(&mut self, piece: u32) {
        let Shape::Two(_) = self.shape else { return };
        let tree = tree_of(piece);
        let Feed { parent, current, is_left, .. } = self.feeds.feeds[tree];
        if is_left || current.is_none() {
            return;
        }
        // Of what the parent lacks itself nothing came: it shall not wait for that.
        let open = self.assemblies.count(|piece| tree_of(piece) == tree && Some(piece) != current);
        self.feeds.feeds[tree].told = Some(piece);
        self.say(parent, Message::Arrived { piece, open });
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
}
