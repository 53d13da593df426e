//! One area: a run of pages with the same rights and one kind of content.

use alloc::sync::Arc;
use core::any::Any;

use coppice_hal::paging::Access;

use super::changed::FileIdentity;
use super::image::Image;
use super::shared::SharedMemory;

/// A file that can be mapped. The address space keeps it alive and hands it back in [`super::Fetch`]es; whoever reads
/// files knows what it is.
pub trait FileSource: Any + Send + Sync {
    /// Which file it is, to know it again when it changes.
    fn identity(&self) -> FileIdentity;

    /// Shared mappings show it by this, which was written down.
    fn is_shown_by(&self, _memory: &Arc<SharedMemory>) {}
}

/// What a new mapping shows.
#[derive(Clone)]
pub enum Backing {
    /// Zeros.
    Zero,
    /// A file's bytes, read when first touched. The mapping is private: what the program writes stays its own. What is
    /// written to the file is seen if [`super::AddressSpace::file_changed`] is told.
    File {
        /// The file, open for reading.
        file: Arc<dyn FileSource>,
        /// Where in the file the mapping starts, bytes; a multiple of the page size.
        offset: u64,
    },
    /// A file's bytes, as all shared mappings of it on the node show them, which is by this memory.
    Mapped {
        /// Its pages.
        memory: Arc<SharedMemory>,
        /// The file, open for reading.
        file: Arc<dyn FileSource>,
        /// Where in the file the mapping starts, bytes; a multiple of the page size.
        offset: u64,
        /// Whether the mapping may write to it.
        may_write: bool,
    },
    /// Memory of the node's that others may show, too. A private mapping shows what is written to it until it writes
    /// itself.
    Shared {
        /// Which memory.
        memory: Arc<SharedMemory>,
        /// Where in it the mapping starts, bytes; a multiple of the page size.
        offset: u64,
        /// Whether a shared mapping may write to it.
        may_write: bool,
    },
}

/// Where the pages of an area come from when first touched.
#[derive(Clone)]
pub(super) enum Content {
    /// Zeros.
    Zero,
    /// A file from this offset on, bytes.
    File { file: Arc<dyn FileSource>, offset: u64 },
    /// The same of a file that is mapped shared, by this memory.
    Mapped { memory: Arc<SharedMemory>, file: Arc<dyn FileSource>, offset: u64 },
    /// The program, from this address of its image on.
    Program { image: Arc<Image>, address: u64 },
    /// Shared memory from this offset on, bytes; written to, or, `private`, until the first write.
    Shared { memory: Arc<SharedMemory>, offset: u64, private: bool },
}

impl Content {
    /// What is `bytes` further on.
    pub(super) fn advanced(&self, bytes: u64) -> Self {
        match self {
            Self::Zero => Self::Zero,
            Self::File { file, offset } => Self::File { file: Arc::clone(file), offset: offset + bytes },
            Self::Mapped { memory, file, offset } => {
                let (memory, file) = (Arc::clone(memory), Arc::clone(file));
                Self::Mapped { memory, file, offset: offset + bytes }
            }
            Self::Program { image, address } => Self::Program { image: Arc::clone(image), address: address + bytes },
            Self::Shared { memory, offset, private } => {
                Self::Shared { memory: Arc::clone(memory), offset: offset + bytes, private: *private }
            }
        }
    }

    /// Whether `next`, lying `bytes` behind the start of this, goes on with the same content.
    fn continues(&self, bytes: u64, next: &Self) -> bool {
        match (self, next) {
            (Self::Zero, Self::Zero) => true,
            (Self::File { file, offset }, Self::File { file: other, offset: at }) => {
                Arc::ptr_eq(file, other) && offset + bytes == *at
            }
            (Self::Mapped { file, offset, .. }, Self::Mapped { file: other, offset: at, .. }) => {
                Arc::ptr_eq(file, other) && offset + bytes == *at
            }
            (Self::Program { image, address }, Self::Program { image: other, address: at }) => {
                Arc::ptr_eq(image, other) && address + bytes == *at
            }
            (
                Self::Shared { memory, offset, private },
                Self::Shared { memory: other, offset: at, private: other_private },
            ) => Arc::ptr_eq(memory, other) && offset + bytes == *at && private == other_private,
            _ => false,
        }
    }
}

/// An area; its start is its key in [`super::areas::Areas`].
#[derive(Clone)]
pub(super) struct Area {
    /// Address behind its last byte.
    pub(super) end: u64,
    /// What the program may do with it.
    pub(super) access: Access,
    /// Whether mprotect may make it writable: not if it shows a file shared.
    pub(super) may_write: bool,
    /// What it shows before it is written.
    pub(super) content: Content,
}

impl Area {
    /// Whether `next`, which starts where this one (from `start`) ends, could be one area with it.
    pub(super) fn merges_with(&self, start: u64, next: &Self) -> bool {
        self.access == next.access
            && self.may_write == next.may_write
            && self.content.continues(self.end - start, &next.content)
    }

    /// Whether the program may use it like that. Anything it may do implies reading, as on the processor.
    pub(super) fn allows(&self, access: Access) -> bool {
        !self.access.is_empty() && (self.access | Access::READ).contains(access)
    }
}
