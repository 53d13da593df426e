//! A region as a node writes it, by hand.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

use coppice_protocol::checkpoint::{OBJECT_BYTES_MAX, ObjectId, PartOf};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::region::index::{ENTRY_BYTES, find};
use coppice_protocol::region::{
    BLOCK_BYTES, Extent, HEADER_BYTES, Section, Slot, SlotKey, State, SuperBlock, Table, TablePart, check,
    header_offset,
};

use crate::common::{JOB, Pset};

/// Blocks of it.
pub(super) const BLOCKS: u64 = 64;
pub(super) const REGION_BYTES: u64 = BLOCKS * BLOCK_BYTES;

/// The region of a node.
pub(super) struct Region {
    pub(super) node: NodeId,
    pub(super) file: File,
    /// The next block that nothing is in.
    next: u64,
}

/// A part with a record, of these sections.
pub(super) fn part(of: PartOf, sections: Vec<Section>) -> TablePart {
    TablePart { of, record_bytes: 20, sections }
}

impl Region {
    /// An empty one.
    pub(super) fn new(pset: &Pset, node: u32) -> Self {
        let directory = pset.dir.path().join("regions");
        std::fs::create_dir_all(&directory).unwrap();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(directory.join(node.to_string())).unwrap();
        file.set_len(REGION_BYTES).unwrap();
        file.write_all_at(&SuperBlock::of(REGION_BYTES).bytes(), 0).unwrap();
        Self { node: NodeId(node), file, next: 1 }
    }

    fn blocks(&mut self, bytes: u64) -> u64 {
        let offset = self.next * BLOCK_BYTES;
        self.next += bytes.div_ceil(BLOCK_BYTES).max(1);
        assert!(self.next <= BLOCKS, "the region is full");
        offset
    }

    /// Writes something into blocks of its own.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Extent {
        let offset = self.blocks(bytes.len() as u64);
        self.file.write_all_at(bytes, offset).unwrap();
        Extent { offset, bytes: bytes.len() as u64, check: check(bytes) }
    }

    /// Objects that are not in the storage.
    pub(super) fn new_objects(&mut self, objects: &[&[u8]]) -> Vec<Section> {
        objects.iter().map(|bytes| Section::New(self.write(bytes))).collect()
    }

    /// Fills a slot, with as much room for its index as it takes at most.
    pub(super) fn fill(&mut self, from: SlotKey, parts: Vec<TablePart>) -> Slot {
        let table = Table { job: JOB, key: from.key, parts };
        let room = table.index_bytes_max();
        self.fill_for(from, &table, room)
    }

    /// As [`Self::fill`], of any job and with so much room.
    pub(super) fn fill_for(&mut self, from: SlotKey, table: &Table, room: u64) -> Slot {
        let offset = self.blocks(room);
        let bytes = table.bytes().unwrap();
        let slot = Slot {
            state: State::Local,
            job: table.job,
            key: from.key,
            table: self.write(&bytes),
            index: Extent { offset, bytes: room, check: 0 },
        };
        self.write_header(from.slot, &slot.bytes());
        slot
    }

    /// A slot that the node is filling, which does not say what it has.
    pub(super) fn filling(&mut self, from: SlotKey, job: JobId) {
        let nothing = Extent { offset: 0, bytes: 0, check: 0 };
        let slot = Slot { state: State::Filling, job, key: from.key, table: nothing, index: nothing };
        self.write_header(from.slot, &slot.bytes());
    }

    pub(super) fn write_header(&self, slot: u8, bytes: &[u8]) {
        let mut page = vec![0; HEADER_BYTES as usize];
        page[..bytes.len()].copy_from_slice(bytes);
        self.file.write_all_at(&page, header_offset(slot)).unwrap();
    }

    /// Flips a bit.
    pub(super) fn damage(&self, offset: u64) {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, offset).unwrap();
        self.file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
    }

    pub(super) fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let mut read = vec![0; usize::try_from(bytes).unwrap()];
        self.file.read_exact_at(&mut read, offset).unwrap();
        read
    }

    /// What a header says.
    pub(super) fn slot(&self, number: u8) -> Option<Slot> {
        Slot::read(&self.read(header_offset(number), HEADER_BYTES), REGION_BYTES)
    }

    /// An object that the index of a drained slot has.
    pub(super) fn get(&self, number: u8, object: ObjectId) -> Option<Vec<u8>> {
        let slot = self.slot(number).unwrap();
        assert_eq!(slot.state, State::Drained);
        let index = self.read(slot.index.offset, slot.index.bytes);
        assert_eq!(check(&index), slot.index.check);
        let extent = find(slot.index.bytes, &object, |offset, entry| {
            entry.copy_from_slice(&index[usize::try_from(offset).unwrap()..][..ENTRY_BYTES]);
        })?;
        assert!(extent.bytes as usize <= OBJECT_BYTES_MAX);
        let bytes = self.read(extent.offset, extent.bytes);
        assert_eq!((ObjectId::of(&bytes), check(&bytes)), (object, extent.check), "what the index says is there");
        Some(bytes)
    }

    /// The blocks that something is in, but for the headers'.
    pub(super) fn used(&self) -> Vec<u64> {
        let is_used = |block: &u64| self.read(block * BLOCK_BYTES, BLOCK_BYTES).iter().any(|byte| *byte != 0);
        (1..BLOCKS).filter(is_used).collect()
    }

    /// Bytes of the host's disk that it takes.
    pub(super) fn on_disk(&self) -> u64 {
        self.file.metadata().unwrap().blocks() * 512
    }
}

/// The blocks that these lie in.
pub(super) fn blocks_of(extents: impl IntoIterator<Item = Extent>) -> Vec<u64> {
    let mut blocks: Vec<u64> =
        extents.into_iter().flat_map(|extent| extent.blocks()).map(|block| block as u64).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}
