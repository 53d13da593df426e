//! getdents64(2).

use std::mem::MaybeUninit;
use std::sync::Arc;

use coppice_protocol::lease::limits::LISTED_MAX;
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::{FileStatus, Handle};
use rustix::fs::{FileType, RawDir, RawDirEntry, SeekFrom};
use rustix::io::Errno;

use super::handles::Object;
use super::status::status_in;
use super::{Files, Result};

/// Bytes of a record before its name: inode, offset, length, type.
const RECORD_HEADER_BYTES: usize = 19;

/// Where a record says how long it is.
const RECORD_LENGTH_AT: usize = 16;

/// Records start at multiples of this, bytes.
const RECORD_ALIGNMENT: usize = 8;

/// A listing to be made, on another thread.
#[derive(Debug)]
pub(crate) struct Listing {
    object: Arc<Object>,
    position: u64,
    length: usize,
    root_inode: Option<u64>,
}

impl Files {
    /// Prepares getdents64(2) of `length` bytes from `position`: 0 or where an earlier one ended.
    pub(crate) fn list(&self, directory: Handle, position: u64, length: u32) -> Result<Listing> {
        let file = self.handles.get(directory)?;
        let length = usize::try_from(length).map_or(BULK_BYTES_MAX, |length| length.min(BULK_BYTES_MAX));
        Ok(Listing { object: Arc::clone(&file.object), position, length, root_inode: file.root_inode })
    }
}

impl Listing {
    /// The records, and the position behind the last of them. No records: the end.
    ///
    /// # Errors
    /// As getdents64(2): `EINVAL` if not even one record fits, `ENOTDIR`.
    pub(crate) fn run(&self) -> Result<(Vec<u8>, u64)> {
        if let Object::File(_) = *self.object {
            return Err(Errno::NOTDIR);
        }
        rustix::fs::seek(&self.object, SeekFrom::Start(self.position))?;
        let mut buffer = vec![MaybeUninit::uninit(); self.length];
        let mut entries = RawDir::new(&self.object, &mut buffer);
        let (mut records, mut next) = (Vec::new(), self.position);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            next = entry.next_entry_cookie();
            self.push_record(&mut records, &entry);
            // One call of the host's for one of the program's: stop where the next would be made.
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok((records, next))
    }

    /// What the first entries are of which these are the records, links not followed. Of what is not there any more,
    /// and of the directory itself and the one above, nothing is told.
    pub(crate) fn attributes(&self, mut records: &[u8]) -> Vec<Option<FileStatus>> {
        let mut told = Vec::new();
        while told.len() < LISTED_MAX
            && let Some(length) = records.get(RECORD_LENGTH_AT..RECORD_LENGTH_AT + 2)
        {
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let Some((record, rest)) = records.split_at_checked(length) else { break };
            records = rest;
            let name = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let is_entry = name != b"." && name != b"..";
            told.push(if is_entry { status_in(&*self.object, name).ok() } else { None });
        }
        told
    }

    fn push_record(&self, records: &mut Vec<u8>, entry: &RawDirEntry<'_>) {
        let name = entry.file_name().to_bytes_with_nul();
        let length = (RECORD_HEADER_BYTES + name.len()).next_multiple_of(RECORD_ALIGNMENT);
        let end = records.len() + length;
        // In its root, a job is at the top: what lies above has no number there.
        let inode = match self.root_inode {
            Some(root) if name == b"..\0" => root,
            _ => entry.ino(),
        };
        records.extend_from_slice(&inode.to_le_bytes());
        records.extend_from_slice(&entry.next_entry_cookie().to_le_bytes());
        // A name has at most 255 bytes (NAME_MAX), so a record is far below 64 KiB.
        records.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
        records.push(record_type(entry.file_type()));
        records.extend_from_slice(name);
        records.resize(end, 0);
    }
}

/// `DT_*`: the type bits of a mode, shifted down.
fn record_type(kind: FileType) -> u8 {
    if kind == FileType::Unknown { 0 } else { u8::try_from(kind.as_raw_mode() >> 12).unwrap_or(0) }
}
