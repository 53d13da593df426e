//! How much of something there was of each of many: bytes that a rank has sent, by node; calls that it has made, by
//! number. What is kept is bounded, and what is told of it more so.

use alloc::collections::BTreeMap;
use core::cmp::Reverse;

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::limits::{OVERLAY_TALLIED_MAX, OVERLAY_TALLIED_TOLD_MAX};

/// Amounts of at most [`OVERLAY_TALLIED_MAX`], the first ones that there were; and of all others together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<K> {
    some: BTreeMap<K, u64>,
    others: u64,
}

/// Bytes by the node that they were sent to.
pub type Peers = Tally<NodeId>;

/// Calls by their number.
pub type Calls = Tally<u16>;

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self::none()
    }
}

impl<K> Tally<K> {
    /// Nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { some: BTreeMap::new(), others: 0 }
    }
}

impl<K: Copy + Ord> Tally<K> {
    /// So much more, of one that has a name of its own or not.
    pub fn add(&mut self, of: Option<K>, amount: u64) {
        let has_room = self.some.len() < OVERLAY_TALLIED_MAX;
        let sum = match of {
            Some(of) if has_room || self.some.contains_key(&of) => self.some.entry(of).or_default(),
            _ => &mut self.others,
        };
        *sum = sum.saturating_add(amount);
    }

    /// And these.
    pub fn merge(&mut self, other: &Self) {
        other.some.iter().for_each(|(of, amount)| self.add(Some(*of), *amount));
        self.add(None, other.others);
    }

    /// Nothing of each, but the same are told apart.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self { some: self.some.keys().map(|of| (*of, 0)).collect(), others: 0 }
    }

    /// What has come since it was `before`, when the same were told apart, or fewer. What has become less began anew.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let of = |of: &K| before.some.get(of).copied().unwrap_or_default();
        let some = self.some.iter().map(|(key, amount)| (*key, since(*amount, of(key))));
        Self { some: some.filter(|(_, amount)| *amount > 0).collect(), others: since(self.others, before.others) }
    }

    /// What is told of it.
    pub(super) fn told(&self) -> TopTally<K> {
        // Of each rank in each epoch, so nothing is allocated. There are no more.
        let all = self.some.iter().map(|(of, amount)| (*of, *amount)).filter(|(_, amount)| *amount > 0);
        let mut all: ArrayVec<(K, u64), OVERLAY_TALLIED_MAX> = all.take(OVERLAY_TALLIED_MAX).collect();
        all.sort_unstable_by_key(|(of, amount)| (Reverse(*amount), *of));
        let mut most: ArrayVec<_, OVERLAY_TALLIED_TOLD_MAX> =
            all.iter().copied().take(OVERLAY_TALLIED_TOLD_MAX).collect();
        most.sort_unstable();
        let rest = all.iter().skip(OVERLAY_TALLIED_TOLD_MAX);
        TopTally { most, others: rest.fold(self.others, |sum, (_, amount)| sum.saturating_add(*amount)) }
    }
}

/// Those of which there was most, in their order: at most [`OVERLAY_TALLIED_TOLD_MAX`]; and what there was of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopTally<K> {
    most: ArrayVec<(K, u64), OVERLAY_TALLIED_TOLD_MAX>,
    others: u64,
}

impl<K> Default for TopTally<K> {
    fn default() -> Self {
        Self { most: ArrayVec::new(), others: 0 }
    }
}

impl<K: Copy + Ord> TopTally<K> {
    /// Each, and in the end what there was of all others together, if there was anything.
    pub fn iter(&self) -> impl Iterator<Item = (Option<K>, u64)> {
        let others = (self.others > 0).then_some((None, self.others));
        self.most.iter().map(|(of, amount)| (Some(*of), *amount)).chain(others)
    }

    /// Whether it is said in the one way in which it can be.
    fn is_sound(&self) -> bool {
        self.most.is_sorted_by(|(one, _), (other, _)| one < other) && self.most.iter().all(|(_, amount)| *amount > 0)
    }
}

/// All that is tallied of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Bytes that it sent to other nodes.
    pub sent_to: Peers,
    /// Calls that it made.
    pub calls: Calls,
}

impl Tallies {
    /// Nothing.
    pub(super) const fn none() -> Self {
        Self { sent_to: Tally::none(), calls: Tally::none() }
    }

    /// And these.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sent_to.merge(&other.sent_to);
        self.calls.merge(&other.calls);
    }

    /// What is told of it.
    pub(super) fn told(&self) -> TopTallies {
        TopTallies { sent_to: self.sent_to.told(), calls: self.calls.told() }
    }
}

