//! The last steps: what the configuration wants mapped besides the kernel, the `BootInfo`, and the jump.

use core::arch::asm;
use core::arch::x86_64::__cpuid;

use bootloader_api::info::{BootInfo, MemoryRegion, MemoryRegionKind, MemoryRegions, Optional};

use crate::frames::{FRAME_BYTES, Frames, bytes_at, loader};
use crate::image::Kernel;
use crate::layout::Layout;
use crate::start_info::{MEMORY_ENTRIES_MAX, Machine, Memory};
use crate::tables::{AddressSpace, Flags, GIBIBYTE, LARGE_BYTES};

/// Entries of the memory map handed over: every entry of the machine's may fall apart into four pieces around the
/// loader's allocations and the ramdisk.
const REGIONS_MAX: usize = MEMORY_ENTRIES_MAX + 4;

/// Physical memory that is mapped even if there is less: devices lie below 4 GiB.
const MAPPED_BYTES_MIN: u64 = 4 * GIBIBYTE;

/// CPUID leaf 8000_0001h, edx: pages of 1 GiB.
const CPUID_GIBIBYTE_PAGES: u32 = 1 << 26;

/// Everything the jump needs.
pub(crate) struct Ready {
    root: u64,
    stack_top: u64,
    entry: u64,
    boot_info: u64,
}

/// Maps the rest and writes the boot information.
///
/// # Errors
/// If there is too little memory, or the configuration contradicts itself.
pub(crate) fn prepare(
    machine: &Machine,
    kernel: &Kernel<'_>,
    layout: &mut Layout,
    mut space: AddressSpace,
    mut frames: Frames,
) -> Result<Ready, &'static str> {
    let mappings = &kernel.config.mappings;
    let data = Flags::WRITABLE | Flags::NO_EXECUTE;

    // Fixed addresses first, so that nothing dynamic lands on them.
    let physical_bytes = machine.memory_end().max(MAPPED_BYTES_MIN).next_multiple_of(GIBIBYTE);
    let physical_offset = mappings.physical_memory.map(|mapping| layout.place(mapping, physical_bytes)).transpose()?;
    if let Some(offset) = physical_offset {
        map_physical(offset, physical_bytes, &mut space, &mut frames)?;
    }
    let recursive = mappings.page_table_recursive.map(|mapping| layout.place(mapping, FRAME_BYTES)).transpose()?;
    let recursive_index = recursive.map(|address| space.map_recursively(address)).transpose()?;

    // The page below the stack stays unmapped: running over its end is a fault, not silent damage.
    let stack_bytes = kernel.config.kernel_stack_size.next_multiple_of(FRAME_BYTES);
    let guard = layout.place(mappings.kernel_stack, stack_bytes + FRAME_BYTES)?;
    let stack_bottom = guard + FRAME_BYTES;
    let stack_frames = frames.take_many(stack_bytes / FRAME_BYTES)?;
    space.map_range(stack_bottom, stack_frames, stack_bytes, data, &mut frames)?;

    let ramdisk = match &machine.ramdisk {
        Some(ramdisk) => {
            let first = ramdisk.start / FRAME_BYTES * FRAME_BYTES;
            let bytes = ramdisk.end - first;
            let address = layout.place(mappings.ramdisk_memory, bytes)?;
            space.map_range(address, first, bytes, data, &mut frames)?;
            Some(address + (ramdisk.start - first))
        }
        None => None,
    };

    let info_bytes = (size_of::<BootInfo>() + REGIONS_MAX * size_of::<MemoryRegion>()) as u64;
    let info_frames = frames.take_many(info_bytes.div_ceil(FRAME_BYTES))?;
    let info_address = layout.place(mappings.boot_info, info_bytes)?;
    space.map_range(info_address, info_frames, info_bytes, data, &mut frames)?;

    // The instructions that change the address space must be in the new one, too, and so must the descriptor table until
    // the kernel loads its own.
    let own = loader();
    space.map_range(own.start, own.start, own.end - own.start, Flags::empty(), &mut frames)?;

    // From here on nothing is taken any more: the memory map is final.
    let regions_physical = info_frames + size_of::<BootInfo>() as u64;
    let regions_address = info_address + size_of::<BootInfo>() as u64;
    let count = write_regions(machine, &frames, regions_physical)?;
    // SAFETY: the slice is only ever looked at by the kernel, in whose address space `count` regions were written there.
    let regions: &'static mut [MemoryRegion] = unsafe {
        core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(regions_address as usize), count)
    };
    let mut info = BootInfo::new(MemoryRegions::from(regions));
    info.physical_memory_offset = Optional::from(physical_offset);
    info.recursive_index = Optional::from(recursive_index);
    info.rsdp_addr = Optional::from(machine.rsdp);
    info.tls_template = Optional::from(kernel.tls_template());
    info.ramdisk_addr = Optional::from(ramdisk);
    info.ramdisk_len = machine.ramdisk.as_ref().map_or(0, |ramdisk| ramdisk.end - ramdisk.start);
    info.kernel_stack_bottom = stack_bottom;
    info.kernel_stack_len = stack_bytes;
    // SAFETY: frames taken for this, mapped one to one, aligned to a page.
    unsafe { bytes_at(info_frames).cast::<BootInfo>().write(info) };

    Ok(Ready {
        root: space.root(),
        stack_top: stack_bottom + stack_bytes,
        entry: kernel.entry(),
        boot_info: info_address,
    })
}

