//! The loader's work, step by step.

use core::arch::x86_64::__cpuid;

use bootloader_api::BootInfo;
use x86_64::registers::control::{Efer, EferFlags};

use crate::boot_info::{self, Place};
use crate::error::Error;
use crate::handover::Ready;
use crate::kernel::Kernel;
use crate::layout::{Layout, slot};
use crate::memory::{FRAME_BYTES, Memory, Range};
use crate::start_info::{KIND_USABLE, StartInfo};
use crate::tables::{DATA, Tables};

/// Loads the kernel. Nothing is left to do afterwards but to jump.
pub(crate) fn load(start_info: u32) -> Result<Ready, Error> {
    let info = StartInfo::read(start_info)?;
    enable_no_execute()?;
    let mut memory = Memory::new(&info)?;
    let kernel = Kernel::carried()?;
    let config = kernel.config()?;
    let mappings = &config.mappings;
    if mappings.aslr {
        return Err(Error::Unsupported("random addresses"));
    }

    // Memory and nothing else: where devices are the kernel finds out by itself, and maps it as devices want it.
    let usable = || info.areas().iter().filter(|area| area.kind == KIND_USABLE).map(|area| area.range);
    let mapped = usable().map(|range| range.end).max().unwrap_or(0);
    let stack_bytes = config.kernel_stack_size.div_ceil(FRAME_BYTES) * FRAME_BYTES;
    let ramdisk = info.ramdisk.filter(|ramdisk| ramdisk.bytes() > 0);
    let ramdisk_bytes = ramdisk.map_or(0, |ramdisk| ramdisk.frames_touched().bytes());

    let mut layout = Layout::new(mappings);
    kernel.occupy(&mut layout);
    layout.occupy_fixed(mappings.kernel_stack, FRAME_BYTES + stack_bytes);
    layout.occupy_fixed(mappings.boot_info, boot_info::FRAMES * FRAME_BYTES);
    layout.occupy_fixed(mappings.ramdisk_memory, ramdisk_bytes);
    if let Some(mapping) = mappings.physical_memory {
        layout.occupy_fixed(mapping, mapped);
    }
    if let Some(mapping) = mappings.page_table_recursive {
        layout.occupy_fixed(mapping, 1);
    }

    let mut tables = Tables::new(&mut memory)?;
    kernel.map(&mut tables, &mut memory)?;
    let physical_memory_offset = match mappings.physical_memory {
        None => None,
        Some(mapping) => {
            let address = layout.place(mapping, mapped)?;
            for range in usable() {
                tables.map_memory(&mut memory, address, range.frames_within())?;
            }
            Some(address)
        }
    };
    let recursive_index = match mappings.page_table_recursive {
        None => None,
        Some(mapping) => {
            let index = slot(layout.place(mapping, 1)?) as u16;
            tables.map_recursively(index)?;
            Some(index)
        }
    };
    // The page below the stack stays unmapped: a stack that grows into it faults instead of writing over something.
    let stack_start = layout.place(mappings.kernel_stack, FRAME_BYTES + stack_bytes)? + FRAME_BYTES;
    let stack = memory.take(stack_bytes / FRAME_BYTES)?;
    tables.map_range(&mut memory, stack_start, stack, DATA)?;
    let ramdisk_address = match ramdisk {
        None => None,
        Some(ramdisk) => {
            let address = layout.place(mappings.ramdisk_memory, ramdisk_bytes)?;
            tables.map_range(&mut memory, address, ramdisk.frames_touched(), DATA)?;
            Some(address + ramdisk.start % FRAME_BYTES)
        }
    };
    let place = Place {
        frames: memory.take(boot_info::FRAMES)?,
        address: layout.place(mappings.boot_info, boot_info::FRAMES * FRAME_BYTES)?,
    };
    tables.map_range(&mut memory, place.address, place.frames, DATA)?;
    let ready = Ready::new(&mut tables, &mut memory, kernel.entry(), stack_start + stack_bytes, place.address)?;

    let mut boot_info = BootInfo::new(place.write_regions(&info, &memory, kernel.place())?.into());
    boot_info.physical_memory_offset = physical_memory_offset.into();
    boot_info.recursive_index = recursive_index.into();
    boot_info.rsdp_addr = info.root_pointer.into();
    boot_info.tls_template = kernel.tls_template().into();
    boot_info.ramdisk_addr = ramdisk_address.into();
    boot_info.ramdisk_len = ramdisk.map_or(0, Range::bytes);
    boot_info.kernel_addr = kernel.place().start;
    boot_info.kernel_len = kernel.place().bytes();
    boot_info.kernel_stack_bottom = stack_start;
    boot_info.kernel_stack_len = stack_bytes;
    place.write(boot_info);
    Ok(ready)
}

/// Lets pages forbid execution.
fn enable_no_execute() -> Result<(), Error> {
    if __cpuid(0x8000_0001).edx & 1 << 20 == 0 {
        return Err(Error::Processor("no-execute pages"));
    }
    // SAFETY: the processor has it, and the loader's own pages do not use it.
    unsafe { Efer::update(|flags| flags.insert(EferFlags::NO_EXECUTE_ENABLE)) };
    Ok(())
}
