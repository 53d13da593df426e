//! What a member of two trees passes on to each of those below it, no faster than that one takes it.
//!
//! Whoever is below says how far it is ([`Message::Arrived`](super::Message::Arrived)): which piece was the last that
//! came, and of how many before it something is missing. It gets no more while much is on its way or much is missing,
//! so that neither its link's queue nor its card overflows when it, or its host, is slower than the link. As every
//! member has room for the whole file, nobody above has to wait for that.
//!
//! What it says can be lost: after a while one more piece goes its way. Who says nothing for long is dead as far as
//! can be seen here, and nothing more is sent to it until it says something.

use alloc::collections::VecDeque;

use super::estimate::{Shape, tree_of};
use super::plan::Plan;
use crate::limits::{PIECES_OPEN_MAX, PIECES_UNDER_WAY_MAX};

/// Without a word for the time of so many pieces one more is sent; that doubles with each.
const WAIT_PIECES: u64 = 8;
/// Most doublings.
const DOUBLINGS_MAX: u8 = 6;
/// So many more were sent without a word, and for the time in which anybody may stand still, and it is dead.
const TRIES: u8 = 5;

/// One below, and what it is sent.
#[derive(Debug)]
struct Lane {
    tree: usize,
    /// Who is there by the shape of the tree.
    child: u32,
    /// Who gets it.
    to: u32,
    /// What is to be sent, in that order.
    queue: VecDeque<u32>,
    /// What was sent, and may still be on its way.
    under_way: VecDeque<u32>,
    /// Of how many pieces that came something is missing there.
    open: usize,
    /// When one more is sent, whatever is on its way, ns, and how often that was since something was heard.
    due_ns: u64,
    tries: u8,
    heard_ns: u64,
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
    fn new(tree: usize, child: u32) -> Self {
        let (queue, under_way) = (VecDeque::new(), VecDeque::new());
        Self { tree, child, to: child, queue, under_way, open: 0, due_ns: 0, tries: 0, heard_ns: 0, is_dead: false }
    }

    fn is_open(&self) -> bool {
        let under_way = self.under_way.len();
        under_way < PIECES_UNDER_WAY_MAX && self.open < PIECES_OPEN_MAX
    }

    /// Whether something is to be sent, now or later.
    fn is_wanting(&self) -> bool {
        !self.queue.is_empty() && !self.is_dead
    }

    /// From when on it may be sent something, ns.
    fn ready_ns(&self) -> Option<u64> {
        self.is_wanting().then_some(if self.is_open() { 0 } else { self.due_ns })
    }

    /// Somebody else gets what is left, and what may not have come.
    fn turn_to(&mut self, to: u32, now_ns: u64) {
        while let Some(piece) = self.under_way.pop_back() {
            self.queue.push_front(piece);
        }
        (self.to, self.open, self.tries, self.heard_ns, self.is_dead) = (to, 0, 0, now_ns, false);
    }

    fn next(&mut self, patience: Patience, now_ns: u64) -> Option<u32> {
        if self.ready_ns().is_none_or(|ready_ns| ready_ns > now_ns) {
            return None;
        }
        if !self.is_open() {
            if self.tries >= TRIES && now_ns >= self.heard_ns.saturating_add(patience.stall_ns) {
                self.is_dead = true;
                return None;
            }
            self.tries = self.tries.saturating_add(1);
            if self.under_way.pop_front().is_none() {
                self.open = self.open.saturating_sub(1);
            }
        }
        self.under_way.try_reserve(1).ok()?;
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
        self.heard(now_ns);
        self.due_ns = now_ns.saturating_add(patience.wait_ns);
    }

    fn heard(&mut self, now_ns: u64) {
        (self.tries, self.heard_ns, self.is_dead) = (0, now_ns, false);
    }
}

impl Lanes {
    /// Those of a member, or of home.
    pub(super) fn new(plan: &Plan, shape: Shape, me: u32) -> Self {
        let mut lanes = [None, None];
        if let Shape::Two(trees) = shape {
            let below = (0..2).flat_map(|tree| trees.children(tree, me).map(|child| Some((tree, child?))));
            // Nobody has more than two in both.
            for (lane, (tree, child)) in lanes.iter_mut().zip(below.flatten()) {
                *lane = Some(Lane::new(tree, child));
            }
        }
        let stall_ns = u64::from(plan.link.stall_ns);
        let wait_ns = WAIT_PIECES * (plan.piece_ns() + u64::from(plan.link.latency_ns));
        Self { lanes, patience: Patience { wait_ns, stall_ns: stall_ns + wait_ns }, turn: 0 }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.iter_mut().flatten()
    }

