//! What QEMU says of the machine: PVH's `hvm_start_info`, version 1.

use core::mem::size_of;
use core::ptr;

use crate::error::Error;
use crate::memory::Range;

/// First word of the structure.
const MAGIC: u32 = 0x336e_c578;

/// Most areas of memory that are looked at.
pub(crate) const AREAS_MAX: usize = 64;

/// Kind of an area that is memory to use.
pub(crate) const KIND_USABLE: u32 = 1;

/// The structure.
#[repr(C)]
struct RawStartInfo {
    magic: u32,
    version: u32,
    _flags: u32,
    modules: u32,
    modules_at: u64,
    _command_line_at: u64,
    root_pointer: u64,
    areas_at: u64,
    areas: u32,
    _reserved: u32,
}

/// An entry of the list of modules.
#[repr(C)]
struct RawModule {
    address: u64,
    bytes: u64,
    _command_line_at: u64,
    _reserved: u64,
}

/// An entry of the memory map.
#[repr(C)]
struct RawArea {
    address: u64,
    bytes: u64,
    kind: u32,
    _reserved: u32,
}

/// An area of the physical address space.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    /// Where it is.
    pub(crate) range: Range,
    /// [`KIND_USABLE`] or one of the kinds that firmware keeps or reserves.
    pub(crate) kind: u32,
}

/// What the machine has.
pub(crate) struct StartInfo {
    areas: [Area; AREAS_MAX],
    area_count: usize,
    /// What `-initrd` named.
    pub(crate) ramdisk: Option<Range>,
    /// Physical address of the firmware's root pointer, if there is firmware.
    pub(crate) root_pointer: Option<u64>,
}

impl StartInfo {
    /// Reads it all.
    pub(crate) fn read(address: u32) -> Result<Self, Error> {
        // SAFETY: PVH says that the structure is there; whether it is, its first word tells.
        let raw: RawStartInfo = unsafe { read_at(address.into(), 0) };
        if raw.magic != MAGIC {
            return Err(Error::NoStartInfo);
        }
        if raw.version < 1 || raw.areas == 0 {
            return Err(Error::NoMemoryMap);
        }
        let area_count = raw.areas as usize;
        if area_count > AREAS_MAX {
            return Err(Error::MemoryMapTooLong);
        }
        let mut areas = [Area { range: Range::EMPTY, kind: 0 }; AREAS_MAX];
        for (index, area) in areas.iter_mut().enumerate().take(area_count) {
            // SAFETY: the structure says that the list has this entry.
            let raw: RawArea = unsafe { read_at(raw.areas_at, index) };
            *area = Area { range: Range::new(raw.address, raw.bytes), kind: raw.kind };
        }
        let ramdisk = (raw.modules > 0).then(|| {
            // SAFETY: the structure says that there is a module.
            let module: RawModule = unsafe { read_at(raw.modules_at, 0) };
            Range::new(module.address, module.bytes)
        });
        let root_pointer = (raw.root_pointer != 0).then_some(raw.root_pointer);
        Ok(Self { areas, area_count, ramdisk, root_pointer })
    }

    /// The memory map.
    pub(crate) fn areas(&self) -> &[Area] {
        &self.areas[..self.area_count]
    }
}

/// Reads an element of a list in physical memory.
///
/// # Safety
/// There is such a list, of plain data.
unsafe fn read_at<T>(list: u64, index: usize) -> T {
    // SAFETY: by the caller; physical memory is mapped to itself.
    unsafe { ptr::read_unaligned((list as usize + index * size_of::<T>()) as *const T) }
}
