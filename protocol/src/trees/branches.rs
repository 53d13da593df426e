//! A tree of branches: as many as there are pieces, each with a head that takes its piece from home, and below the head
//! the rest of the branch in as many layers as wanted.
//!
//! Members are dealt out to the branches in turn: of *k* branches, member *m* is in branch (*m* − 1) mod *k*. Within
//! its branch it has a number, 0 for the head; a number's children are *f* neighbours as in a heap, where *f* is the
//! fan-out that fits the branch into its layers.

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its branch, counted from 0.
    pub branch: u32,
    /// Its number in the branch, 0 for the head.
    pub number: u32,
}

/// See this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches {
    members: u32,
    branches: u32,
    fan_out: u32,
}

impl Branches {
    /// So many members in so many branches of `layers` layers, heads included. At least one branch and two layers are
    /// made of it.
    #[must_use]
    pub fn new(members: u32, branches: u32, layers: u32) -> Self {
        let branches = branches.clamp(1, members.max(1));
        let below = members.div_ceil(branches).saturating_sub(1);
        let depth = layers.max(2) - 1;
        // The least fan-out whose heap has so many layers below its head.
        let has_room = |fan_out: u32| {
            let mut room = 0_u64;
            let mut layer = 1_u64;
            for _ in 0..depth {
                layer = layer.saturating_mul(fan_out.into());
                room = room.saturating_add(layer);
            }
            room >= below.into()
        };
        let (mut low, mut high) = (1, below.max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if has_room(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Self { members, branches, fan_out: low }
    }

    /// How many there are.
    #[must_use]
    pub const fn branches(self) -> u32 {
        self.branches
    }

    /// Where a member is; `None` for 0 and for what is no member.
    #[must_use]
    pub fn place(self, member: u32) -> Option<Place> {
        let index = member.checked_sub(1).filter(|index| *index < self.members)?;
        Some(Place { branch: index % self.branches, number: index / self.branches })
    }

    /// Who is there, if somebody is.
    #[must_use]
    pub fn member(self, place: Place) -> Option<u32> {
        let index = u64::from(place.number) * u64::from(self.branches) + u64::from(place.branch);
        (place.branch < self.branches && index < self.members.into()).then(|| index as u32 + 1)
    }

    /// Who is above a member: home, which is 0, above heads.
    #[must_use]
    pub fn parent(self, member: u32) -> u32 {
        let Some(Place { branch, number }) = self.place(member).filter(|place| place.number > 0) else { return 0 };
        self.member(Place { branch, number: (number - 1) / self.fan_out }).unwrap_or(0)
    }

    /// Who is below a member, in the order in which they are served. Below 0 are the heads.
    pub fn children(self, member: u32) -> impl Iterator<Item = u32> + use<> {
        let heads = if member == 0 { self.branches.min(self.members) } else { 0 };
        let below = self.place(member).into_iter().flat_map(move |Place { branch, number }| {
            let first = u64::from(number) * u64::from(self.fan_out) + 1;
            (first..first + u64::from(self.fan_out))
                .map_while(|number| u32::try_from(number).ok())
                .map_while(move |number| self.member(Place { branch, number }))
        });
        (1..=heads).chain(below)
    }

    /// How many are below a member, next to it.
    #[must_use]
    pub fn children_count(self, member: u32) -> u32 {
        let Some(Place { branch, number }) = self.place(member) else { return self.branches.min(self.members) };
        let in_branch = (self.members - branch).div_ceil(self.branches);
        let first = u64::from(number) * u64::from(self.fan_out) + 1;
        u64::from(in_branch).saturating_sub(first).min(self.fan_out.into()) as u32
    }

    /// How many pieces home and those on the way have sent when a member has the piece of its branch: with one layer
    /// below the heads it is *i* + *j* for the *j*-th child of the *i*-th head, both counted as the paper does.
    #[must_use]
    pub fn slots(self, member: u32) -> u64 {
        let Some(Place { branch, mut number }) = self.place(member) else { return 0 };
        let mut slots = u64::from(branch) + 1;
        while number > 0 {
            slots += u64::from((number - 1) % self.fan_out) + 1;
            number = (number - 1) / self.fan_out;
        }
        slots
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::{Branches, Place};

    #[test]
    fn two_layers_are_heads_and_their_children() {
        let tree = Branches::new(18, 3, 2);
        assert!(tree.children(0).eq(1..=3));
        assert!(tree.children(1).eq([4, 7, 10, 13, 16]));
        assert!(tree.children(4).eq([]));
        // The third head's second child, in the paper [3,2].
        let member = tree.member(Place { branch: 2, number: 2 }).expect("somebody");
        assert_eq!((tree.parent(member), tree.slots(member)), (3, 5));
        assert_eq!((tree.slots(1), tree.slots(3), tree.slots(0)), (1, 3, 0));
    }

    #[test]
    fn everybody_is_below_one_other_within_the_layers() {
        for members in 0..120 {
            for branches in [1, 2, 7, 128] {
                for layers in 2..5 {
                    let tree = Branches::new(members, branches, layers);
                    let mut below = BTreeSet::new();
                    for member in 0..=members {
                        for child in tree.children(member) {
                            assert_eq!(tree.parent(child), member);
                            assert!(below.insert(child));
                        }
                        assert_eq!(tree.children(member).count() as u32, tree.children_count(member));
                        let mut depth = 0;
                        let mut at = member;
                        while at > 0 {
                            (at, depth) = (tree.parent(at), depth + 1);
                        }
                        assert!(depth <= layers, "{member} of {members} in {branches} branches");
                        assert_eq!(
                            tree.place(member).and_then(|place| tree.member(place)),
                            (member > 0).then_some(member)
                        );
                    }
                    assert!(below.into_iter().eq(1..=members));
                }
            }
        }
    }
}
