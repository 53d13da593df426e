//! The file of a region: what is read of it, written to it and taken out of it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use coppice_protocol::ids::NodeId;
use coppice_protocol::region::{
    BLOCK_BYTES, Blocks, Extent, HEADER_BYTES, REGION_BYTES_MIN, Slot, State, SuperBlock, Table, check, header_offset,
};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::error::{RegionError, Result};
use crate::limits::REGION_TABLE_BYTES_MAX;

/// An open region.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) node: NodeId,
    file: File,
    bytes: u64,
    /// It begins as a region of its length does: if not, nothing is there.
    is_one: bool,
}

impl Region {
    /// Opens a node's region. `None`: there is none, or it is too short to be one.
    pub(super) fn open(directory: &impl AsFd, node: NodeId) -> Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let failed = |error| RegionError::Host { what: "open", node, error };
        let file = match rustix::fs::openat(directory, node.to_string(), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened.map_err(|error| failed(error.into()))?),
        };
        let status = file.metadata().map_err(failed)?;
        if !status.is_file() {
            return Err(RegionError::NoFile(node));
        }
        let mut region = Self { node, file, bytes: status.len(), is_one: false };
        if region.bytes < REGION_BYTES_MIN {
            return Ok(None);
        }
        region.is_one = SuperBlock::is_at(&region.read(0, HEADER_BYTES)?, region.bytes);
        Ok(Some(region))
    }

    /// Whether it is a region of this version.
    pub(super) const fn is_one(&self) -> bool {
        self.is_one
    }

    /// None of its blocks.
    pub(super) fn no_blocks(&self) -> Result<Blocks> {
        Blocks::new(self.bytes).map_err(|_| self.failed("keep account of", Errno::NOMEM.into()))
    }

    /// The numbers of all blocks that objects may lie in.
    pub(super) fn block_numbers(&self) -> core::ops::Range<usize> {
        1..usize::try_from(self.bytes / BLOCK_BYTES).unwrap_or(usize::MAX)
    }

    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut read = Vec::new();
        self.read_into(offset, bytes, &mut read)?;
        Ok(read)
    }

    /// Reads so many bytes instead of what is in a buffer.
    pub(super) fn read_into(&self, offset: u64, bytes: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        buffer.clear();
        let room = buffer.try_reserve_exact(length).map_err(|_| Errno::NOMEM.into());
        let read = room.and_then(|()| {
            buffer.resize(length, 0);
            self.file.read_exact_at(buffer, offset)
        });
        read.map_err(|error| self.failed("read", error))
    }

    /// Reads what an extent has, instead of what is in a buffer. False: it is not what was written.
    pub(super) fn read_extent(&self, extent: Extent, buffer: &mut Vec<u8>) -> Result<bool> {
        self.read_into(extent.offset, extent.bytes, buffer)?;
        Ok(check(buffer) == extent.check)
    }

    /// The page that a slot's header is in.
    pub(super) fn header(&self, number: u8) -> Result<Vec<u8>> {
        self.read(header_offset(number), HEADER_BYTES)
    }

    /// What a header says. `None`: the slot is empty.
    pub(super) fn slot(&self, header: &[u8]) -> Option<Slot> {
        Slot::read(header, self.bytes).filter(|_| self.is_one)
    }

    /// A slot's table. `None`: it is damaged.
    pub(super) fn table(&self, slot: &Slot) -> Result<Option<Table>> {
        if slot.table.bytes > REGION_TABLE_BYTES_MAX {
            return Ok(None);
        }
        let bytes = self.read(slot.table.offset, slot.table.bytes)?;
        Ok(Table::read(&bytes, slot, self.bytes).ok())
    }

    /// A slot's index. There is none before it is drained, or if it is damaged.
    pub(super) fn index(&self, slot: &Slot) -> Result<Vec<u8>> {
        let mut index = Vec::new();
        if slot.state != State::Drained || slot.index.bytes > REGION_TABLE_BYTES_MAX {
            return Ok(index);
        }
        let is_whole = self.read_extent(slot.index, &mut index)?;
        Ok(if is_whole { index } else { Vec::new() })
    }

    /// Writes something.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed("write to", error))
    }

    /// Writes a slot's header; none makes it empty.
    pub(super) fn write_header(&self, number: u8, slot: Option<&Slot>) -> Result<()> {
        let mut page = slot.map(Slot::bytes).unwrap_or_default();
        page.resize(HEADER_BYTES as usize, 0);
        self.write(header_offset(number), &page)
    }

    /// Has what was written so far on stable storage.
    pub(super) fn settle(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.failed("write to", error))
    }

    /// Takes out what is in some blocks, and gives their room back to the host.
    pub(super) fn punch(&self, numbers: core::ops::Range<usize>) -> Result<()> {
        let (offset, bytes) = (numbers.start as u64 * BLOCK_BYTES, numbers.len() as u64 * BLOCK_BYTES);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, offset, bytes).map_err(|error| self.failed("wipe", error.into()))
    }

    fn failed(&self, what: &'static str, error: std::io::Error) -> RegionError {
        RegionError::Host { what, node: self.node, error }
    }
}
