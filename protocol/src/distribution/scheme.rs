//! How pieces get from home to the members.

use serde::{Deserialize, Serialize};

/// Which of the nodes that by the estimate have something is asked, and for what, in [`Scheme::Branches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AskVariant {
    /// Choose a piece that somebody has, then somebody who has it.
    PieceFirst,
    /// Choose somebody who has something, then ask for any of it.
    NodeFirst,
}

/// How pieces get from home to the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheme {
    /// All members are in two binary trees, each of which carries every other piece.
    TwoTrees,
    /// The published scheme: each piece goes down one of several branches; then members ask each other.
    Branches {
        /// How many branches; no more than there are pieces are made of it, and at least one.
        branches: u32,
        /// Layers of a branch, its head included; at least 2.
        layers: u8,
        /// See there.
        ask: AskVariant,
    },
}

impl Scheme {
    /// Whether trees take members' psets into account, with the I/O nodes of all of them as members. In the published
    /// scheme nearly all bytes come from whoever is asked for them, at random among all, and its figures rest on that.
    #[must_use]
    pub const fn knows_psets(self) -> bool {
        matches!(self, Self::TwoTrees)
    }

    /// The published scheme in the form that it prefers, for so many members: two layers, *k* heads in the first, each
    /// with the same number *h* of children, as far as that divides, and *h* at most *k*.
    ///
    /// Home sends to each head every *k*-th of its pieces, and that is how long a head's link has for all of its
    /// children: with more than *k* they would get less and less. *k* is the least for which *h* is no more, as the
    /// fewer branches there are, the more of the file goes to members unasked.
    #[must_use]
    pub fn published(members: u32) -> Self {
        let root = members.isqrt();
        let branches = if u64::from(root) * (u64::from(root) + 1) < members.into() { root + 1 } else { root.max(1) };
        Self::Branches { branches, layers: 2, ask: AskVariant::PieceFirst }
    }
}

#[cfg(test)]
mod tests {
    use super::Scheme;
    use crate::trees::Branches;

    #[test]
    fn the_preferred_form_has_as_few_heads_as_their_links_allow() {
        let heads = |members| match Scheme::published(members) {
            Scheme::Branches { branches, layers: 2, .. } => branches,
            other => panic!("{other:?}"),
        };
        // 128 heads with 128 children each are the example of the publication.
        assert_eq!(heads(128 * 129), 128);
        assert_eq!([1, 2, 3, 6, 7, 8, 12, 13, 16, 32].map(heads), [1, 1, 2, 2, 3, 3, 3, 4, 4, 6]);
        for members in 1..2000 {
            let tree = Branches::new(members, heads(members), 2);
            let children = |head| tree.children_count(head);
            let most = (1..=tree.branches()).map(children).max().expect("a head");
            let least = (1..=tree.branches()).map(children).min().expect("a head");
            assert!(most <= tree.branches() && most - least <= 1, "{most} and {least} of {members}");
            let fewer = tree.branches() - 1;
            assert!(fewer == 0 || u64::from(fewer) * u64::from(fewer + 1) < members.into(), "{members}");
        }
        assert_eq!(heads(u32::MAX), 65_536);
    }
}
