//! What a pack's file says of the objects in it: the objects come first, then an entry for each, then how many there
//! are. Numbers are little-endian.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::region::check;

use crate::limits::{OBJECT_FILE_BYTES_MAX, PACK_OBJECTS_MAX};

/// What the file ends with, behind how many entries there are.
const MAGIC: [u8; 8] = *b"coppack1";

/// Bytes of the number, its check and the magic.
pub(super) const END_BYTES: usize = 24;

/// An object in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: ObjectId,
    /// Where it begins, bytes from the start of the file.
    pub(super) offset: u64,
    /// Bytes of what its own file would hold.
    pub(super) length: u32,
    /// It is being taken out: it is there for nobody but those who do.
    pub(super) is_going: bool,
}

impl Entry {
    /// Bytes of one.
    pub(super) const BYTES: usize = 52;
    /// Bytes in front of the check.
    const CHECKED_BYTES: usize = 44;
    /// One of an object that was taken out.
    pub(super) const NONE: [u8; Self::BYTES] = [0; Self::BYTES];

    /// As it is written.
    pub(super) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = Self::NONE;
        bytes[..32].copy_from_slice(&self.id.0);
        bytes[32..40].copy_from_slice(&self.offset.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.length.to_le_bytes());
        let check = check(&bytes[..Self::CHECKED_BYTES]);
        bytes[44..].copy_from_slice(&(if self.is_going { !check } else { check }).to_le_bytes());
        bytes
    }

    /// Reads one that is there, or is going.
    fn read_any(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let id = ObjectId(bytes[..32].try_into().ok()?);
        let offset = u64::from_le_bytes(bytes[32..40].try_into().ok()?);
        let length = u32::from_le_bytes(bytes[40..44].try_into().ok()?);
        let found = u64::from_le_bytes(bytes[44..].try_into().ok()?);
        let check = check(&bytes[..Self::CHECKED_BYTES]);
        let is_one = (found == check || found == !check) && length as usize <= OBJECT_FILE_BYTES_MAX;
        is_one.then_some(Self { id, offset, length, is_going: found != check })
    }

    /// Reads one that is there.
    pub(super) fn read(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        Self::read_any(bytes).filter(|entry| !entry.is_going)
    }

    /// Where it ends. `None`: nowhere.
    pub(super) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length.into())
    }
}

/// What comes behind the objects.
pub(super) fn ending(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * Entry::BYTES + END_BYTES);
    entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.bytes()));
    let count = (entries.len() as u64).to_le_bytes();
    bytes.extend_from_slice(&count);
    bytes.extend_from_slice(&check(&count).to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes
}

/// What a pack holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Where its entries begin.
    pub(super) entries_at: u64,
    /// Those that are there or going, by their numbers.
    pub(super) entries: Vec<(u32, Entry)>,
}

/// Reads what a pack holds. `None`: it is no pack.
///
/// # Errors
/// What the host says.
pub(super) fn read_all(file: &File) -> io::Result<Option<Contents>> {
    let length = file.metadata()?.len();
    let Some(end_at) = length.checked_sub(END_BYTES as u64) else { return Ok(None) };
    let mut end = [0; END_BYTES];
    file.read_exact_at(&mut end, end_at)?;
    let [count, found] = [0, 8].map(|at| u64::from_le_bytes(end[at..at + 8].try_into().unwrap_or_default()));
    if end[16..] != MAGIC || found != check(&count.to_le_bytes()) || count > PACK_OBJECTS_MAX as u64 {
        return Ok(None);
    }
    let bytes = count as usize * Entry::BYTES;
    let Some(entries_at) = end_at.checked_sub(bytes as u64) else { return Ok(None) };
    let mut entries = vec![0; bytes];
    file.read_exact_at(&mut entries, entries_at)?;
    let (entries, _) = entries.as_chunks();
    let read = (0..).zip(entries).filter_map(|(number, entry)| Some((number, Entry::read_any(entry)?)));
    let entries = read.filter(|(_, entry)| entry.end().is_some_and(|end| end <= entries_at)).collect();
    Ok(Some(Contents { entries_at, entries }))
}
