//! What a member of two trees passes on to each of those below it, no faster than that one takes it.
//!
//! Whoever is below says how far it is ([`Message::Arrived`](super::Message::Arrived)): which piece was the last that
//! came, and of how many others something is missing. It gets no more while much is on its way or much is missing, so
//! that neither its link's queue nor its card overflows when it, or its host, is slower than the link. As every member
//! has room for the whole file, nobody above has to wait for that.
//!
//! What it says can be lost: after a while one more piece goes its way. Who says nothing for long is dead as far as
//! can be seen here, and nothing more is sent to it until it says something. Who takes much less than the other is
//! slow. Who is silent or slow can be replaced by one below it, and who does not want to be sent anything is not.

use alloc::collections::VecDeque;

use super::estimate::{Shape, tree_of};
use super::plan::Plan;
use crate::limits::{ASSEMBLIES_PER_MEMBER_MAX, PIECES_OPEN_MAX, PIECES_UNDER_WAY_MAX};

/// Without a word for the time of so many pieces one more is sent; that doubles with each.
const WAIT_PIECES: u64 = 8;
/// Most doublings.
const DOUBLINGS_MAX: u8 = 6;
/// So many more were sent without a word, and for the time in which anybody may stand still, and it is dead.
const TRIES: u8 = 5;

/// How often slower than the other lane one has to be to fall behind.
const SLOW_TIMES: u32 = 3;
/// So many pieces behind, whoever is there is slow.
const BEHIND_MAX: u32 = 16;

// A member puts together what is open of both trees, and one more of each that comes.
const _: () = assert!(2 * (PIECES_OPEN_MAX + 1) <= ASSEMBLIES_PER_MEMBER_MAX);

/// One below, and what it is sent.
#[derive(Debug)]
struct Lane {
    /// Who is there by the shape of which tree.
    shape: (usize, u32),
    /// The tree whose pieces it is for.
    tree: usize,
    /// Who gets it, and whether it wants it.
    to: u32,
    is_wanted: bool,
    /// What is to be sent, in that order.
    queue: VecDeque<u32>,
    /// What was sent, and may still be on its way: at most [`PIECES_UNDER_WAY_MAX`].
    under_way: VecDeque<u32>,
    /// Of how many pieces that came something is missing there.
    open: usize,
    /// When one more is sent, whatever is on its way, ns.
    due_ns: u64,
    /// How often that was since something was heard, and when it was first, ns.
    tries: u8,
    tried_ns: u64,
    is_dead: bool,
    /// How far it falls behind the other, and since when, ns.
    behind: u32,
    behind_ns: u64,
}

/// How patient a member is with those below it, ns.
#[derive(Clone, Copy, Debug)]
struct Patience {
    wait_ns: u64,
    stall_ns: u64,
}

/// See this module.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: [Option<Lane>; 2],
    patience: Patience,
    /// Whose turn it is.
    turn: usize,
}

impl Lane {
    fn new(tree: usize, child: u32) -> Option<Self> {
        let (queue, mut under_way) = (VecDeque::new(), VecDeque::new());
        under_way.try_reserve_exact(PIECES_UNDER_WAY_MAX).ok()?;
        Some(Self {
            shape: (tree, child),
            tree,
            to: child,
            is_wanted: true,
            queue,
            under_way,
            open: 0,
            due_ns: 0,
            tries: 0,
            tried_ns: 0,
            is_dead: false,
            behind: 0,
            behind_ns: 0,
        })
    }

    fn is_open(&self) -> bool {
        self.under_way.len() < PIECES_UNDER_WAY_MAX && self.open < PIECES_OPEN_MAX
    }

    /// From when on something is to be sent, ns; `None` if there is nothing, or nobody.
    fn ready_ns(&self) -> Option<u64> {
        let is_wanting = !self.queue.is_empty() && !self.is_dead && self.is_wanted;
        is_wanting.then_some(if self.is_open() { 0 } else { self.due_ns })
    }

