//! Who has what by when, as every member works it out from the start time alone, and how that is corrected.

use super::plan::Plan;
use super::scheme::Scheme;
use crate::trees::{Branches, TreesOverPsets};

/// Home, which has everything.
pub const HOME: u32 = 0;

/// By how much more all is believed to be late for each that did not have what it should.
const STEP_PIECES: u64 = 4;
/// Whoever lacks something is believed to have it after the time of so many pieces.
const LATER_PIECES: u64 = 16;
/// So much later than they should others have something for certain.
const MARGIN_PIECES: u64 = 4;

/// The shape of a plan's tree or trees.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Two(TreesOverPsets),
    Branches(Branches),
}

impl Shape {
    pub(super) fn of(plan: &Plan) -> Self {
        match plan.scheme {
            Scheme::TwoTrees => Self::Two(plan.two_trees()),
            Scheme::Branches { branches, layers, .. } => Self::Branches(plan.branches(branches, layers)),
        }
    }

    /// Who sends a piece to a member, of its own accord.
    pub(super) fn parent(&self, member: u32, piece: u32) -> Option<u32> {
        match self {
            Self::Two(trees) => Some(trees.parent(tree_of(piece), member)),
            Self::Branches(tree) => {
                let is_own = tree.place(member)?.branch == piece % tree.branches();
                is_own.then(|| tree.parent(member))
            }
        }
    }
}

/// The tree of [`Scheme::TwoTrees`] that a piece goes down.
pub(super) const fn tree_of(piece: u32) -> usize {
    (piece % 2) as usize
}

/// See this module. Times are since home began, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    piece_ns: u64,
    latency_ns: u64,
    /// The whole tree is believed to be so much later than its links would have it.
    correction_ns: u64,
}

