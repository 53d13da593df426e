//! What the ranks of one node say to each other (PMI version 2): keys and values that no other node hears of.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::record;
use super::space::{Put, PutError};
use crate::limits::PMI_ATTRIBUTES_MAX;

/// The attributes of a node for a job, at most [`PMI_ATTRIBUTES_MAX`]. Each is said once.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    memory_bytes: usize,
}

impl Attributes {
    /// For a checkpoint.
    pub(super) fn record(&self) -> Vec<Put> {
        self.values.iter().map(|(key, value)| record::put(key, value)).collect()
    }

    /// As they were written down.
    pub(super) fn again(record: Vec<Put>) -> Self {
        let memory_bytes = record.iter().map(Put::memory_bytes).sum();
        Self { values: record.into_iter().map(|put| (put.key, put.value)).collect(), memory_bytes }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(|value| &**value)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), PutError> {
        Put::check(key, value)?;
        if self.values.contains_key(key) {
            return Err(PutError::Duplicate);
        }
        if self.values.len() >= PMI_ATTRIBUTES_MAX {
            return Err(PutError::NoRoom);
        }
        let put = record::put(key, value);
        self.memory_bytes += put.memory_bytes();
        self.values.insert(put.key, put.value);
        Ok(())
    }

    /// What they take of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}