    /// Another gets these pieces of a tree.
    fn turn_to(&mut self, tree: usize, to: u32, queue: VecDeque<u32>) {
        self.under_way.clear();
        (self.tree, self.to, self.is_wanted) = (tree, to, true);
        (self.queue, self.open, self.tries, self.is_dead, self.behind) = (queue, 0, 0, false, 0);
    }

    /// It wants no more.
    fn let_go(&mut self) {
        self.under_way.clear();
        (self.queue, self.open, self.is_wanted, self.behind) = (VecDeque::new(), 0, false, 0);
    }

    /// Whether somebody is sent anything.
    const fn is_for(&self, who: u32) -> bool {
        self.is_wanted && self.to == who
    }

    fn next(&mut self, patience: Patience, now_ns: u64) -> Option<u32> {
        if self.ready_ns().is_none_or(|ready_ns| ready_ns > now_ns) {
            return None;
        }
        if !self.is_open() {
            if self.tries == 0 {
                self.tried_ns = now_ns;
            }
            if self.tries >= TRIES && now_ns >= self.tried_ns.saturating_add(patience.stall_ns) {
                self.is_dead = true;
                return None;
            }
            self.tries = self.tries.saturating_add(1);
            if self.under_way.pop_front().is_none() {
                self.open = self.open.saturating_sub(1);
            }
        }
        let piece = self.queue.pop_front()?;
        self.under_way.push_back(piece);
        self.due_ns = now_ns.saturating_add(patience.wait_ns << self.tries.min(DOUBLINGS_MAX));
        Some(piece)
    }

    /// It says how far it is. How many pieces are no longer under way.
    fn arrived(&mut self, piece: u32, open: usize, patience: Patience, now_ns: u64) -> u32 {
        let index = self.under_way.iter().position(|other| *other == piece);
        let count = index.map_or(0, |index| self.under_way.drain(..=index).count());
        self.open = open;
        self.due_ns = now_ns.saturating_add(patience.wait_ns);
        self.behind = self.behind.saturating_sub(SLOW_TIMES * count as u32);
        count as u32
    }

    /// So many pieces came meanwhile where the other lane goes.
    fn other_arrived(&mut self, count: u32, now_ns: u64) {
        let waits = !self.queue.is_empty() && self.under_way.len() >= PIECES_UNDER_WAY_MAX;
        if waits {
            if self.behind == 0 {
                self.behind_ns = now_ns;
            }
            self.behind = self.behind.saturating_add(count);
        }
    }
}

impl Lanes {
    /// Those of a member, or of home. `None` if there is no memory for them.
    pub(super) fn new(plan: &Plan, shape: &Shape, me: u32) -> Option<Self> {
        let mut lanes = [None, None];
        if let Shape::Two(trees) = shape {
            let below = (0..2).flat_map(|tree| trees.children(tree, me).map(|child| Some((tree, child?))));
            // Nobody has more than two in both.
            for (lane, (tree, child)) in lanes.iter_mut().zip(below.flatten()) {
                *lane = Some(Lane::new(tree, child)?);
            }
        }
        let wait_ns = WAIT_PIECES * (plan.piece_ns() + u64::from(plan.link.latency_ns));
        let patience = Patience { wait_ns, stall_ns: u64::from(plan.link.stall_ns) };
        Some(Self { lanes, patience, turn: 0 })
    }

    fn of(&mut self, tree: usize) -> impl Iterator<Item = &mut Lane> {
        self.lanes.iter_mut().flatten().filter(move |lane| lane.tree == tree)
    }

    /// A piece is there to be passed on. Whether there was memory to note that.
    pub(super) fn push(&mut self, piece: u32) -> bool {
        let mut is_noted = true;
        for lane in self.of(tree_of(piece)).filter(|lane| lane.is_wanted) {
            let has_room = lane.queue.try_reserve(1).is_ok();
            if has_room {
                lane.queue.push_back(piece);
            }
            is_noted &= has_room;
        }
        is_noted
    }