impl Estimate {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { piece_ns: plan.piece_ns(), latency_ns: plan.link.latency_ns.into(), correction_ns: 0 }
    }

    /// When a member has a piece, as far as can be known: `None` for pieces that nobody is assumed to have.
    pub(super) fn has_by(&self, shape: &Shape, member: u32, piece: u32) -> Option<u64> {
        if member == HOME {
            return Some(0);
        }
        Some(self.without_faults(shape, member, piece)?.saturating_add(self.correction_ns))
    }

    /// When a member of a branch has a piece and answers others, as it does when those below it have it, too.
    pub(super) fn serves_by(&self, tree: Branches, member: u32, piece: u32) -> Option<u64> {
        let by_ns = self.has_by(&Shape::Branches(tree), member, piece)?;
        Some(by_ns.saturating_add(u64::from(tree.children_count(member)) * self.piece_ns))
    }

    /// When a member of two trees that is so deep in the piece's has it, as far as can be known.
    pub(super) fn comes_by(&self, depth: u32, piece: u32) -> u64 {
        self.without_faults_at(depth, piece).saturating_add(self.correction_ns)
    }

    fn without_faults_at(&self, depth: u32, piece: u32) -> u64 {
        let depth = u64::from(depth);
        // Each on the way sends it to two.
        let slots = u64::from(piece) + 1 + 2 * depth.saturating_sub(1);
        slots * self.piece_ns + depth * self.latency_ns
    }

    fn without_faults(&self, shape: &Shape, member: u32, piece: u32) -> Option<u64> {
        match shape {
            Shape::Two(trees) => Some(self.without_faults_at(trees.depth(tree_of(piece), member), piece)),
            Shape::Branches(tree) => {
                let place = tree.place(member).filter(|place| place.branch == piece % tree.branches())?;
                let slots = u64::from(piece) + tree.slots(member) - u64::from(place.branch);
                Some(slots * self.piece_ns + 2 * self.latency_ns)
            }
        }
    }

    /// When all have a piece, as far as can be known.
    pub(super) fn all_have_by(&self, trees: &TreesOverPsets, piece: u32) -> u64 {
        let depth = u64::from(trees.depth_max());
        let slots = u64::from(piece) + 2 * depth + MARGIN_PIECES;
        (slots * self.piece_ns + depth * self.latency_ns).saturating_add(self.correction_ns)
    }

    /// A member did not have a piece at that time.
    ///
    /// In the published scheme all is at least so late then. Where members are late by themselves, because somebody
    /// above them died, that says little of the others: with each it is believed a little more.
    pub(super) fn correct(&mut self, shape: &Shape, member: u32, piece: u32, now_ns: u64) {
        if let Shape::Two(trees) = shape {
            let by_ns = self.all_have_by(trees, piece).saturating_sub(self.correction_ns);
            // Nobody is waited for much longer than that.
            let most_ns = now_ns.saturating_sub(by_ns).saturating_add(LATER_PIECES * self.piece_ns);
            let more_ns = self.correction_ns.saturating_add(STEP_PIECES * self.piece_ns);
            self.correction_ns = self.correction_ns.max(more_ns.min(most_ns));
            return;
        }
        let Some(expected_ns) = self.without_faults(shape, member, piece) else { return };
        // Later by a piece's time, so that asking again makes sense.
        let late_ns = now_ns.saturating_sub(expected_ns).saturating_add(self.piece_ns);
        self.correction_ns = self.correction_ns.max(late_ns);
    }

    /// Somebody had a piece that it should have.
    pub(super) fn confirm(&mut self, shape: &Shape) {
        if let Shape::Two(_) = shape {
            self.correction_ns = self.correction_ns.saturating_sub(self.piece_ns);
        }
    }

    pub(super) const fn piece_ns(&self) -> u64 {
        self.piece_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{Estimate, Shape};
    use crate::distribution::tests::plan;
    use crate::distribution::{AskVariant, Scheme};
    use crate::trees::Place;

    /// A branch for each piece.
    const OF_PIECES: Scheme = Scheme::Branches { branches: u32::MAX, layers: 2, ask: AskVariant::PieceFirst };

    /// The worked example of the scheme: heads with five children each; when the third head's second child has its
    /// piece, who has which?
    #[test]
    fn the_worked_example() {
        let mut plan = plan(5 * 1000, 5 * 6, OF_PIECES);
        plan.link.latency_ns = 0;
        let (shape, estimate) = (Shape::of(&plan), Estimate::new(&plan));
        let tree = plan.branches(u32::MAX, 2);
        let now_ns = 5 * estimate.piece_ns();
        let has = |branch, number| {
            let member = tree.member(Place { branch, number }).expect("somebody");
            (0..5).filter(|piece| estimate.has_by(&shape, member, *piece).is_some_and(|at| at <= now_ns)).count()
        };
        let holders: [usize; 5] = [0, 1, 2, 3, 4].map(|branch| (0..6).map(|number| has(branch, number)).sum());
        // [1,0..4], [2,0..3], [3,0..2], …
        assert_eq!(holders, [5, 4, 3, 2, 1]);
    }

    #[test]
    fn who_lacks_what_it_should_have_makes_all_later() {
        let plan = plan(64_000, 640, OF_PIECES);
        let (shape, mut estimate) = (Shape::of(&plan), Estimate::new(&plan));
        let before = estimate.has_by(&shape, 8, 7).expect("its branch's");
        estimate.correct(&shape, 5, 4, 1_000_000_000);
        assert!(estimate.has_by(&shape, 5, 4).is_some_and(|at| at > 1_000_000_000));
        let after = estimate.has_by(&shape, 8, 7).expect("its branch's");
        assert!(after > before);
        estimate.correct(&shape, 5, 4, 0);
        assert_eq!(estimate.has_by(&shape, 8, 7), Some(after));
        assert_eq!((estimate.has_by(&shape, 0, 4), estimate.has_by(&shape, 8, 4)), (Some(0), None));
    }
}
