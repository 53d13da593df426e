//! Summaries of several things of the same ranks. One that was 0 for all of them takes a bit: what it would be follows
//! from whose it is.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::summary::Summary;
use crate::ids::Rank;
use crate::ranks::Ranks;

/// See this module. Things are numbered from 0, below 64; whose they are is known to whoever has this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Summaries {
    /// Which were not 0 for all: there is a summary of each, in order.
    mask: u64,
    some: Vec<Summary>,
}

/// The bit of a thing.
const fn bit(place: usize) -> u64 {
    1 << place
}

impl Summaries {
    /// Of one rank.
    pub(super) fn of(rank: Rank, values: &[u64]) -> Self {
        let mut all = Self::default();
        for (place, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
            all.mask |= bit(place);
            all.some.push(Summary::of(rank, *value));
        }
        all
    }

    fn find(&self, place: usize) -> Option<&Summary> {
        let before = self.mask & (bit(place) - 1);
        self.some.get(before.count_ones() as usize).filter(|_| self.mask & bit(place) != 0)
    }

    /// That of one thing, if these are `whose`.
    pub(super) fn get(&self, place: usize, whose: &Ranks) -> Cow<'_, Summary> {
        self.find(place).map_or_else(|| Cow::Owned(Summary::zeros(whose)), Cow::Borrowed)
    }

    /// Those of others, too: these are `own`, and none of these is among the `others`.
    pub(super) fn merge(&mut self, own: &Ranks, other: &Self, others: &Ranks) {
        if own.count() == 0 {
            return self.clone_from(other);
        }
        if self.mask == other.mask {
            self.some.iter_mut().zip(&other.some).for_each(|(summary, other)| summary.merge(other));
            return;
        }
        let mut all = Self { mask: self.mask | other.mask, some: Vec::new() };
        all.some.reserve_exact(all.mask.count_ones() as usize);
        let mut mine = core::mem::take(&mut self.some).into_iter();
        for place in (0..u64::BITS as usize).filter(|place| all.mask & bit(*place) != 0) {
            let known = if self.mask & bit(place) != 0 { mine.next() } else { None };
            let mut summary = known.unwrap_or_else(|| Summary::zeros(own));
            summary.merge(&other.get(place, others));
            all.some.push(summary);
        }
        *self = all;
    }

    /// Whether these may be of so many things and `whose`: what came from elsewhere fits together, and is said in the
    /// one way in which it can be.
    pub(super) fn are_of(&self, things: usize, whose: &Ranks) -> bool {
        let is_of = |summary: &Summary| summary.sum() > 0 && summary.is_of(whose.count()) && summary.is_within(whose);
        let none_beyond = self.mask.checked_shr(things as u32).unwrap_or(0) == 0;
        let as_many = self.some.len() == self.mask.count_ones() as usize;
        none_beyond && as_many && (whose.count() > 0 || self.mask == 0) && self.some.iter().all(is_of)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any};
    use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::{Summaries, Summary};
    use crate::ids::Rank;
    use crate::ranks::Ranks;

    /// As many things.
    const THINGS: usize = 3;

    /// Often nothing.
    fn value() -> impl Strategy<Value = u64> {
        prop_oneof![3 => Just(0), 1 => any::<u64>()]
    }

    fn all(of: &[(u32, [u64; THINGS])]) -> (Ranks, Summaries) {
        let (mut ranks, mut all) = (Ranks::default(), Summaries::default());
        for (rank, values) in of {
            let one = Ranks::from(Rank(*rank));
            all.merge(&ranks, &Summaries::of(Rank(*rank), values), &one);
            assert!(ranks.join(&one));
        }
        (ranks, all)
    }

    proptest! {
        #[test]
        fn what_is_left_out_is_as_if_it_were_there(
            values in vec([value(), value(), value()], 0..40), middle in any::<proptest::sample::Index>(),
        ) {
            // Not all ranks, so that those that are first are not the first ones.
            let of: Vec<(u32, [u64; THINGS])> = (0..).map(|number| 3 * number + 5).zip(values).collect();
            let (left, right) = of.split_at(middle.index(of.len() + 1));
            let ((left_ranks, mut one), (right_ranks, mut other)) = (all(left), all(right));
            let before = one.clone();
            one.merge(&left_ranks, &other, &right_ranks);
            other.merge(&right_ranks, &before, &left_ranks);
            let (ranks, whole) = all(&of);
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(&one, &whole);
            prop_assert!(whole.are_of(THINGS, &ranks));
            for place in 0..THINGS {
                let mut plain = Summary::default();
                of.iter().for_each(|(rank, values)| plain.merge(&Summary::of(Rank(*rank), values[place])));
                let there = whole.get(place, &ranks);
                prop_assert_eq!(&*there, &plain);
                prop_assert_eq!(whole.find(place).is_some(), plain.sum() > 0);
            }
        }
    }

    #[test]
    fn nothing_takes_next_to_nothing() {
        let (ranks, zeros) = all(&[(0, [0; THINGS]), (1, [0; THINGS])]);
        assert_eq!(postcard::to_allocvec(&zeros).expect("plain data").len(), 2);
        assert_eq!(zeros.get(0, &ranks).top(), [(0, Rank(0)), (0, Rank(1))]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (ranks, sound) = all(&[(2, [0, 5, 0]), (3, [0, 0, 7])]);
        assert!(sound.are_of(THINGS, &ranks) && !sound.are_of(2, &ranks), "one that there is not");
        assert!(!sound.are_of(THINGS, &Ranks::from(Rank(2))), "of fewer");
        assert!(!sound.are_of(THINGS, &Ranks::range(Rank(3), 2)), "of others");
        assert!(!sound.are_of(THINGS, &Ranks::default()), "of nobody");
        let missing = Summaries { mask: sound.mask | 1, some: sound.some.clone() };
        assert!(!missing.are_of(THINGS, &ranks));
        let zero = Summaries { mask: 1, some: Vec::from([Summary::zeros(&ranks)]) };
        assert!(!zero.are_of(THINGS, &ranks), "nothing, said as if it were something");
        assert!(Summaries::of(Rank(1), &[1; 64]).are_of(64, &Ranks::from(Rank(1))));
    }
}