    /// A piece is there to be passed on. Whether there was memory to note that.
    pub(super) fn push(&mut self, piece: u32) -> bool {
        let mut is_noted = true;
        for lane in self.all().filter(|lane| lane.tree == tree_of(piece)) {
            is_noted &= lane.queue.try_reserve(1 + PIECES_UNDER_WAY_MAX).is_ok();
            if is_noted {
                lane.queue.push_back(piece);
            }
        }
        is_noted
    }

    /// What is sent next, and to whom. `instead_of` says who gets what would be a member's, if anybody.
    pub(super) fn next(&mut self, now_ns: u64, instead_of: impl Fn(usize, u32) -> Option<u32>) -> Option<(u32, u32)> {
        let patience = self.patience;
        for step in 0..2 {
            let turn = (self.turn + step) % 2;
            let Some(lane) = &mut self.lanes[turn] else { continue };
            match instead_of(lane.tree, lane.child) {
                Some(to) if to != lane.to => lane.turn_to(to, now_ns),
                Some(_) => {}
                None => {
                    lane.queue.clear();
                    lane.under_way.clear();
                }
            }
            if let Some(piece) = lane.next(patience, now_ns) {
                let to = lane.to;
                self.turn = (turn + 1) % 2;
                return Some((to, piece));
            }
        }
        None
    }

    /// When something is to be sent, ns; 0 for at once.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.lanes.iter().flatten().filter_map(Lane::ready_ns).min()
    }

    /// One below says how far it is: the last piece that came, and of how many something is missing.
    pub(super) fn arrived(&mut self, from: u32, piece: u32, open: u32, now_ns: u64) {
        let patience = self.patience;
        for lane in self.all().filter(|lane| lane.to == from && lane.tree == tree_of(piece)) {
            lane.arrived(piece, open as usize, patience, now_ns);
        }
    }

    /// One below said something.
    pub(super) fn heard(&mut self, from: u32, now_ns: u64) {
        self.all().filter(|lane| lane.to == from).for_each(|lane| lane.heard(now_ns));
    }

    /// One asked for a whole piece, and gets it: it is not sent again.
    pub(super) fn answered(&mut self, to: u32, piece: u32) {
        for lane in self.all().filter(|lane| lane.to == to && lane.tree == tree_of(piece)) {
            lane.queue.retain(|other| *other != piece);
        }
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
        let mut lanes = Lanes::new(&plan, Shape::of(&plan), 0);
        (0..plan.pieces()).step_by(2).for_each(|piece| assert!(lanes.push(piece)));
        let root = plan.two_trees().children(0, 0)[0].expect("somebody");
        (lanes, root)
    }

    fn sent(lanes: &mut Lanes, now_ns: u64) -> Vec<(u32, u32)> {
        core::iter::from_fn(|| lanes.next(now_ns, |_, child| Some(child))).collect()
    }

    #[test]
    fn no_more_is_sent_than_is_taken() {
        let (mut lanes, root) = lanes();
        let first = sent(&mut lanes, 0);
        assert_eq!(first.len(), PIECES_UNDER_WAY_MAX);
        assert!(first.iter().enumerate().all(|(number, sent)| *sent == (root, 2 * number as u32)));
        lanes.arrived(root, 2, 0, 1);
        assert_eq!(sent(&mut lanes, 1).len(), 2, "the first two have come");
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
        lanes.heard(root, now_ns);
        assert_eq!(lanes.due_ns().map(|due_ns| sent(&mut lanes, due_ns.max(now_ns)).len()), Some(1));
    }

    #[test]
    fn whoever_gets_it_instead_gets_what_was_under_way_too() {
        let (mut lanes, root) = lanes();
        sent(&mut lanes, 0);
        lanes.arrived(root, 2, 5, 1);
        assert_eq!(lanes.next(1, |_, _| Some(9)), Some((9, 4)));
        lanes.answered(9, 6);
        assert_eq!(lanes.next(1, |_, _| Some(9)), Some((9, 8)), "what it asked for is not sent twice");
        assert_eq!(lanes.next(1, |_, _| None), None);
        assert_eq!(lanes.due_ns(), None, "nobody wants the rest");
    }
}
