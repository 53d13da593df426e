//! Physical memory as the kernel sees it, and the kernel's half of the address space.

use core::sync::atomic::{AtomicU64, Ordering};

use bootloader_api::BootInfo;
use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use spin::Once;
use x86_64::VirtAddr;
use x86_64::structures::paging::{OffsetPageTable, PageTable};

use crate::frames::{FramePool, PhysicalRange};
use crate::paging;

/// Memory below this is left alone: firmware may live there, and other cores can only be started from there.
pub(super) const LOW_MEMORY_BYTES: u64 = 1024 * 1024;

/// Virtual address at which physical address 0 appears.
static DIRECT_MAP: AtomicU64 = AtomicU64::new(0);

/// Physical address at which memory, and with it the direct map, ends.
static MAPPED_END: AtomicU64 = AtomicU64::new(0);

/// All memory.
static FRAMES: Once<FramePool> = Once::new();

/// Takes the memory over from the loader.
///
/// # Panics
/// If the loader did not do what the kernel's configuration asks for.
pub(super) fn start(boot_info: &BootInfo) -> &'static FramePool {
    let offset = boot_info.physical_memory_offset.into_option().expect("a loader that maps physical memory");
    let end = boot_info.memory_regions.iter().filter(is_memory).map(|region| region.end).max().unwrap_or(0);
    DIRECT_MAP.store(offset, Ordering::Relaxed);
    MAPPED_END.store(end, Ordering::Relaxed);
    forget_lower_half();
    let usable = boot_info
        .memory_regions
        .iter()
        .filter(|region| region.kind == MemoryRegionKind::Usable)
        .map(|region| PhysicalRange { start: region.start.max(LOW_MEMORY_BYTES), end: region.end });
    FRAMES.call_once(|| {
        // SAFETY: the loader says that nobody uses this memory, and maps all of it from the offset on. This runs once.
        let pool = unsafe { FramePool::from_memory(usable, offset as *mut u8) };
        pool.expect("memory to run in")
    })
}

/// Memory the machine has, the loader's and the kernel's own included.
pub(super) fn bytes(boot_info: &BootInfo) -> u64 {
    boot_info.memory_regions.iter().filter(is_memory).map(|region| region.end.saturating_sub(region.start)).sum()
}

/// Whether a region is memory, rather than something else that has physical addresses.
fn is_memory(region: &&MemoryRegion) -> bool {
    matches!(region.kind, MemoryRegionKind::Usable | MemoryRegionKind::Bootloader)
}

/// The pool of all memory.
///
/// # Panics
/// Before [`start`].
pub(super) fn frames() -> &'static FramePool {
    FRAMES.get().expect("memory was set up")
}

/// Where a piece of memory appears; `None` if it lies beyond all memory. What is no memory is seen through
/// [`super::window`].
pub(super) fn at(physical: u64, bytes: usize) -> Option<*mut u8> {
    let end = physical.checked_add(bytes as u64)?;
    (end <= MAPPED_END.load(Ordering::Relaxed)).then(|| (DIRECT_MAP.load(Ordering::Relaxed) + physical) as *mut u8)
}

/// Physical address of something in the direct map.
///
/// # Panics
/// If it is elsewhere.
pub(super) fn physical(address: *const u8) -> u64 {
    let physical = (address.addr() as u64).checked_sub(DIRECT_MAP.load(Ordering::Relaxed));
    physical.filter(|physical| *physical < MAPPED_END.load(Ordering::Relaxed)).expect("memory in the direct map")
}

/// The kernel's own table, for changing its half.
///
/// # Safety
/// Nobody else changes it meanwhile.
pub(super) unsafe fn kernel_table() -> OffsetPageTable<'static> {
    let offset = VirtAddr::new_truncate(DIRECT_MAP.load(Ordering::Relaxed));
    let root = offset + paging::kernel_root();
    // SAFETY: the table is in the direct map like all physical memory; the caller sees to it that it is ours alone.
    unsafe { OffsetPageTable::new(&mut *root.as_mut_ptr::<PageTable>(), offset) }
}

/// Unmaps what the loader left in the programs' half: the code it jumped here from.
fn forget_lower_half() {
    // SAFETY: nobody else runs yet.
    let mut table = unsafe { kernel_table() };
    for entry in table.level_4_table_mut().iter_mut().take(256) {
        entry.set_unused();
    }
    x86_64::instructions::tlb::flush_all();
}
