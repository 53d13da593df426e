//! The job's keys and values as one node knows them: all that was put before the last barrier, and what its own ranks
//! have put since.
//!
//! A key is put once. Where two nodes put the same key between the same two barriers, which neither can see, the node
//! with the lower index wins everywhere.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use serde::{Deserialize, Serialize};

use super::record::{self, SpaceRecord};
use crate::limits::{PMI_BYTES_PER_JOB_MAX, PMI_KEY_BYTES_MAX, PMI_KEYS_PER_JOB_MAX, PMI_VALUE_BYTES_MAX};

/// What a piece of memory takes beyond its bytes, about.
const OVERHEAD_BYTES: usize = 48;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Put {
    /// At most [`PMI_KEY_BYTES_MAX`] bytes, at least one.
    pub(crate) key: Box<[u8]>,
    /// At most [`PMI_VALUE_BYTES_MAX`] bytes.
    pub(crate) value: Box<[u8]>,
}

impl Put {
    /// Bytes that it counts for.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// What it takes of a node's memory, about, bytes: with its two pieces and a place in a list.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes() + 2 * OVERHEAD_BYTES
    }

    /// Whether a key and a value are within their limits.
    pub(crate) fn check(key: &[u8], value: &[u8]) -> Result<(), PutError> {
        if !(1..=PMI_KEY_BYTES_MAX).contains(&key.len()) {
            return Err(PutError::Key);
        }
        if value.len() > PMI_VALUE_BYTES_MAX { Err(PutError::Value) } else { Ok(()) }
    }

    /// Whether its lengths are within their limits.
    pub(crate) fn is_within_limits(&self) -> bool {
        Self::check(&self.key, &self.value).is_ok()
    }
}

/// Why a put is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutError {
    /// The key exists.
    Duplicate,
    /// There is no key, or it is too long.
    Key,
    /// The value is too long.
    Value,
    /// The node's share of [`PMI_KEYS_PER_JOB_MAX`] and [`PMI_BYTES_PER_JOB_MAX`] is used up, or its memory.
    NoRoom,
}

/// The keys and values.
#[derive(Debug)]
pub(crate) struct Space {
    /// In the order in which they became known, so that an index stays what it is.
    entries: Vec<Known>,
    index: BTreeMap<Arc<[u8]>, usize>,
    /// Put here since the last barrier that this node has entered.
    pending: Vec<Put>,
    /// Bytes of all entries.
    bytes: usize,
    /// What the pending ones take of memory, about, bytes.
    pending_bytes: usize,
    /// What this node may still put.
    keys_left: usize,
    bytes_left: usize,
}

#[derive(Debug)]
struct Known {
    key: Arc<[u8]>,
    value: Box<[u8]>,
    /// The barrier that made it known to all; `None`: none yet.
    generation: Option<u64>,
}

impl Space {
    /// The empty space of one of `nodes` nodes. Each may put the same part of what a job may: so nobody has to ask the
    /// others whether there is room, and the answer to a put is final.
    pub(crate) fn new(nodes: u32) -> Self {
        let nodes = nodes.max(1) as usize;
        Self {
            entries: Vec::new(),
            index: BTreeMap::new(),
            pending: Vec::new(),
            bytes: 0,
            pending_bytes: 0,
            keys_left: PMI_KEYS_PER_JOB_MAX / nodes,
            bytes_left: PMI_BYTES_PER_JOB_MAX / nodes,
        }
    }

    /// What it is, for a checkpoint.
    pub(super) fn record(&self) -> SpaceRecord {
        let entry = |known: &Known| (record::put(&known.key, &known.value), known.generation);
        SpaceRecord {
            entries: self.entries.iter().map(entry).collect(),
            keys_left: self.keys_left,
            bytes_left: self.bytes_left,
        }
    }

    /// One that was written down after so many barriers. What was put here and is not known to all is this node's part
    /// of the next.
    pub(super) fn again(record: SpaceRecord, completed: u64) -> Self {
        let SpaceRecord { entries, keys_left, bytes_left } = record;
        let mut space = Self { keys_left, bytes_left, ..Self::new(1) };
        for (entry, generation) in entries {
            let generation = generation.filter(|generation| *generation < completed);
            // It was in the memory of a node before.
            let _ = space.learn(&entry, generation);
            if generation.is_none() {
                space.pending_bytes += entry.memory_bytes();
                space.pending.push(entry);
            }
        }
        space
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.get(*self.index.get(key)?).map(|known| &*known.value)
    }

    /// All keys that begin like this, and their values, in order.
    pub(crate) fn of_prefix<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let keys = self.index.range::<[u8], _>(from).take_while(move |(key, _)| key.starts_with(prefix));
        keys.filter_map(|(_, index)| self.entries.get(*index)).map(|known| (&*known.key, &*known.value))
    }

    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + self.entries.len() * 4 * OVERHEAD_BYTES + self.pending_bytes
    }

    /// The entry with this index.
    pub(crate) fn at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.entries.get(index).map(|known| (&*known.key, &*known.value))
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), PutError> {
        Put::check(key, value)?;
        if self.index.contains_key(key) {
            return Err(PutError::Duplicate);
        }
        let bytes = key.len() + value.len();
        if self.keys_left == 0 || self.bytes_left < bytes || self.pending.try_reserve(1).is_err() {
            return Err(PutError::NoRoom);
        }
        let entry = Put { key: key.into(), value: value.into() };
        self.learn(&entry, None).map_err(|OutOfMemory| PutError::NoRoom)?;
        self.pending_bytes += entry.memory_bytes();
        self.pending.push(entry);
        self.keys_left -= 1;
        self.bytes_left -= bytes;
        Ok(())
    }

    /// What another node has said of a key that a barrier has made known. Beyond what a job may put it is forgotten.
    pub(crate) fn keep(&mut self, key: &[u8], value: &[u8], generation: u64) {
        let has_room =
            self.entries.len() < PMI_KEYS_PER_JOB_MAX && self.bytes + key.len() + value.len() <= PMI_BYTES_PER_JOB_MAX;
        if has_room {
            // It is asked for again if there is no memory.
            let _ = self.learn(&Put { key: key.into(), value: value.into() }, Some(generation));
        }
    }

    /// What was put here since the last call: this node's part of a barrier.
    pub(crate) fn take_pending(&mut self) -> Vec<Put> {
        self.pending_bytes = 0;
        core::mem::take(&mut self.pending)
    }

    /// A barrier is through: what each node put before it, by the nodes' index.
    pub(crate) fn commit(&mut self, generation: u64, parts: &BTreeMap<u32, Vec<Put>>) -> Result<(), OutOfMemory> {
        // The lowest comes last and stays.
        for entry in parts.values().rev().flatten() {
            self.learn(entry, Some(generation))?;
        }
        Ok(())
    }

    fn learn(&mut self, entry: &Put, generation: Option<u64>) -> Result<(), OutOfMemory> {
        if let Some(known) = self.index.get(&*entry.key).and_then(|index| self.entries.get_mut(*index)) {
            if known.generation.is_none() || known.generation == generation {
                self.bytes = self.bytes - known.value.len() + entry.value.len();
                known.value.clone_from(&entry.value);
                known.generation = generation;
            }
            return Ok(());
        }
        self.entries.try_reserve(1).map_err(|_| OutOfMemory)?;
        let key = Arc::<[u8]>::from(&*entry.key);
        self.index.insert(Arc::clone(&key), self.entries.len());
        self.bytes += entry.bytes();
        self.entries.push(Known { key, value: entry.value.clone(), generation });
        Ok(())
    }
}

/// The node has no memory for what it has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;
