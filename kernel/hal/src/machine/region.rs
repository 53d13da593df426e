//! The node's region: a file of the host that is memory of the machine (virtio-pmem), and a disk of the machine
//! (virtio-blk) on the same file, which is its engine: the processor copies, or has the engine fetch pages and write
//! them while it does something else. What is written is there when the machine is gone.

use core::fmt;
use core::ptr::{self, NonNull};

use alloc::boxed::Box;
use alloc::vec::Vec;

use spin::Mutex;
use virtio_drivers::transport::DeviceType;

use self::engine::{Engine, EngineError};
use super::pci::{self, ConfigurationPorts};
use super::{virtio, window};
use crate::addr::PAGE_BYTES;
use crate::frames::Frame;

mod engine;

pub use self::engine::PAGES_MAX;

/// Who makes virtio devices, as PCI knows them.
const VENDOR: u16 = 0x1af4;

/// PCI's number of a virtio-pmem: the type 27 behind the first of them.
const DEVICE_PMEM: u16 = 0x1040 + 27;

/// The region is mapped in pages of so many bytes.
const LARGE_PAGE_BYTES: u64 = 2 << 20;

/// See this module.
pub struct Region {
    memory: NonNull<u8>,
    bytes: u64,
    engine: Option<Mutex<Engine>>,
}

// SAFETY: the memory is no memory of Rust's, and is read and written with no references into it; what it says is
// believed by nobody before it was held against a check.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Something the engine does. When it goes, what becomes of that is not told.
pub struct Ticket {
    region: &'static Region,
    slot: u8,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(engine) = &self.region.engine {
            engine.lock().forget(self.slot);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.slot)
    }
}

/// The engine takes no more at this moment, or there is none. Gives back what it was to write.
#[derive(Debug)]
pub struct Full(pub Vec<Frame>);

impl Region {
    /// Its length, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is an engine.
    #[must_use]
    pub fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Copies bytes out of it. False, and nothing is copied, if it has no such bytes.
    #[must_use]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let Some(from) = self.at(offset, out.len()) else { return false };
        // SAFETY: inside the region, which is mapped for good and is none of Rust's memory.
        unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        true
    }

    /// Copies a page there, by the processor. False, and nothing is copied, if there is no room.
    #[must_use]
    pub fn copy(&self, offset: u64, frame: &Frame) -> bool {
        let Some(to) = self.at(offset, PAGE_BYTES) else { return false };
        // SAFETY: inside the region, which is mapped for good and is none of Rust's memory. The frame lives as long as
        // its handle, and has a page.
        unsafe { ptr::copy_nonoverlapping(frame.bytes(), to, PAGE_BYTES) };
        true
    }

    /// Has the engine write these pages, at most [`PAGES_MAX`], one behind the other. Nobody writes to them before it
    /// is done.
    ///
    /// # Errors
    /// [`Full`].
    pub fn write(&'static self, offset: u64, frames: Vec<Frame>) -> Result<Ticket, Full> {
        if self.at(offset, frames.len() * PAGE_BYTES).is_none() {
            return Err(Full(frames));
        }
        let Some(engine) = &self.engine else { return Err(Full(frames)) };
        engine.lock().write(offset, frames).map(|slot| Ticket { region: self, slot }).map_err(Full)
    }

    /// Has all be on stable storage that was written before. `None`: as [`Full`].
    pub fn flush(&'static self) -> Option<Ticket> {
        let slot = self.engine.as_ref()?.lock().flush()?;
        Some(Ticket { region: self, slot })
    }

    /// Has the engine have zeros in so many bytes, whose room is the host's again; or in as many of them as it does at
    /// once, which it gives, too. `None`: as [`Full`].
    pub fn zero(&'static self, offset: u64, bytes: u64) -> Option<(Ticket, u64)> {
        self.at(offset, usize::try_from(bytes).ok()?)?;
        let (slot, zeroed) = self.engine.as_ref()?.lock().zero(offset, bytes)?;
        Some((Ticket { region: self, slot }, zeroed))
    }

    /// Whether that was done, well or not; `None`: not yet. To be asked after an interrupt.
    pub fn is_done(&self, ticket: &Ticket) -> Option<bool> {
        self.engine.as_ref()?.lock().is_done(ticket.slot)
    }

    /// Whether the engine would take something.
    pub fn has_room(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.lock().has_room())
    }

    /// Whether the engine has nothing to do, be it for nobody any more.
    pub fn is_idle(&self) -> bool {
        self.engine.as_ref().is_none_or(|engine| engine.lock().is_idle())
    }

    fn at(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes as u64)?;
        (end <= self.bytes).then(|| self.memory.as_ptr().wrapping_add(offset as usize))
    }
}

/// Finds the region and its engine.
pub(super) fn start() -> Option<&'static Region> {
    let (memory, bytes) = find_memory()?;
    let engine = match find_engine(bytes) {
        Ok(engine) => engine,
        Err(error) => {
            log::error!("the region's engine does not start: {error}");
            None
        }
    };
    Some(Box::leak(Box::new(Region { memory, bytes, engine: engine.map(Mutex::new) })))
}

/// Finds and maps the memory. It has a queue for flushes, which the engine does here, so it needs no driver.
fn find_memory() -> Option<(NonNull<u8>, u64)> {
    let (mut root, function) = pci::find_by(|info| (info.vendor_id, info.device_id) == (VENDOR, DEVICE_PMEM))?;
    pci::map_registers(&mut root, function)?;
    let [start, bytes] = virtio::device_words(&mut root, &mut ConfigurationPorts, function)?;
    // What is behind the last large page stays unused.
    let bytes = bytes / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    let mapped = window::memory_at(start, bytes).and_then(NonNull::new);
    if mapped.is_none() {
        log::error!("the region, {bytes} bytes at {start:#x}, cannot be mapped");
    }
    Some((mapped?, bytes))
}

fn find_engine(bytes: u64) -> Result<Option<Engine>, EngineError> {
    let Some((root, function)) = pci::find(DeviceType::Block) else { return Ok(None) };
    Engine::start(root, function, bytes).map(Some)
}
