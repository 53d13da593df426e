//! Memory for what the loader builds: frames taken one after the other from the RAM behind the loader.
//!
//! They stay one range, so that the memory map handed over says in one entry what the kernel must not reuse. The loader
//! itself is not in it: the kernel may have its memory.

use core::ops::Range;

use crate::start_info::Machine;

/// Size of a frame and of a page, bytes.
pub(crate) const FRAME_BYTES: u64 = 4096;

unsafe extern "C" {
    safe static loader_start: u8;
    safe static loader_end: u8;
}

/// Physical addresses the loader itself occupies.
pub(crate) fn loader() -> Range<u64> {
    (&raw const loader_start).addr() as u64..(&raw const loader_end).addr() as u64
}

/// Frames not taken yet, and those taken.
pub(crate) struct Frames {
    start: u64,
    next: u64,
    end: u64,
}

impl Frames {
    /// Memory from the end of the loader to the end of that piece of RAM, or to the ramdisk if it lies in it.
    ///
    /// # Errors
    /// If the loader does not lie in RAM.
    pub(crate) fn above_loader(machine: &Machine) -> Result<Self, &'static str> {
        let start = loader().end.next_multiple_of(FRAME_BYTES);
        let end = machine
            .memory()
            .iter()
            .find(|memory| memory.reserved.is_none() && (memory.start..memory.end).contains(&start))
            .map(|memory| memory.end.min(u64::from(u32::MAX)))
            .ok_or("no memory behind the loader")?;
        let end = match &machine.ramdisk {
            Some(ramdisk) if ramdisk.end > start => end.min(ramdisk.start),
            _ => end,
        };
        Ok(Self { start, next: start, end: end / FRAME_BYTES * FRAME_BYTES })
    }

    /// Takes the next frame, all zeros.
    ///
    /// # Errors
    /// If there is no more.
    pub(crate) fn take(&mut self) -> Result<u64, &'static str> {
        self.take_many(1)
    }

    /// Takes `count` frames that lie one behind the other, all zeros.
    ///
    /// # Errors
    /// If there are not so many.
    pub(crate) fn take_many(&mut self, count: u64) -> Result<u64, &'static str> {
        let address = self.next;
        let bytes = count.checked_mul(FRAME_BYTES).ok_or("too little memory to load the kernel")?;
        let next = address.checked_add(bytes).filter(|next| *next <= self.end);
        self.next = next.ok_or("too little memory to load the kernel")?;
        // SAFETY: RAM behind the loader, below 4 GiB and so mapped one to one, and taken by nobody else.
        unsafe { core::ptr::write_bytes(bytes_at(address), 0, bytes as usize) };
        Ok(address)
    }

    /// Physical addresses of everything taken.
    pub(crate) fn taken(&self) -> Range<u64> {
        self.start..self.next
    }
}

/// Where physical memory appears in the loader's address space.
pub(crate) fn bytes_at(physical: u64) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(physical as usize)
}