/// Maps all physical memory, with pages as large as the processor has.
fn map_physical(offset: u64, bytes: u64, space: &mut AddressSpace, frames: &mut Frames) -> Result<(), &'static str> {
    let huge = __cpuid(0x8000_0001).edx & CPUID_GIBIBYTE_PAGES != 0 && offset.is_multiple_of(GIBIBYTE);
    let (level, size) = if huge { (3, GIBIBYTE) } else { (2, LARGE_BYTES) };
    if !offset.is_multiple_of(size) {
        return Err("the kernel's configuration maps physical memory at an address that is not aligned to 2 MiB");
    }
    let flags = Flags::WRITABLE | Flags::NO_EXECUTE;
    (0..bytes / size).map(|page| page * size).try_for_each(|at| space.map(offset + at, at, flags, level, frames))
}

/// Writes the memory map: what the loader took and the ramdisk are its own, the rest is as the machine says.
fn write_regions(machine: &Machine, frames: &Frames, physical: u64) -> Result<usize, &'static str> {
    let ramdisk = machine.ramdisk.clone().unwrap_or(0..0);
    let ramdisk = ramdisk.start / FRAME_BYTES * FRAME_BYTES..ramdisk.end.next_multiple_of(FRAME_BYTES);
    let mut own = [frames.taken(), ramdisk];
    own.sort_unstable_by_key(|range| range.start);

    let mut count = 0;
    let mut add = |start: u64, end: u64, kind: MemoryRegionKind| -> Result<(), &'static str> {
        if start >= end {
            return Ok(());
        }
        if count == REGIONS_MAX {
            return Err("the machine's memory is in too many pieces");
        }
        let slot = bytes_at(physical).cast::<MemoryRegion>().wrapping_add(count);
        // SAFETY: the frames taken for the boot information have room for `REGIONS_MAX` regions behind it.
        unsafe { slot.write(MemoryRegion { start, end, kind }) };
        count += 1;
        Ok(())
    };
    for Memory { start, end, reserved } in machine.memory().iter().copied() {
        if let Some(kind) = reserved {
            add(start, end, MemoryRegionKind::UnknownBios(kind))?;
            continue;
        }
        let mut at = start;
        for range in own.iter().filter(|range| !range.is_empty() && range.start < end && range.end > start) {
            add(at, range.start, MemoryRegionKind::Usable)?;
            add(range.start.max(at), range.end.min(end), MemoryRegionKind::Bootloader)?;
            at = range.end;
        }
        add(at, end, MemoryRegionKind::Usable)?;
    }
    Ok(count)
}

impl Ready {
    /// Changes to the kernel's address space and stack and enters it.
    pub(crate) fn jump(self) -> ! {
        // SAFETY: the tables at `root` map this code one to one, the kernel with its stack, and the boot information;
        // `entry` is an `extern "C" fn(&'static mut BootInfo) -> !`, for which the stack is 8 below a multiple of 16.
        unsafe {
            asm!(
                "mov cr3, {root}",
                "mov rsp, {stack}",
                "push 0",
                "jmp {entry}",
                root = in(reg) self.root,
                stack = in(reg) self.stack_top,
                entry = in(reg) self.entry,
                in("rdi") self.boot_info,
                options(noreturn),
            )
        }
    }
}
