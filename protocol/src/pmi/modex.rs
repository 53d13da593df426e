//! How ranks of a job come to know what others have put: the module exchange, which MPI calls “modex” for short.
//!
//! In a **full** one a barrier brings every node all that was put anywhere, and whoever gets a key has it. That costs
//! each node the cards of all ranks, whether anybody there wants them or not. In a **direct** one a barrier brings
//! nothing: a key is kept by one node, its home, and whoever gets it has his node ask there, which keeps the answer for
//! all of its ranks. So a node has no more than its share of the keys, and what its ranks have asked for.
//!
//! Which of them a job has all its nodes know from the number of its ranks, or from the launch if somebody wanted one
//! of them.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::placement::Placement;
use crate::ids::Rank;
use crate::limits::PMI_FULL_MODEX_RANKS_MAX;

/// See this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Modex {
    /// Barriers bring what was put.
    Full,
    /// Who wants a key asks for it.
    Direct,
}

/// A word that is the name of no [`Modex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is `full` or `direct`")]
pub struct NoModex;

impl Modex {
    const ALL: [Self; 2] = [Self::Full, Self::Direct];

    const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Direct => "direct",
        }
    }

    /// That of a job of so many ranks in which nobody wanted any. As long as all cards together are few bytes, they
    /// come with barriers that there are anyhow, and nobody has to wait for one.
    #[must_use]
    pub const fn of(ranks: u32) -> Self {
        if ranks <= PMI_FULL_MODEX_RANKS_MAX { Self::Full } else { Self::Direct }
    }
}

impl fmt::Display for Modex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Modex {
    type Err = NoModex;

    fn from_str(word: &str) -> Result<Self, NoModex> {
        Self::ALL.into_iter().find(|modex| modex.name() == word).ok_or(NoModex)
    }
}

/// The index of the node that keeps a key in a direct exchange. Whoever puts it and whoever gets it find the same one
/// without asking, and for most keys it is the one that puts it, which has to tell nobody: libraries name a rank's key
/// after the rank (`P12-businesscard`), so it is the node of the last number in it that is a rank's. Other keys are
/// spread over all nodes.
pub(super) fn home(key: &[u8], placement: &Placement) -> u32 {
    let numbers = key.rsplit(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut ranks = numbers.filter_map(|digits| core::str::from_utf8(digits).ok()?.parse().ok());
    ranks.find_map(|rank| placement.index_of_rank(Rank(rank))).unwrap_or_else(|| spread(key, placement.nodes()))
}

/// One of so many nodes, which follows from some bytes.
pub(super) fn spread(bytes: &[u8], nodes: u32) -> u32 {
    let mut start = [0; 8];
    blake3::Hasher::new().update(bytes).finalize_xof().fill(&mut start);
    (u64::from_le_bytes(start) % u64::from(nodes.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::{Modex, NoModex, home};
    use crate::ids::NodeId;
    use crate::limits::PMI_FULL_MODEX_RANKS_MAX;
    use crate::world::{JobKey, World};

    #[test]
    fn a_ranks_key_is_kept_by_its_node() {
        let world = World::new(JobKey([1; 32]), 4, (0..8).map(NodeId));
        let placement = world.placement(32).unwrap();
        let home = |key: &str| home(key.as_bytes(), &placement);
        assert_eq!(["P0-businesscard", "P12-businesscard", "P31-businesscard"].map(home), [0, 3, 7]);
        // What is no rank's number is passed over.
        assert_eq!(["-allgather-3-17", "P5-card-99", "P5-card-99999999999999999999"].map(home), [4, 1, 1]);
        let others = ["sharedFilename[", "P32", "", "\u{fc}"];
        assert_eq!(others.map(home), others.map(|key| super::spread(key.as_bytes(), 8)));
    }

    #[test]
    fn small_jobs_exchange_all() {
        assert_eq!([1, PMI_FULL_MODEX_RANKS_MAX].map(Modex::of), [Modex::Full; 2]);
        assert_eq!([PMI_FULL_MODEX_RANKS_MAX + 1, u32::MAX].map(Modex::of), [Modex::Direct; 2]);
    }

    #[test]
    fn both_have_a_name() {
        assert_eq!(Modex::ALL.map(|modex| modex.name().parse()), Modex::ALL.map(Ok));
        assert_eq!("Full".parse::<Modex>(), Err(NoModex));
    }
}
