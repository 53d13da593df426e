//! What the ranks of a node have put, as they wrote it, by key: what others on the node may see, and what others
//! elsewhere may.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::dialect::Dialect;
use super::request::{Buckets, Scope};
use super::status::Status;
use super::writer::Writer;
use crate::ids::Rank;
use crate::limits::PMIX_CARDS_BYTES_MAX;
use crate::pmi::NodeRanks;

/// What a pair takes of memory beyond its bytes, about.
const OVERHEAD_BYTES: usize = 96;

/// Pairs by their keys.
type Pairs = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// See this module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cards {
    ranks: BTreeMap<Rank, Card>,
    bytes: usize,
}

/// What one rank has put.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Card {
    /// How they are written.
    dialect: Option<Dialect>,
    /// How often it has changed.
    version: u64,
    near: Pairs,
    far: Pairs,
    /// Keys of `far` that others elsewhere have not heard of.
    fresh: BTreeSet<Box<[u8]>>,
}

impl Cards {
    /// A rank commits what it has put. A key that it had put before has the new value.
    ///
    /// # Errors
    /// Why not all of it was taken: [`Status::OUT_OF_RESOURCE`] beyond [`PMIX_CARDS_BYTES_MAX`], and those of
    /// [`Buckets`].
    pub fn commit(&mut self, rank: Rank, dialect: Dialect, buckets: Buckets<'_>) -> Result<(), Status> {
        let card = self.ranks.entry(rank).or_default();
        card.dialect = Some(dialect);
        card.version += 1;
        for bucket in buckets {
            let (scope, pairs) = bucket?;
            for pair in pairs {
                let (key, pair) = pair?;
                if matches!(scope, Scope::Local | Scope::Global) {
                    put(&mut card.near, &mut self.bytes, key, pair)?;
                }
                if matches!(scope, Scope::Remote | Scope::Global) && put(&mut card.far, &mut self.bytes, key, pair)? {
                    card.fresh.insert(key.into());
                }
            }
        }
        Ok(())
    }

    /// Whether a rank of the node has put a key, for others there.
    #[must_use]
    pub fn has(&self, rank: Rank, key: &[u8]) -> bool {
        self.ranks.get(&rank).is_some_and(|card| card.near.contains_key(key))
    }

    /// Whether a rank of the node has put a key for others elsewhere, and for nobody there.
    #[must_use]
    pub fn is_kept_from_here(&self, rank: Rank, key: &[u8]) -> bool {
        self.ranks.get(&rank).is_some_and(|card| card.far.contains_key(key) && !card.near.contains_key(key))
    }

    /// Whether a rank of the node has committed anything, or nothing.
    #[must_use]
    pub fn is_there(&self, rank: Rank) -> bool {
        self.ranks.contains_key(&rank)
    }

    /// The pairs that a rank of the node has put for others there, all of their bytes.
    pub fn near(&self, rank: Rank) -> impl Iterator<Item = &[u8]> {
        self.ranks.get(&rank).into_iter().flat_map(|card| card.near.values()).map(|pair| &**pair)
    }

    /// The pairs that a rank of the node has put for others elsewhere, which have not heard of them.
    pub fn fresh(&self, rank: Rank) -> impl Iterator<Item = &[u8]> {
        let card = self.ranks.get(&rank);
        card.into_iter().flat_map(|card| card.fresh.iter().filter_map(|key| card.far.get(key))).map(|pair| &**pair)
    }

    /// The pairs that a rank of the node has put for others elsewhere, each packed by a call of its own, and which
    /// version that is; nothing if it has committed nothing.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: they are written otherwise.
    pub fn far(&self, rank: Rank, dialect: Dialect) -> Result<Option<(u64, Vec<u8>)>, Status> {
        let Some(card) = self.ranks.get(&rank) else { return Ok(None) };
        if card.dialect != Some(dialect) {
            return Err(Status::NOT_SUPPORTED);
        }
        let mut stream = Writer::new(dialect);
        for pair in card.far.values() {
            stream.packed(1).put(pair);
        }
        Ok(Some((card.version, stream.into_bytes())))
    }

    /// How often what a rank of the node has put has changed.
    #[must_use]
    pub fn version(&self, rank: Rank) -> u64 {
        self.ranks.get(&rank).map_or(0, |card| card.version)
    }

    /// They have.
    pub fn told(&mut self, rank: Rank) {
        if let Some(card) = self.ranks.get_mut(&rank) {
            card.fresh.clear();
        }
    }

    /// What it takes of memory, about, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is within the limits and of these ranks, if it was written down.
    pub(crate) fn is_of(&self, here: NodeRanks) -> bool {
        let pairs = || self.ranks.values().flat_map(|card| card.near.iter().chain(&card.far));
        let bytes: usize = pairs().map(|(key, pair)| key.len() + pair.len() + OVERHEAD_BYTES).sum();
        bytes == self.bytes && bytes <= PMIX_CARDS_BYTES_MAX && self.ranks.keys().all(|rank| here.has(*rank))
    }
}

/// Whether that is news.
fn put(pairs: &mut Pairs, bytes: &mut usize, key: &[u8], pair: &[u8]) -> Result<bool, Status> {
    let known = pairs.get(key).map(|known| known.len());
    if pairs.get(key).is_some_and(|known| **known == *pair) {
        return Ok(false);
    }
    let before = known.map_or(0, |known| key.len() + known + OVERHEAD_BYTES);
    let after = *bytes - before + key.len() + pair.len() + OVERHEAD_BYTES;
    if after > PMIX_CARDS_BYTES_MAX {
        return Err(Status::OUT_OF_RESOURCE);
    }
    pairs.insert(key.into(), pair.into());
    *bytes = after;
    Ok(true)
}

/// Pieces of at most so many bytes of what pairs are as one stream, each pair packed by a call of its own.
pub(crate) fn pieces<'a>(pairs: impl Iterator<Item = &'a [u8]>, one: &[u8], most: usize) -> Vec<Box<[u8]>> {
    let stream: Vec<u8> = pairs.flat_map(|pair| one.iter().chain(pair)).copied().collect();
    stream.chunks(most.max(1)).map(Box::from).collect()
}