    /// What is sent next, and to whom.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<(u32, u32)> {
        let patience = self.patience;
        for turn in [self.turn, 1 - self.turn] {
            let Some(lane) = &mut self.lanes[turn] else { continue };
            if let Some(piece) = lane.next(patience, now_ns) {
                self.turn = 1 - turn;
                return Some((lane.to, piece));
            }
        }
        None
    }

    /// How many pieces those below have still to be sent, or have not said that they came.
    pub(super) fn left(&self) -> usize {
        self.lanes.iter().flatten().map(|lane| lane.queue.len() + lane.under_way.len()).sum()
    }

    /// When something is to be sent, ns; 0 for at once.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.lanes.iter().flatten().filter_map(Lane::ready_ns).min()
    }

    /// One below says how far it is: the last piece that came, and of how many others something is missing.
    pub(super) fn arrived(&mut self, from: u32, piece: u32, open: u32, now_ns: u64) {
        let patience = self.patience;
        let is_meant = |lane: &Lane| lane.is_for(from) && lane.tree == tree_of(piece);
        let mut count = 0;
        for lane in self.lanes.iter_mut().flatten().filter(|lane| is_meant(lane)) {
            count += lane.arrived(piece, open as usize, patience, now_ns);
        }
        for lane in self.lanes.iter_mut().flatten().filter(|lane| !is_meant(lane)) {
            lane.other_arrived(count, now_ns);
        }
    }

    /// Who takes much less than the other does, and that for longer than anybody stands still. It is said once, and
    /// again if that goes on.
    pub(super) fn slow(&mut self, now_ns: u64) -> Option<u32> {
        let stall_ns = self.patience.stall_ns;
        let is_slow = |lane: &&mut Lane| lane.behind >= BEHIND_MAX && lane.behind_ns.saturating_add(stall_ns) <= now_ns;
        let lane = self.lanes.iter_mut().flatten().find(is_slow)?;
        lane.behind = 0;
        Some(lane.to)
    }

    /// One below said something.
    pub(super) fn heard(&mut self, from: u32) {
        for lane in self.lanes.iter_mut().flatten().filter(|lane| lane.is_for(from)) {
            (lane.tries, lane.is_dead) = (0, false);
        }
    }

    /// One asked for a whole piece, and gets it: it is not sent again.
    pub(super) fn answered(&mut self, to: u32, piece: u32) {
        for lane in self.of(tree_of(piece)).filter(|lane| lane.is_for(to)) {
            lane.queue.retain(|other| *other != piece);
        }
    }

    /// One that is sent the pieces of a tree wants no more of them.
    pub(super) fn let_go(&mut self, tree: usize, who: u32) {
        self.of(tree).filter(|lane| lane.to == who).for_each(Lane::let_go);
    }

    /// Whether somebody is sent pieces of whatever tree, or was before it wanted no more.
    pub(super) fn serves(&self, who: u32) -> bool {
        self.lanes.iter().flatten().any(|lane| lane.to == who)
    }

    /// Whether somebody is sent the pieces of a tree.
    pub(super) fn sends(&self, tree: usize, who: u32) -> bool {
        self.lanes.iter().flatten().any(|lane| lane.tree == tree && lane.is_for(who))
    }

    /// Which pieces are sent to whom.
    pub(super) fn all(&self) -> [Option<(usize, u32)>; 2] {
        self.lanes.each_ref().map(|lane| lane.as_ref().filter(|lane| lane.is_wanted).map(|lane| (lane.tree, lane.to)))
    }

    /// Sends these pieces of a tree, and all that come, to another instead of whatever one is sent. Gives the tree
    /// whose pieces that was, if it was sent any and there is memory.
    pub(super) fn replace(
        &mut self,
        who: u32,
        (tree, by): (usize, u32),
        pieces: impl Iterator<Item = u32>,
    ) -> Option<usize> {
        let is_meant = |lane: &Option<Lane>, tree: Option<usize>| {
            lane.as_ref().is_some_and(|lane| lane.to == who && tree.is_none_or(|tree| lane.tree == tree))
        };
        let position = |tree| self.lanes.iter().position(|lane| is_meant(lane, tree));
        let index = position(Some(tree)).or_else(|| position(None))?;
        let lane = self.lanes.get_mut(index)?.as_mut()?;
        let mut queue = VecDeque::new();
        for piece in pieces {
            queue.try_reserve(1).ok()?;
            queue.push_back(piece);
        }
        let before = lane.tree;
        lane.turn_to(tree, by, queue);
        Some(before)
    }

    /// Whether somebody gets what one below would.
    pub(super) fn is_replaced(&self, tree: usize, child: u32) -> bool {
        self.lanes.iter().flatten().any(|lane| lane.shape == (tree, child) && lane.to != child)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{Lanes, TRIES};
    use crate::distribution::Scheme;
    use crate::distribution::estimate::Shape;
    use crate::distribution::tests::plan;
    use crate::limits::{PIECES_OPEN_MAX, PIECES_UNDER_WAY_MAX};

    /// Home of three members, and who is below it in the first tree.
    fn lanes() -> (Lanes, u32) {
        let plan = plan(100_000, 3, Scheme::TwoTrees);
        let mut lanes = Lanes::new(&plan, &Shape::of(&plan), 0).expect("memory");
        (0..plan.pieces()).step_by(2).for_each(|piece| assert!(lanes.push(piece)));
        let root = plan.two_trees().children(0, 0)[0].expect("somebody");
        (lanes, root)
    }

    fn sent(lanes: &mut Lanes, now_ns: u64) -> Vec<(u32, u32)> {
        core::iter::from_fn(|| lanes.next(now_ns)).collect()
    }

    #[test]
    fn no_more_is_sent_than_is_taken() {
        let (mut lanes, root) = lanes();
        let first = sent(&mut lanes, 0);
        assert_eq!(first.len(), PIECES_UNDER_WAY_MAX);
        assert!(first.iter().enumerate().all(|(number, sent)| *sent == (root, 2 * number as u32)));
        let all = lanes.left();
        lanes.arrived(root, 2, 0, 1);
        assert_eq!((sent(&mut lanes, 1).len(), all - lanes.left()), (2, 2), "the first two have come");
        lanes.arrived(root, 14, PIECES_OPEN_MAX as u32, 2);
        assert_eq!(sent(&mut lanes, 2), [], "it lacks much of what came");
        lanes.arrived(root, 14, 1, 3);
        assert_eq!(sent(&mut lanes, 3).len(), PIECES_UNDER_WAY_MAX);
        lanes.arrived(root + 1, 99, 0, 4);
        assert_eq!(sent(&mut lanes, 4), [], "that was somebody else");
    }

    #[test]
    fn who_says_nothing_is_sent_less_and_less_and_then_nothing_until_it_speaks() {
        let (mut lanes, root) = lanes();
        sent(&mut lanes, 0);
        let (mut more, mut waited_ns, mut now_ns) = (0, 0, 0);
        while let Some(due_ns) = lanes.due_ns() {
            assert!(sent(&mut lanes, due_ns - 1).is_empty() && due_ns - now_ns >= waited_ns);
            (waited_ns, now_ns) = (due_ns - now_ns, due_ns);
            more += sent(&mut lanes, now_ns).len();
        }
        assert_eq!(more, usize::from(TRIES));
        lanes.heard(root);
        assert_eq!(lanes.due_ns().map(|due_ns| sent(&mut lanes, due_ns.max(now_ns)).len()), Some(1));
    }

    #[test]
    fn nobody_is_dead_that_may_only_stand_still() {
        let mut plan = plan(100_000, 3, Scheme::TwoTrees);
        plan.link.stall_ns = 5_000_000;
        let mut lanes = Lanes::new(&plan, &Shape::of(&plan), 0).expect("memory");
        (0..plan.pieces()).step_by(2).for_each(|piece| assert!(lanes.push(piece)));
        let began_ns = 7_000_000_000;
        sent(&mut lanes, began_ns);
        let mut now_ns = began_ns;
        while let Some(due_ns) = lanes.due_ns() {
            now_ns = due_ns;
            sent(&mut lanes, now_ns);
        }
        assert!(now_ns >= began_ns + 5_000_000, "after {} ns", now_ns - began_ns);
        assert!(lanes.lanes.iter().flatten().any(|lane| !lane.queue.is_empty()), "it was dead before all was sent");
    }

    /// A member of seven that sends to two, and these.
    fn two_lanes(stall_ns: u32) -> (Lanes, [u32; 2]) {
        let mut plan = plan(100_000, 7, Scheme::TwoTrees);
        plan.link.stall_ns = stall_ns;
        let mut lanes = Lanes::new(&plan, &Shape::of(&plan), 4).expect("memory");
        (0..plan.pieces()).step_by(2).for_each(|piece| assert!(lanes.push(piece)));
        (lanes, [2, 6])
    }

    /// What one takes of the first 40 pieces of a tree, and the other each.
    fn slow_when(lanes: &mut Lanes, slow: u32, quick: u32, every: u32) -> Option<u32> {
        for turn in 0..40 {
            sent(lanes, turn.into());
            lanes.arrived(quick, 2 * turn, 0, turn.into());
            if every > 0 && turn % every == 0 {
                lanes.arrived(slow, 2 * (turn / every), 0, turn.into());
            }
            if let Some(who) = lanes.slow(turn.into()) {
                assert_eq!(who, slow);
                return Some(turn);
            }
        }
        None
    }

    #[test]
    fn who_takes_much_less_than_the_other_is_slow() {
        for (every, when) in [(1, None), (2, None), (10, Some(true)), (0, Some(true))] {
            let (mut lanes, [quick, slow]) = two_lanes(0);
            let found = slow_when(&mut lanes, slow, quick, every);
            assert_eq!(found.map(|turn| turn < 30), when, "of {every} pieces one: {found:?}");
        }
        let (mut lanes, [quick, slow]) = two_lanes(1000);
        assert_eq!(slow_when(&mut lanes, slow, quick, 0), None, "it may only stand still");
        assert_eq!(lanes.slow(2000), Some(slow), "but not for so long");
        assert_eq!(lanes.slow(2000), None, "it is said once");
    }

    #[test]
    fn where_both_are_slow_neither_is() {
        let (mut lanes, [one, other]) = two_lanes(0);
        sent(&mut lanes, 0);
        for turn in 1..100_000 {
            sent(&mut lanes, turn * 1000);
            assert_eq!(lanes.slow(turn * 1000), None);
        }
        lanes.arrived(one, 0, 0, 1_000_000_000);
        lanes.arrived(other, 0, 0, 1_000_000_000);
        assert_eq!(lanes.slow(1_000_000_000), None);
    }

    #[test]
    fn whoever_gets_it_instead_gets_what_was_under_way_too() {
        let (mut lanes, root) = lanes();
        sent(&mut lanes, 0);
        lanes.arrived(root, 2, 5, 1);
        assert_eq!(lanes.replace(root, (0, 9), (4..100).step_by(2)), Some(0));
        assert_eq!(lanes.replace(root, (0, 8), 0..100), None, "not twice");
        assert!(lanes.is_replaced(0, root) && !lanes.is_replaced(1, root));
        assert_eq!(lanes.next(1), Some((9, 4)));
        lanes.answered(9, 6);
        assert_eq!(lanes.next(1), Some((9, 8)), "what it asked for is not sent twice");
        lanes.let_go(0, root);
        assert_eq!(lanes.next(1), Some((9, 10)), "who is replaced has nothing to let go");
        lanes.let_go(0, 9);
        assert!(lanes.push(20));
        assert_eq!((lanes.next(1), lanes.due_ns()), (None, None), "nobody wants the rest");
    }
}
