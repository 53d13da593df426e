//! The addresses of the heap: which of their pages have frames.
//!
//! The region grows at its end. Pages in which no block lies are **given away**: their frames go back to the pool, and
//! their addresses wait. Another frame may come there only when every core has forgotten the one that was there
//! ([`forget`]): until then the region grows at its end instead. Nobody has to wait for a core for that: what a core
//! still remembers of addresses where no block lies, it does not use.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::registers::control::Cr3;
use x86_64::structures::paging::mapper::Mapper;
use x86_64::structures::paging::{FrameAllocator, Page, PageTableFlags, PhysFrame, Size4KiB};
use x86_64::{PhysAddr, VirtAddr};

use super::super::{cpu, memory};
use crate::CORES_MAX;
use crate::addr::PAGE_BYTES;
use crate::blocks::Blocks;
use crate::frames::{Frame, FrameKind, FramePool};

/// The heap grows by at least this many bytes at once.
pub(super) const GROWTH_BYTES: usize = 64 * 1024;

/// The region's addresses may be so many times as many as the heap may have bytes: given away pages leave gaps.
const EXTENT_SHARE: usize = 2;

/// How often pages were given away.
static GIVEN_AWAY: AtomicU64 = AtomicU64::new(0);

/// What [`GIVEN_AWAY`] was when a core forgot what it remembered of the kernel's addresses.
static FORGOTTEN: [AtomicU64; CORES_MAX] = [const { AtomicU64::new(0) }; CORES_MAX];

/// Has this core forget what its processor remembers of the kernel's addresses.
pub(super) fn forget() {
    let given_away = GIVEN_AWAY.load(Ordering::Acquire);
    let (root, flags) = Cr3::read();
    // SAFETY: the table that is loaded anyway.
    unsafe { Cr3::write(root, flags) };
    FORGOTTEN[cpu::index()].store(given_away, Ordering::Release);
}

/// Whether no core remembers a page that was given away.
fn all_have_forgotten() -> bool {
    let given_away = GIVEN_AWAY.load(Ordering::Relaxed);
    FORGOTTEN.iter().take(cpu::count()).all(|seen| seen.load(Ordering::Acquire) >= given_away)
}

/// See this module.
pub(super) struct Region {
    /// First address.
    pub(super) start: u64,
    /// Bytes from the first address to the end.
    extent: usize,
    /// Pages that were given away, a bit each.
    away: &'static mut [u8],
    /// Bytes of these.
    away_bytes: usize,
    /// Frames taken for pages, for stacks, and for the page tables of both.
    pub(super) taken: usize,
    /// Most bytes that may have frames.
    limit: usize,
}

impl Region {
    /// None.
    pub(super) const fn nowhere() -> Self {
        Self { start: 0, extent: 0, away: &mut [], away_bytes: 0, taken: 0, limit: 0 }
    }

    /// An empty one from `start` on, of which up to `limit` bytes may have frames.
    ///
    /// # Panics
    /// If there is no memory for its books.
    pub(super) fn begin(&mut self, frames: &'static FramePool, start: u64, limit: usize) {
        let books = (limit * EXTENT_SHARE).div_ceil(PAGE_BYTES * 8).div_ceil(PAGE_BYTES);
        let block = frames.alloc_block(FrameKind::Kernel, books.next_power_of_two().trailing_zeros() as u8);
        let away = block.and_then(|block| block.into_memory().ok()).expect("memory for the books of the heap");
        *self = Self { start, extent: 0, taken: away.len() / PAGE_BYTES, away, away_bytes: 0, limit };
    }

    /// Bytes that have frames.
    pub(super) fn held(&self) -> usize {
        self.extent - self.away_bytes
    }

    /// Makes the heap larger by at least `bytes`, which lie one behind the other. Returns whether that was possible; if
    /// not, it may have grown by less.
    #[cold]
    pub(super) fn grow(&mut self, blocks: &mut Blocks, bytes: usize) -> bool {
        let Some(bytes) = bytes.max(GROWTH_BYTES).checked_next_multiple_of(PAGE_BYTES) else { return false };
        if self.held().checked_add(bytes).is_none_or(|held| held > self.limit) {
            return false;
        }
        self.fill_gap(blocks, bytes / PAGE_BYTES) || self.extend(blocks, bytes)
    }

    /// Adds pages at the end.
    fn extend(&mut self, blocks: &mut Blocks, bytes: usize) -> bool {
        let before = self.extent;
        let wanted = before + bytes;
        if wanted > self.away.len() * 8 * PAGE_BYTES {
            return false;
        }
        while self.extent < wanted && self.map(self.start + self.extent as u64) {
            self.extent += PAGE_BYTES;
        }
        let grown = self.extent - before;
        if grown > 0 {
            // SAFETY: the pages between `before` and the end were just mapped behind the others, are zeroed, and the
            // heap's until it gives them away.
            unsafe { blocks.extend((self.start + before as u64) as *mut u8, grown) };
        }
        self.extent == wanted
    }

