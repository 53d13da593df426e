//! Where the objects of a drained slot lie, by their names: entries of [`ENTRY_BYTES`], sorted by name, so that one is
//! found where they lie, with no memory for them.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::checkpoint::{OBJECT_BYTES_MAX, ObjectId};

/// Bytes of an entry: the name, where it lies, how many bytes, and four that say nothing.
pub const ENTRY_BYTES: usize = 48;

/// Where an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the region.
    pub offset: u64,
    /// Bytes, at most [`OBJECT_BYTES_MAX`].
    pub bytes: u32,
}

/// The index of these objects.
#[must_use]
pub fn build(mut objects: Vec<(ObjectId, Place)>) -> Vec<u8> {
    objects.sort_by_key(|(name, _)| *name);
    objects.dedup_by_key(|(name, _)| *name);
    let mut bytes = Vec::with_capacity(objects.len() * ENTRY_BYTES);
    for (name, place) in objects {
        bytes.extend_from_slice(&name.0);
        bytes.extend_from_slice(&place.offset.to_le_bytes());
        bytes.extend_from_slice(&place.bytes.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes
}

/// Looks an object up in an index of so many bytes, of which `read` gives [`ENTRY_BYTES`] at an offset. Whoever reads
/// the object holds it against its name.
pub fn find(bytes: u64, name: &ObjectId, mut read: impl FnMut(u64, &mut [u8; ENTRY_BYTES])) -> Option<Place> {
    let (mut low, mut high) = (0, bytes / ENTRY_BYTES as u64);
    let mut entry = [0; ENTRY_BYTES];
    while low < high {
        let middle = low + (high - low) / 2;
        read(middle * ENTRY_BYTES as u64, &mut entry);
        match entry[..32].cmp(&name.0) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return place(&entry),
        }
    }
    None
}

/// All that an index says, in order.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = (ObjectId, Place)> {
    let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
    entries.iter().filter_map(|entry| Some((ObjectId(*entry.first_chunk()?), place(entry)?)))
}

/// Where the objects of an index lie, by name. What cannot be an entry is none.
pub fn places(index: &[u8]) -> impl Iterator<Item = Place> {
    index.as_chunks().0.iter().filter_map(place)
}

fn place(entry: &[u8; ENTRY_BYTES]) -> Option<Place> {
    let (offset, rest) = entry[32..].split_first_chunk()?;
    let (bytes, _) = rest.split_first_chunk()?;
    let place = Place { offset: u64::from_le_bytes(*offset), bytes: u32::from_le_bytes(*bytes) };
    (place.bytes as usize <= OBJECT_BYTES_MAX).then_some(place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_that_is_in_it_is_found_and_nothing_else(names in prop::collection::vec(any::<u8>(), 0..200), other: u8) {
            let id = |name: u8| ObjectId::of(&[name]);
            let at = |name: u8| Place { offset: u64::from(name) << 20, bytes: u32::from(name) };
            let index = build(names.iter().map(|name| (id(*name), at(*name))).collect());
            let look = |name| find(index.len() as u64, &id(name), |offset, entry| {
                entry.copy_from_slice(&index[offset as usize..][..ENTRY_BYTES]);
            });
            for name in &names {
                prop_assert_eq!(look(*name), Some(at(*name)));
            }
            prop_assert_eq!(look(other).is_some(), names.contains(&other));
            prop_assert_eq!(places(&index).count() * ENTRY_BYTES, index.len());
            for place in places(&index) {
                let name = place.bytes as u8;
                prop_assert!(names.contains(&name) && place == at(name));
            }
        }
    }
}
