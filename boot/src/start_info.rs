//! What the machine says of itself, copied out of the PVH start info before any memory is used
//! (Xen, `xen/include/public/arch-x86/hvm/start_info.h`).

use core::ops::Range;

/// `hvm_start_info.magic`.
const MAGIC: u32 = 0x336e_c578;

/// Version that brought the memory map.
const VERSION_WITH_MEMORY_MAP: u32 = 1;

/// Entries of the memory map that are looked at; machines have a dozen. More: the rest is not used as memory.
pub(crate) const MEMORY_ENTRIES_MAX: usize = 64;

/// Memory type 1 of the memory map: usable RAM, as in E820.
const TYPE_RAM: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Module {
    address: u64,
    bytes: u64,
    command_line: u64,
    reserved: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryEntry {
    address: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

/// A range of physical addresses and what it is.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    /// First byte.
    pub(crate) start: u64,
    /// Behind the last byte.
    pub(crate) end: u64,
    /// `None`: usable RAM; otherwise the firmware's type.
    pub(crate) reserved: Option<u32>,
}

/// What the machine consists of.
pub(crate) struct Machine {
    /// The memory map, as the firmware ordered it.
    memory: [Memory; MEMORY_ENTRIES_MAX],
    entries: usize,
    /// Physical address of ACPI's root pointer.
    pub(crate) rsdp: Option<u64>,
    /// Physical addresses of the ramdisk: the node's personality.
    pub(crate) ramdisk: Option<Range<u64>>,
}

/// Reads a plain record from physical memory.
fn read<T: Copy>(address: u64, what: &'static str) -> Result<T, &'static str> {
    if address == 0 || address.checked_add(size_of::<T>() as u64).is_none_or(|end| end > u64::from(u32::MAX)) {
        return Err(what);
    }
    // SAFETY: inside the first 4 GiB, which are mapped one to one; the types read are plain integers for which any bytes
    // are valid; no Rust reference to that memory exists.
    Ok(unsafe { core::ptr::read_unaligned(core::ptr::with_exposed_provenance::<T>(address as usize)) })
}

impl Machine {
    /// Copies the start info at a physical address.
    ///
    /// # Errors
    /// If there is none, or it has no memory map.
    pub(crate) fn read(address: u64) -> Result<Self, &'static str> {
        let info: StartInfo = read(address, "no PVH start info; boot with QEMU's -kernel")?;
        if info.magic != MAGIC {
            return Err("PVH start info has the wrong magic number");
        }
        if info.version < VERSION_WITH_MEMORY_MAP || info.memory_map_entries == 0 {
            return Err("PVH start info has no memory map");
        }
        let nothing = Memory { start: 0, end: 0, reserved: Some(0) };
        let mut memory = [nothing; MEMORY_ENTRIES_MAX];
        let entries = (info.memory_map_entries as usize).min(MEMORY_ENTRIES_MAX);
        for (index, slot) in memory.iter_mut().take(entries).enumerate() {
            let at = info.memory_map + (index * size_of::<MemoryEntry>()) as u64;
            let entry: MemoryEntry = read(at, "the memory map is not where the PVH start info says")?;
            let reserved = (entry.kind != TYPE_RAM).then_some(entry.kind);
            *slot = Memory { start: entry.address, end: entry.address.saturating_add(entry.bytes), reserved };
        }
        let mut ramdisk = None;
        if info.modules > 0 {
            let module: Module = read(info.module_list, "the module list is not where the PVH start info says")?;
            ramdisk = (module.bytes > 0).then(|| module.address..module.address.saturating_add(module.bytes));
        }
        Ok(Self { memory, entries, rsdp: (info.rsdp != 0).then_some(info.rsdp), ramdisk })
    }

    /// The memory map.
    pub(crate) fn memory(&self) -> &[Memory] {
        &self.memory[..self.entries]
    }

    /// Behind the last byte of RAM.
    pub(crate) fn memory_end(&self) -> u64 {
        self.memory().iter().filter(|memory| memory.reserved.is_none()).map(|memory| memory.end).max().unwrap_or(0)
    }
}