    /// Gives frames to so many pages one behind the other that were given away.
    fn fill_gap(&mut self, blocks: &mut Blocks, pages: usize) -> bool {
        if self.away_bytes < pages * PAGE_BYTES || !all_have_forgotten() {
            return false;
        }
        let Some(first) = self.find_gap(pages) else { return false };
        let address = self.start + (first * PAGE_BYTES) as u64;
        let mut mapped = 0;
        while mapped < pages && self.map(address + (mapped * PAGE_BYTES) as u64) {
            self.set_away(first + mapped, false);
            mapped += 1;
        }
        if let Some(first) = NonNull::new(address as *mut u8)
            && mapped > 0
        {
            // SAFETY: these pages were taken out when they were given away, and have frames of zeros now. No core
            // remembers others.
            unsafe { blocks.put_pages(first, mapped) };
        }
        mapped == pages
    }

    /// The first of so many pages one behind the other that were given away.
    fn find_gap(&self, pages: usize) -> Option<usize> {
        let mut run = 0;
        for page in 0..self.extent / PAGE_BYTES {
            run = if self.is_away(page) { run + 1 } else { 0 };
            if run == pages {
                return Some(page + 1 - pages);
            }
        }
        None
    }

    fn is_away(&self, page: usize) -> bool {
        self.away.get(page / 8).is_some_and(|byte| byte >> (page % 8) & 1 != 0)
    }

    fn set_away(&mut self, page: usize, away: bool) {
        if let Some(byte) = self.away.get_mut(page / 8) {
            *byte = *byte & !(1 << (page % 8)) | u8::from(away) << (page % 8);
        }
        if away {
            self.away_bytes += PAGE_BYTES;
        } else {
            self.away_bytes -= PAGE_BYTES;
        }
    }

    /// Gives up to so many pages away in which no block lies. Returns how many.
    pub(super) fn give_away(&mut self, blocks: &mut Blocks, pages: usize) -> usize {
        let mut given = 0;
        while given < pages
            && let Some(page) = blocks.take_page()
        {
            // Before the first frame is gone: a core that forgets from now on has forgotten these.
            self.unmap(page.addr().get() as u64);
            self.set_away((page.addr().get() - self.start as usize) / PAGE_BYTES, true);
            given += 1;
        }
        if given > 0 {
            GIVEN_AWAY.fetch_add(1, Ordering::Release);
        }
        given
    }

    /// Maps a page of zeros. Returns whether there was memory for it.
    pub(super) fn map(&mut self, address: u64) -> bool {
        let mut tables = Tables { frames: memory::frames(), taken: &mut self.taken };
        let Some(frame) = tables.allocate_frame() else { return false };
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(address));
        let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
        // SAFETY: the heap's lock is held, and nobody else changes the kernel's half; the page is not mapped, and the
        // frame is nobody else's. Whatever table is in use shares the kernel's top-level entries.
        match unsafe { memory::kernel_table().map_to(page, frame, flags, &mut tables) } {
            Ok(flush) => {
                flush.ignore();
                true
            }
            Err(_) => {
                tables.give_back(frame);
                false
            }
        }
    }

    /// Unmaps a page and frees its frame. Other cores may still remember it.
    fn unmap(&mut self, address: u64) {
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(address));
        // SAFETY: the heap's lock is held, and nobody else changes the kernel's half; no block lies in the page.
        let unmapped = unsafe { memory::kernel_table() }.unmap(page);
        if let Ok((frame, flush)) = unmapped {
            flush.flush();
            Tables { frames: memory::frames(), taken: &mut self.taken }.give_back(frame);
        }
    }
}

/// Frames that are the heap's.
struct Tables<'a> {
    frames: &'static FramePool,
    /// How many there are.
    taken: &'a mut usize,
}

impl Tables<'_> {
    /// Frees a frame that no entry has any more.
    fn give_back(&mut self, frame: PhysFrame) {
        *self.taken -= 1;
        // SAFETY: every frame of the heap's came from `allocate_frame`, and the entry that had it is gone.
        drop(unsafe { Frame::from_entry(self.frames, frame.start_address().as_u64()) });
    }
}

// SAFETY: the pool hands out each frame once, and nobody has a handle on these.
unsafe impl FrameAllocator<Size4KiB> for Tables<'_> {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let frame = self.frames.alloc(FrameKind::Kernel)?;
        *self.taken += 1;
        Some(PhysFrame::containing_address(PhysAddr::new_truncate(frame.into_entry())))
    }
}
