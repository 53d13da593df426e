//! The keys of which a node is the home in a direct exchange ([`super::modex`]): what ranks anywhere have put, for
//! ranks anywhere.
//!
//! A key is put once. Where two nodes put the same key between the same two barriers, which neither can know, the one
//! with the lower index wins, as it does in a full exchange.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use super::letter::{Answer, Refusal};
use super::shelf::OVERHEAD_BYTES;
use super::space::Put;
use crate::limits::{PMI_BYTES_PER_HOME_MAX, PMI_KEYS_PER_HOME_MAX};

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Drawer {
    kept: BTreeMap<Box<[u8]>, Kept>,
    /// Bytes of all keys and values.
    bytes: usize,
}

/// What is kept of a key.
#[derive(Debug)]
struct Kept {
    value: Box<[u8]>,
    /// The barrier before which it was put.
    generation: u64,
    /// The node that has put it.
    origin: u32,
}

/// A key for a checkpoint: with its value, the barrier before which it was put, and the node that has.
pub(super) type KeptRecord = (Put, u64, u32);

impl Drawer {
    /// For a checkpoint.
    pub(super) fn record(&self) -> Vec<KeptRecord> {
        let put = |key: &[u8], kept: &Kept| Put { key: key.into(), value: kept.value.clone() };
        self.kept.iter().map(|(key, kept)| (put(key, kept), kept.generation, kept.origin)).collect()
    }

    /// As it was written down.
    pub(super) fn again(record: Vec<KeptRecord>) -> Self {
        let mut drawer = Self::default();
        for (Put { key, value }, generation, origin) in record {
            // There was room before.
            drawer.put((&key, value), generation, origin, true);
        }
        drawer
    }

    /// What it takes of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + 2 * self.kept.len() * OVERHEAD_BYTES
    }

    /// Node `origin` puts a key before barrier `generation`.
    pub(super) fn put(
        &mut self,
        (key, value): (&[u8], Box<[u8]>),
        generation: u64,
        origin: u32,
        has_room: bool,
    ) -> Answer {
        let is_full = !has_room
            || self.kept.len() >= PMI_KEYS_PER_HOME_MAX
            || self.bytes + key.len() + value.len() > PMI_BYTES_PER_HOME_MAX;
        match self.kept.entry(key.into()) {
            Entry::Vacant(_) if is_full => Answer::No(Refusal::NoRoom),
            Entry::Vacant(free) => {
                self.bytes += key.len() + value.len();
                free.insert(Kept { value, generation, origin });
                Answer::Done
            }
            Entry::Occupied(taken) if taken.get().generation != generation || taken.get().origin == origin => {
                Answer::No(Refusal::Taken)
            }
            Entry::Occupied(mut taken) => {
                if origin < taken.get().origin {
                    self.bytes = self.bytes - taken.get().value.len() + value.len();
                    taken.insert(Kept { value, generation, origin });
                }
                Answer::Done
            }
        }
    }

    /// What was put under a key.
    pub(super) fn get(&self, key: &[u8]) -> Answer {
        let found = self.kept.get(key).map(|Kept { value, generation, .. }| (*generation, value.clone()));
        found.map_or(Answer::No(Refusal::Unknown), |(generation, value)| Answer::Value { generation, value })
    }
}
