//! An address space as data: what is mapped where. Its pages stay on the node while the rest is data ([`Pages`]).

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::frames::FramePool;
use coppice_hal::paging::{Access, PageTable};
use serde::{Deserialize, Serialize};

use super::area::{Area, Content, FileSource};
use super::areas::Areas;
use super::aside::Aside;
use super::changed::Changes as FileChanges;
use super::image::Image;
use super::limit::MemoryLimits;
use super::retention::Retention;
use super::shared::SharedMemory;
use super::snapshot::Snapshot;
use super::space::{AddressSpace, MemoryStats, Start};
use crate::errno::Errno;
use crate::quota::Quota;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub struct SpaceRecord {
    areas: Vec<AreaRecord>,
    areas_max: u32,
    break_start: u64,
    break_end: u64,
    stats: MemoryStats,
    start: Start,
    limits: MemoryLimits,
}

/// What is mapped in one place.
#[derive(Debug, Serialize, Deserialize)]
struct AreaRecord {
    start: u64,
    end: u64,
    access: u8,
    may_write: bool,
    content: ContentRecord,
}

/// What an area shows.
#[derive(Debug, Serialize, Deserialize)]
enum ContentRecord {
    Zero,
    /// A file by its number.
    File {
        file: u32,
        offset: u64,
    },
    /// A file by its number, by memory by its place among what stays.
    Mapped {
        file: u32,
        memory: u32,
        offset: u64,
    },
    Program {
        address: u64,
    },
    /// Memory by its place among what stays.
    Shared {
        memory: u32,
        offset: u64,
        private: bool,
    },
}

/// What stays on the node of an address space.
pub struct Pages {
    pub(super) frames: &'static FramePool,
    pub(super) table: PageTable,
    pub(super) image: Option<Arc<Image>>,
    pub(super) aside: Aside,
    pub(super) retention: Arc<Retention>,
    pub(super) file_changes: FileChanges,
    pub(super) memories: Vec<Arc<SharedMemory>>,
    /// Where those are shown, in order.
    pub(super) shown: Vec<Shown>,
    /// They as they were, as long as they are being written down.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// How often that was to be taken down, on this node.
    pub(super) snapshots: u64,
    /// Pages of those memories that are not in the table any more.
    pub(super) forgotten: u64,
}

/// Where memory is shown that others may show too.
pub(super) struct Shown {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Its place among the memories.
    pub(super) memory: u32,
    /// What of it is at `start`, bytes.
    pub(super) offset: u64,
    pub(super) private: bool,
}

impl AddressSpace {
    /// Writes it down. `number` gives numbers to files. What is being changed is changed first.
    pub fn into_record(mut self, mut number: impl FnMut(Arc<dyn FileSource>) -> u32) -> (SpaceRecord, Pages) {
        while !self.step() {}
        let mut memories: Vec<Arc<SharedMemory>> = Vec::new();
        let mut place_of = |memory: &Arc<SharedMemory>| {
            let known = memories.iter().position(|known| Arc::ptr_eq(known, memory));
            known.unwrap_or_else(|| {
                memories.push(Arc::clone(memory));
                memories.len() - 1
            }) as u32
        };
        let mut area = |(start, area): (u64, &Area)| AreaRecord {
            start,
            end: area.end,
            access: area.access.bits(),
            may_write: area.may_write,
            content: match &area.content {
                Content::Zero => ContentRecord::Zero,
                Content::File { file, offset } => {
                    ContentRecord::File { file: number(Arc::clone(file)), offset: *offset }
                }
                Content::Mapped { memory, file, offset } => {
                    let (file, memory) = (number(Arc::clone(file)), place_of(memory));
                    ContentRecord::Mapped { file, memory, offset: *offset }
                }
                Content::Program { address, .. } => ContentRecord::Program { address: *address },
                Content::Shared { memory, offset, private } => {
                    ContentRecord::Shared { memory: place_of(memory), offset: *offset, private: *private }
                }
            },
        };
        let areas: Vec<AreaRecord> = self.areas.overlapping(0, u64::MAX).map(&mut area).collect();
        let shown = areas.iter().filter_map(AreaRecord::shown).collect();
        let record = SpaceRecord {
            areas,
            areas_max: self.areas.max() as u32,
            break_start: self.break_start,
            break_end: self.break_end,
            stats: self.stats,
            start: self.start,
            limits: self.limits,
        };
        let Self { frames, table, image, aside, retention, file_changes, snapshot, snapshots, .. } = self;
        let forgotten = 0;
        let pages = Pages {
            frames,
            table,
            image,
            aside,
            retention,
            file_changes,
            memories,
            shown,
            snapshot,
            snapshots,
            forgotten,
        };
        (record, pages)
    }
}

impl AreaRecord {
    fn shown(&self) -> Option<Shown> {
        match self.content {
            ContentRecord::Shared { memory, offset, private } => {
                Some(Shown { start: self.start, end: self.end, memory, offset, private })
            }
            ContentRecord::Mapped { memory, offset, .. } => {
                Some(Shown { start: self.start, end: self.end, memory, offset, private: false })
            }
            _ => None,
        }
    }
}

impl SpaceRecord {
    /// Makes it again, with its pages and the files it shows by their numbers.
    ///
    /// # Errors
    /// `EINVAL`: there is no such address space. `ENOMEM`.
    pub fn make(
        self,
        pages: Pages,
        file: impl Fn(u32) -> Option<Arc<dyn FileSource>>,
        quota: &Arc<Quota>,
    ) -> Result<AddressSpace, Errno> {
        let Pages { frames, table, image, aside, retention, file_changes, memories, .. } = pages;
        let Pages { snapshot, snapshots, forgotten, .. } = pages;
        let mut areas = Areas::default();
        areas.limit(self.areas_max as usize, quota);
        for AreaRecord { start, end, access, may_write, content } in self.areas {
            let content = match content {
                ContentRecord::Zero => Content::Zero,
                ContentRecord::File { file: number, offset } => {
                    Content::File { file: file(number).ok_or(Errno::EINVAL)?, offset }
                }
                ContentRecord::Mapped { file: number, memory, offset } => {
                    let file = file(number).ok_or(Errno::EINVAL)?;
                    let memory = memories.get(memory as usize).cloned().ok_or(Errno::EINVAL)?;
                    file.is_shown_by(&memory);
                    Content::Mapped { memory, file, offset }
                }
                ContentRecord::Program { address } => {
                    Content::Program { image: image.clone().ok_or(Errno::EINVAL)?, address }
                }
                ContentRecord::Shared { memory, offset, private } => {
                    let memory = memories.get(memory as usize).cloned().ok_or(Errno::EINVAL)?;
                    Content::Shared { memory, offset, private }
                }
            };
            if start >= end || !areas.is_free(start, end) {
                return Err(Errno::EINVAL);
            }
            areas.check_room(start, end, 1)?;
            areas.insert(start, Area { end, access: Access::from_bits_truncate(access), may_write, content });
        }
        Ok(AddressSpace {
            areas,
            image,
            aside,
            break_start: self.break_start,
            break_end: self.break_end,
            stats: MemoryStats { pages: self.stats.pages.saturating_sub(forgotten), ..self.stats },
            start: self.start,
            limits: self.limits,
            file_changes,
            snapshot,
            snapshots,
            ..AddressSpace::over(frames, retention, table)
        })
    }
}
