//! Where the objects of a drained slot lie, by their names: entries of [`ENTRY_BYTES`], sorted by name, so that one is
//! found where they lie, with no memory for them.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::Extent;
use crate::checkpoint::{OBJECT_BYTES_MAX, ObjectId};

/// Bytes of an entry: the name, where it lies, how many bytes, and their check.
pub const ENTRY_BYTES: usize = 56;

/// The index of these objects.
#[must_use]
pub fn build(mut objects: Vec<(ObjectId, Extent)>) -> Vec<u8> {
    objects.sort_by_key(|(name, _)| *name);
    objects.dedup_by_key(|(name, _)| *name);
    let mut bytes = Vec::with_capacity(objects.len() * ENTRY_BYTES);
    for (name, extent) in objects {
        bytes.extend_from_slice(&name.0);
        [extent.offset, extent.bytes, extent.check]
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
    bytes
}

/// Looks an object up in an index of so many bytes, of which `read` gives [`ENTRY_BYTES`] at an offset. Whoever reads
/// the object holds it against the check, which is far less work than to name it; who wrote the index had done both.
pub fn find(bytes: u64, name: &ObjectId, mut read: impl FnMut(u64, &mut [u8; ENTRY_BYTES])) -> Option<Extent> {
    let (mut low, mut high) = (0, bytes / ENTRY_BYTES as u64);
    let mut entry = [0; ENTRY_BYTES];
    while low < high {
        let middle = low + (high - low) / 2;
        read(middle * ENTRY_BYTES as u64, &mut entry);
        match entry[..32].cmp(&name.0) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return extent(&entry),
        }
    }
    None
}

/// All that an index says, in order.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = (ObjectId, Extent)> {
    let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
    entries.iter().filter_map(|entry| Some((ObjectId(*entry.first_chunk()?), extent(entry)?)))
}

/// Where the objects of an index lie, by name. What cannot be an entry is none.
pub fn extents(index: &[u8]) -> impl Iterator<Item = Extent> {
    index.as_chunks().0.iter().filter_map(extent)
}

fn extent(entry: &[u8; ENTRY_BYTES]) -> Option<Extent> {
    let (words, _) = entry[32..].as_chunks();
    let [offset, bytes, check] = *words else { return None };
    let [offset, bytes, check] = [offset, bytes, check].map(u64::from_le_bytes);
    (bytes <= OBJECT_BYTES_MAX as u64).then_some(Extent { offset, bytes, check })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_that_is_in_it_is_found_and_nothing_else(names in prop::collection::vec(any::<u8>(), 0..200), other: u8) {
            let id = |name: u8| ObjectId::of(&[name]);
            let at = |name: u8| Extent { offset: u64::from(name) << 20, bytes: name.into(), check: !u64::from(name) };
            let index = build(names.iter().map(|name| (id(*name), at(*name))).collect());
            let look = |name| find(index.len() as u64, &id(name), |offset, entry| {
                entry.copy_from_slice(&index[offset as usize..][..ENTRY_BYTES]);
            });
            for name in &names {
                prop_assert_eq!(look(*name), Some(at(*name)));
            }
            prop_assert_eq!(look(other).is_some(), names.contains(&other));
            prop_assert_eq!(extents(&index).count() * ENTRY_BYTES, index.len());
            for extent in extents(&index) {
                let name = extent.bytes as u8;
                prop_assert!(names.contains(&name) && extent == at(name));
            }
        }
    }
}
