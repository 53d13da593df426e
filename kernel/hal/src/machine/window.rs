//! Registers of devices and tables of the firmware: what has physical addresses and is no memory of the kernel's.
//!
//! The direct map has memory and nothing else. Registers may be anywhere up to the processor's last physical address
//! (firmware puts those with addresses of 64 bits above all memory when that reaches beyond 4 GiB), they must be
//! neither cached nor read ahead of time, and a large page over both would leave it undefined which is what (SDM volume
//! 3, 11.11.9). So they are mapped page by page where a driver asks for them, at a place of their own in the kernel's
//! half, while the machine is set up. Nothing is unmapped again.

use spin::Mutex;
use x86_64::structures::paging::mapper::Mapper;
use x86_64::structures::paging::{FrameAllocator, Page, PageSize, PageTableFlags, PhysFrame, Size2MiB, Size4KiB};
use x86_64::{PhysAddr, VirtAddr};

use super::{features, memory};
use crate::addr::PAGE_BYTES;
use crate::frames::{FrameKind, FramePool};

/// Most bytes of registers and tables that are mapped. A network card has some 20 KiB.
const WINDOW_BYTES_MAX: u64 = 64 << 20;

/// Most pieces that are mapped: two for each of the firmware's tables, and one for each set of registers.
const PIECES_MAX: usize = 128;

/// What is to be seen through the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Registers of a device: each access goes there, in order.
    Registers,
    /// Tables in memory, which are only read.
    Tables,
}

impl Kind {
    /// How pages of this kind are mapped. Both cache flags together choose "uncacheable" (`control`'s PAT).
    fn flags(self) -> PageTableFlags {
        let readable = PageTableFlags::PRESENT | PageTableFlags::NO_EXECUTE;
        match self {
            Self::Registers => {
                readable | PageTableFlags::WRITABLE | PageTableFlags::NO_CACHE | PageTableFlags::WRITE_THROUGH
            }
            Self::Tables => readable,
        }
    }
}

/// A run of pages that is mapped.
#[derive(Clone, Copy)]
struct Piece {
    kind: Kind,
    /// First physical address.
    physical: u64,
    bytes: u64,
    /// Where it appears.
    address: u64,
}

struct Window {
    /// Its first address; 0 before [`start`].
    start: u64,
    used: u64,
    pieces: [Option<Piece>; PIECES_MAX],
}

static WINDOW: Mutex<Window> = Mutex::new(Window { start: 0, used: 0, pieces: [None; PIECES_MAX] });

/// Finds a free place for it in the kernel's half. Every program's page table has the kernel's top-level entries as
/// they are when it is made, so this must come before the first.
///
/// # Panics
/// If there is no room.
pub(super) fn start() {
    // SAFETY: nobody else runs yet.
    let mut table = unsafe { memory::kernel_table() };
    let top = table.level_4_table_mut();
    let free = (256..512usize).rev().find(|index| top[*index].is_unused()).expect("room in the kernel's half");
    WINDOW.lock().start = (free as u64) << 39 | 0xffff << 48;
}

/// Where bytes of a device or of the firmware appear; they are mapped if they are not yet, which is done only while the
/// machine is set up. `None` if the processor has no such addresses, or a limit is reached.
pub(super) fn at(physical: u64, bytes: usize, kind: Kind) -> Option<*mut u8> {
    let page = PAGE_BYTES as u64;
    let end = physical.checked_add(bytes as u64).filter(|end| *end <= features::physical_end())?;
    let window = &mut *WINDOW.lock();
    let holds =
        |piece: &&Piece| piece.kind == kind && piece.physical <= physical && end <= piece.physical + piece.bytes;
    if let Some(piece) = window.pieces.iter().flatten().find(holds) {
        return Some((piece.address + (physical - piece.physical)) as *mut u8);
    }
    let start = physical / page * page;
    let length = end.next_multiple_of(page) - start;
    let free = window.pieces.iter_mut().find(|piece| piece.is_none())?;
    if window.start == 0 || window.used + length > WINDOW_BYTES_MAX {
        return None;
    }
    let address = window.start + window.used;
    window.used += length;
    for offset in (0..length).step_by(PAGE_BYTES) {
        map(address + offset, start + offset, kind)?;
    }
    *free = Some(Piece { kind, physical: start, bytes: length, address });
    Some((address + (physical - start)) as *mut u8)
}

/// How far behind the window's start memory is mapped that is not the kernel's, bytes: far behind all pieces, in the
/// same top-level entry.
const MEMORY_OFFSET: u64 = 1 << 38;

/// Most bytes of such memory.
const MEMORY_BYTES_MAX: u64 = 1 << 37;

const _: () = assert!(WINDOW_BYTES_MAX <= MEMORY_OFFSET && MEMORY_OFFSET + MEMORY_BYTES_MAX <= 1 << 39);

/// Where memory of a device appears that is used as memory is, in pages of 2 MiB. To be called once, while the machine
/// is set up. `None`: it does not begin and end with such pages, the processor has no such addresses, or there is no
/// memory for page tables.
pub(super) fn memory_at(physical: u64, bytes: u64) -> Option<*mut u8> {
    let end = physical.checked_add(bytes).filter(|end| *end <= features::physical_end())?;
    let large = Size2MiB::SIZE;
    let start = WINDOW.lock().start;
    let fits = physical.is_multiple_of(large) && end.is_multiple_of(large) && bytes <= MEMORY_BYTES_MAX;
    if start == 0 || !fits {
        return None;
    }
    let address = start + MEMORY_OFFSET;
    let flags = PageTableFlags::PRESENT | PageTableFlags::NO_EXECUTE | PageTableFlags::WRITABLE;
    for offset in (0..bytes).step_by(large as usize) {
        let page = Page::<Size2MiB>::containing_address(VirtAddr::new(address + offset));
        let frame = PhysFrame::containing_address(PhysAddr::new(physical + offset));
        // SAFETY: as in `map`.
        let mapped = unsafe { memory::kernel_table().map_to(page, frame, flags, &mut Tables(memory::frames())) };
        mapped.ok()?.ignore();
    }
    Some(address as *mut u8)
}

/// Maps a page.
fn map(address: u64, physical: u64, kind: Kind) -> Option<()> {
    let page = Page::<Size4KiB>::containing_address(VirtAddr::new(address));
    let frame = PhysFrame::containing_address(PhysAddr::new(physical));
    // SAFETY: the machine is being set up by one core, so nobody else changes the kernel's half; the page was not
    // mapped before. What is there is no memory that Rust knows of.
    let mapped = unsafe { memory::kernel_table().map_to(page, frame, kind.flags(), &mut Tables(memory::frames())) };
    mapped.ok().map(|flush| flush.ignore())
}

/// Frames for page tables, which stay.
struct Tables(&'static FramePool);

// SAFETY: the pool hands out each frame once, zeroed, and these are never given back.
unsafe impl FrameAllocator<Size4KiB> for Tables {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let frame = self.0.alloc(FrameKind::Kernel)?;
        let address = frame.address();
        core::mem::forget(frame);
        Some(PhysFrame::containing_address(PhysAddr::new_truncate(address)))
    }
}
