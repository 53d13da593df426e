//! What a member of two trees passes on to each of those below it, no faster than that one takes it.
//!
//! Whoever is below says how far it is ([`Message::Arrived`](super::Message::Arrived)): which piece was the last that
//! came, and of how many others something is missing. It gets no more while much is on its way or much is missing, so
//! that neither its link's queue nor its card overflows when it, or its host, is slower than the link. As every member
//! has room for the whole file, nobody above has to wait for that.
//!
//! What it says can be lost: after a while one more piece goes its way. Who says nothing for long is dead as far as
//! can be seen here, and nothing more is sent to it until it says something. Who is silent or slow can be replaced by
//! one below it, and who does not want to be sent anything is not.

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

// A member puts together what is open of both trees, and one more of each that comes.
const _: () = assert!(2 * (PIECES_OPEN_MAX + 1) <= ASSEMBLIES_PER_MEMBER_MAX);

/// One below, and what it is sent.
#[derive(Debug)]
struct Lane {
    tree: usize,
    /// Who is there by the shape of the tree.
    child: u32,
    /// Who gets it, if anybody.
    to: Option<u32>,
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
        let (to, is_dead) = (Some(child), false);
        Some(Self { tree, child, to, queue, under_way, open: 0, due_ns: 0, tries: 0, tried_ns: 0, is_dead })
    }

    fn is_open(&self) -> bool {
        self.under_way.len() < PIECES_UNDER_WAY_MAX && self.open < PIECES_OPEN_MAX
    }

    /// From when on something is to be sent, ns; `None` if there is nothing, or nobody.
    fn ready_ns(&self) -> Option<u64> {
        let is_wanting = !self.queue.is_empty() && !self.is_dead;
        is_wanting.then_some(if self.is_open() { 0 } else { self.due_ns })
    }

    /// Somebody else gets what is left, and what may not have come; or nobody.
    fn turn_to(&mut self, to: Option<u32>) {
        while let Some(piece) = self.under_way.pop_back() {
            self.queue.push_front(piece);
        }
        if to.is_none() {
            self.queue = VecDeque::new();
        }
        (self.to, self.open, self.tries, self.is_dead) = (to, 0, 0, false);
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

    fn arrived(&mut self, piece: u32, open: usize, patience: Patience, now_ns: u64) {
        if let Some(index) = self.under_way.iter().position(|other| *other == piece) {
            self.under_way.drain(..=index);
        }
        self.open = open;
        self.due_ns = now_ns.saturating_add(patience.wait_ns);
    }
}

impl Lanes {
    /// Those of a member, or of home. `None` if there is no memory for them.
    pub(super) fn new(plan: &Plan, shape: Shape, me: u32) -> Option<Self> {
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
        for lane in self.of(tree_of(piece)).filter(|lane| lane.to.is_some()) {
            // What is under way may come back.
            let has_room = lane.queue.try_reserve(1 + PIECES_UNDER_WAY_MAX).is_ok();
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
            if let Some(next) = lane.to.zip(lane.next(patience, now_ns)) {
                self.turn = 1 - turn;
                return Some(next);
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
        for lane in self.of(tree_of(piece)).filter(|lane| lane.to == Some(from)) {
            lane.arrived(piece, open as usize, patience, now_ns);
        }
    }

    /// One below said something.
    pub(super) fn heard(&mut self, from: u32) {
        for lane in self.lanes.iter_mut().flatten().filter(|lane| lane.to == Some(from)) {
            (lane.tries, lane.is_dead) = (0, false);
        }
    }

    /// One asked for a whole piece, and gets it: it is not sent again.
    pub(super) fn answered(&mut self, to: u32, piece: u32) {
        for lane in self.of(tree_of(piece)).filter(|lane| lane.to == Some(to)) {
            lane.queue.retain(|other| *other != piece);
        }
    }

    /// One that is sent the pieces of a tree wants no more of them.
    pub(super) fn let_go(&mut self, tree: usize, who: u32) {
        self.of(tree).filter(|lane| lane.to == Some(who)).for_each(|lane| lane.turn_to(None));
    }

    /// Another gets what one below would. Whether it does: nobody is replaced twice, or when it has let go.
    pub(super) fn replace(&mut self, tree: usize, child: u32, by: u32) -> bool {
        let lane = self.of(tree).find(|lane| lane.to == Some(child) && lane.child == child);
        lane.map(|lane| lane.turn_to(Some(by))).is_some()
    }

    /// Who gets what one below would, if that is another.
    pub(super) fn instead_of(&mut self, tree: usize, child: u32) -> Option<u32> {
        self.of(tree).find(|lane| lane.child == child)?.to.filter(|to| *to != child)
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
        let mut lanes = Lanes::new(&plan, Shape::of(&plan), 0).expect("memory");
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
        let mut lanes = Lanes::new(&plan, Shape::of(&plan), 0).expect("memory");
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

    #[test]
    fn whoever_gets_it_instead_gets_what_was_under_way_too() {
        let (mut lanes, root) = lanes();
        sent(&mut lanes, 0);
        lanes.arrived(root, 2, 5, 1);
        assert!(lanes.replace(0, root, 9) && !lanes.replace(0, root, 8), "not twice");
        assert_eq!((lanes.instead_of(0, root), lanes.instead_of(1, root)), (Some(9), None));
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