/// What is told of [`Tallies`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopTallies {
    /// Of these bytes.
    pub sent_to: TopTally<NodeId>,
    /// Of these calls.
    pub calls: TopTally<u16>,
}

impl TopTallies {
    /// Whether it is said in the one way in which it can be.
    pub(super) fn is_sound(&self) -> bool {
        self.sent_to.is_sound() && self.calls.is_sound()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Calls, Peers, TopTally};
    use crate::ids::NodeId;
    use crate::limits::{OVERLAY_TALLIED_MAX, OVERLAY_TALLIED_TOLD_MAX};

    #[test]
    fn most_of_it_is_told_by_node_and_the_rest_together() {
        let mut peers = Peers::none();
        for node in 0..OVERLAY_TALLIED_MAX as u32 + 3 {
            peers.add(Some(NodeId(node)), u64::from(node % 10));
        }
        peers.add(None, 1000);
        peers.add(Some(NodeId(2)), 90);
        let told: Vec<_> = peers.told().iter().collect();
        let nines = [9, 19, 29, 39, 49, 59].map(|node| (Some(NodeId(node)), 9));
        assert_eq!(
            (told.len(), told[0], told[1]),
            (OVERLAY_TALLIED_TOLD_MAX + 1, (Some(NodeId(2)), 92), (Some(NodeId(8)), 8))
        );
        assert!(nines.iter().all(|nine| told.contains(nine)), "{told:?}");
        let all: u64 = (0..OVERLAY_TALLIED_MAX as u64 + 3).map(|node| node % 10).sum();
        assert_eq!(told.iter().map(|(_, bytes)| bytes).sum::<u64>(), all + 1090);
        assert_eq!(told[8].0, None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let of = |most: &[(u32, u64)]| {
            let most = most.iter().map(|(node, bytes)| (NodeId(*node), *bytes)).collect();
            TopTally { most, others: 0 }.is_sound()
        };
        assert!(of(&[(1, 5), (2, 4)]) && of(&[]));
        assert!(!of(&[(2, 5), (1, 4)]) && !of(&[(1, 5), (1, 4)]) && !of(&[(1, 0)]));
        let many: Vec<(u16, u64)> = (0..9).map(|number| (number, 1)).collect();
        let bytes = postcard::to_allocvec(&(many, 0_u64)).expect("plain data");
        assert!(postcard::from_bytes::<TopTally<u16>>(&bytes).is_err(), "more than there may be");
    }

    #[test]
    fn what_becomes_less_began_anew() {
        let of = |some: &[(Option<u16>, u64)]| {
            let mut calls = Calls::none();
            some.iter().for_each(|(number, times)| calls.add(*number, *times));
            calls
        };
        let (before, now) =
            (of(&[(Some(0), 9), (Some(1), 5), (None, 3)]), of(&[(Some(0), 2), (Some(1), 5), (None, 4)]));
        assert_eq!(now.since(&before), of(&[(Some(0), 2), (None, 1)]));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(sent in vec((0_u32..200, 0_u64..1000), 0..300)) {
            let (mut one, mut other) = (Peers::none(), Peers::none());
            for (place, (node, bytes)) in sent.iter().enumerate() {
                let peers = if place % 2 == 0 { &mut one } else { &mut other };
                peers.add((node % 7 != 0).then_some(NodeId(*node)), *bytes);
            }
            one.merge(&other);
            prop_assert!(one.told().is_sound());
            let told: u64 = one.told().iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(told, sent.iter().map(|(_, bytes)| bytes).sum::<u64>());
        }

        /// However many there are, and whichever come when: what is counted from the beginning each time adds up.
        #[test]
        fn what_came_since_adds_up(made in vec(vec((0_u16..100, 1_u64..1000), 0..100), 0..6)) {
            let (mut all, mut before, mut sum) = ([0_u64; 100], Calls::none(), Calls::none());
            for some in &made {
                some.iter().for_each(|(number, times)| all[usize::from(*number)] += times);
                let mut now = before.emptied();
                let made = (0..).zip(all).filter(|(_, times)| *times > 0);
                made.for_each(|(number, times)| now.add(Some(number), times));
                sum.merge(&now.since(&before));
                before = now;
            }
            prop_assert_eq!(sum.others, before.others);
            let came = |number: &u16| sum.some.get(number).copied().unwrap_or_default();
            prop_assert!(before.some.iter().all(|(number, times)| came(number) == *times));
            prop_assert_eq!(before.others + before.some.values().sum::<u64>(), all.iter().sum::<u64>());
            prop_assert!(before.others == 0 || before.some.len() == OVERLAY_TALLIED_MAX);
        }
    }
}
