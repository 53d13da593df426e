//! The region's engine: virtio-blk, one queue, whose requests are pages that it fetches from where they lie.

use core::fmt;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{Ordering, fence};

use alloc::vec::Vec;

use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;
use virtio_drivers::transport::pci::bus::{DeviceFunction, PciRoot};
use virtio_drivers::transport::pci::{PciTransport, VirtioPciError};

use crate::addr::PAGE_BYTES;
use crate::frames::Frame;
use crate::machine::dma::{self, Virtio};
use crate::machine::irq::VECTOR_REGION;
use crate::machine::msix;
use crate::machine::pci::{self, ConfigurationPorts};
use crate::machine::virtio::{Doorbell, Doorbells};

/// Pages of a request.
pub const PAGES_MAX: usize = 32;

/// Places in the queue, a power of two: as many as QEMU's has.
const QUEUE: usize = 256;

/// Requests under way: each takes a place for its header, each page, and its status.
const REQUESTS: usize = QUEUE / (PAGES_MAX + 2);

/// Bytes from the header of a request to that of the next; its status is behind the header, and what is to become
/// zeros behind that.
const STRIDE: usize = 64;

/// Bytes of a header.
const HEADER_BYTES: usize = 16;

/// Where what is to become zeros lies in the memory of a header, behind the status: the first sector, how many they
/// are, and that the host may have their room back.
const RANGE: usize = 32;

/// Its bytes.
const RANGE_BYTES: usize = 16;

/// That the host may have the room back.
const UNMAP: u32 = 1;

/// What the device counts in, bytes.
const SECTOR_BYTES: u64 = 512;

/// Of these, in a page.
const SECTORS_PER_PAGE: u64 = PAGE_BYTES as u64 / SECTOR_BYTES;

/// Kinds of requests.
mod kind {
    pub(super) const WRITE: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// A request's status when all is well.
const STATUS_OK: u8 = 0;

/// Offsets in the device's configuration.
mod configuration {
    pub(super) const CAPACITY: usize = 0;
    pub(super) const SEGMENTS_MAX: usize = 12;
    pub(super) const ZERO_SECTORS_MAX: usize = 48;
}

bitflags::bitflags! {
    /// What device and driver can agree on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Features: u64 {
        /// It says how many pieces a request may have.
        const SEGMENTS_MAX = 1 << 2;
        /// It can be told to have all on stable storage.
        const FLUSH = 1 << 9;
        /// It can be told to have zeros somewhere.
        const WRITE_ZEROES = 1 << 14;
        /// The standard's first version, not what was before.
        const VERSION_1 = 1 << 32;
    }
}

/// Why the engine does not start.
#[derive(Debug)]
pub(super) enum EngineError {
    /// The PCI side of it is not as it should be.
    Pci(VirtioPciError),
    /// The virtio side of it is not.
    Virtio(virtio_drivers::Error),
    /// Its registers are where the kernel cannot reach them.
    Registers,
    /// It cannot interrupt by message.
    NoMessages,
    /// It lacks features the driver needs.
    Features,
    /// It is shorter than the region: so many bytes.
    Length(u64),
    /// There is no memory for its headers.
    OutOfMemory,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(error) => write!(f, "{error}"),
            Self::Virtio(error) => write!(f, "{error}"),
            Self::Registers => f.write_str("its registers cannot be mapped"),
            Self::NoMessages => f.write_str("it cannot interrupt by message"),
            Self::Features => f.write_str("it cannot flush, write zeros or take 32 pages at once, or is no virtio 1.0"),
            Self::Length(bytes) => write!(f, "it has {bytes} bytes, fewer than the region"),
            Self::OutOfMemory => f.write_str("no memory for its headers"),
        }
    }
}

impl From<virtio_drivers::Error> for EngineError {
    fn from(error: virtio_drivers::Error) -> Self {
        Self::Virtio(error)
    }
}

/// What becomes of a request.
enum Request {
    /// There is none.
    Free,
    /// The device is at it, and the frames are its alone to read.
    UnderWay {
        /// The queue's name for it.
        token: u16,
        frames: Vec<Frame>,
        /// It also reads what is to become zeros.
        has_range: bool,
        /// Nobody wants to know.
        is_forgotten: bool,
    },
    /// It was done, well or not.
    Done(bool),
}

/// See this module.
pub(super) struct Engine {
    queue: VirtQueue<Virtio, QUEUE>,
    doorbell: Doorbell,
    /// Headers and statuses.
    headers: NonNull<u8>,
    /// Sectors that become zeros with one request.
    zeros_max: u64,
    requests: [Request; REQUESTS],
}

// SAFETY: queue and headers are memory of their own, reached through this value only.
unsafe impl Send for Engine {}

impl Engine {
    /// Starts the device at `function`, which is to have so many bytes or more.
    pub(super) fn start(
        mut root: PciRoot<ConfigurationPorts>,
        function: DeviceFunction,
        bytes: u64,
    ) -> Result<Self, EngineError> {
        pci::map_registers(&mut root, function).ok_or(EngineError::Registers)?;
        let mut transport = PciTransport::new::<Virtio, _>(&mut root, function).map_err(EngineError::Pci)?;
        if transport.begin_init(Features::all()) != Features::all() {
            return Err(EngineError::Features);
        }
        let [low, high] =
            transport.read_consistent(|| transport.read_config_space::<[u32; 2]>(configuration::CAPACITY))?;
        let length = (u64::from(high) << 32 | u64::from(low)).saturating_mul(SECTOR_BYTES);
        if length < bytes {
            return Err(EngineError::Length(length));
        }
        if (transport.read_config_space::<u32>(configuration::SEGMENTS_MAX)? as usize) < PAGES_MAX {
            return Err(EngineError::Features);
        }
        let zeros_max = u64::from(transport.read_config_space::<u32>(configuration::ZERO_SECTORS_MAX)?);
        // As many as it takes, in whole pages.
        let zeros_max = zeros_max / SECTORS_PER_PAGE * SECTORS_PER_PAGE;
        if zeros_max == 0 {
            return Err(EngineError::Features);
        }
        let mut ports = ConfigurationPorts;
        msix::enable(&mut root, &mut ports, function, VECTOR_REGION).ok_or(EngineError::NoMessages)?;
        let doorbells = Doorbells::find(&mut root, &mut ports, function).ok_or(EngineError::NoMessages)?;
        let (_, headers) = dma::take(REQUESTS * STRIDE).ok_or(EngineError::OutOfMemory)?;
        let doorbell = doorbells.set_up(0).ok_or(EngineError::NoMessages)?;
        let queue = VirtQueue::new(&mut transport, 0, false, false)?;
        transport.finish_init();
        // Dropping it would reset the device.
        core::mem::forget(transport);
        Ok(Self { queue, doorbell, headers, zeros_max, requests: [const { Request::Free }; REQUESTS] })
    }

    /// Begins to write pages; gives them back if there is no room.
    pub(super) fn write(&mut self, offset: u64, frames: Vec<Frame>) -> Result<u8, Vec<Frame>> {
        if frames.is_empty() || frames.len() > PAGES_MAX {
            return Err(frames);
        }
        self.begin(kind::WRITE, (offset / SECTOR_BYTES, 0), frames)
    }

    /// Begins to have zeros in so many bytes, or as many of them as it does at once: gives how many, too.
    pub(super) fn zero(&mut self, offset: u64, bytes: u64) -> Option<(u8, u64)> {
        let sectors = (bytes / SECTOR_BYTES).min(self.zeros_max);
        if sectors == 0 {
            return None;
        }
        let slot = self.begin(kind::WRITE_ZEROES, (offset / SECTOR_BYTES, sectors as u32), Vec::new()).ok()?;
        Some((slot, sectors * SECTOR_BYTES))
    }

    /// Begins a flush.
    pub(super) fn flush(&mut self) -> Option<u8> {
        self.begin(kind::FLUSH, (0, 0), Vec::new()).ok()
    }

    /// Whether there is room for a request.
    pub(super) fn has_room(&mut self) -> bool {
        self.reclaim();
        self.free().is_some()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&mut self) -> bool {
        self.reclaim();
        !self.requests.iter().any(|request| matches!(request, Request::UnderWay { .. }))
    }

    /// What became of a request.
    pub(super) fn is_done(&mut self, slot: u8) -> Option<bool> {
        self.reclaim();
        match self.requests.get(usize::from(slot))? {
            Request::Done(well) => Some(*well),
            Request::Free | Request::UnderWay { .. } => None,
        }
    }

    /// Nobody wants to know what becomes of a request.
    pub(super) fn forget(&mut self, slot: u8) {
        match self.requests.get_mut(usize::from(slot)) {
            Some(Request::UnderWay { is_forgotten, .. }) => *is_forgotten = true,
            Some(request) => *request = Request::Free,
            None => {}
        }
    }

    fn free(&self) -> Option<usize> {
        self.requests.iter().position(|request| matches!(request, Request::Free))
    }

    /// Begins something from a sector on, and with so many of them if that is to become zeros.
    fn begin(&mut self, kind: u32, (sector, zeros): (u64, u32), frames: Vec<Frame>) -> Result<u8, Vec<Frame>> {
        self.reclaim();
        let Some(slot) = self.free() else { return Err(frames) };
        let header = self.header(slot);
        // SAFETY: a header of its own, which the device does not have: the slot is free.
        unsafe {
            header.cast::<u32>().write(kind);
            header.cast::<u32>().add(1).write(0);
            header.cast::<u64>().add(1).write(if zeros == 0 { sector } else { 0 });
            header.add(HEADER_BYTES).write(!STATUS_OK);
            let range = header.add(RANGE);
            range.cast::<u64>().write(sector);
            range.cast::<u32>().add(2).write(zeros);
            range.cast::<u32>().add(3).write(UNMAP);
        }
        // SAFETY: header, frames and status are the device's alone until the request is taken out of the queue; the
        // frames are kept until then, and are written by nobody, which the caller sees to.
        let added = unsafe {
            let (pieces, count) = read_by_device(header, &frames, zeros != 0);
            self.queue.add(&pieces[..count], &mut [written_by_device(header)])
        };
        let Ok(token) = added else { return Err(frames) };
        let has_range = zeros != 0;
        self.requests[slot] = Request::UnderWay { token, frames, has_range, is_forgotten: false };
        // What the device wants is read after the request is in the queue.
        fence(Ordering::SeqCst);
        if self.queue.should_notify() {
            self.doorbell.ring();
        }
        Ok(slot as u8)
    }

    /// Takes those out of the queue that the device is done with.
    fn reclaim(&mut self) {
        while let Some(done) = self.queue.peek_used() {
            let is_it = |request: &Request| matches!(request, Request::UnderWay { token, .. } if *token == done);
            let Some(slot) = self.requests.iter().position(is_it) else { return };
            let header = self.header(slot);
            let request = core::mem::replace(&mut self.requests[slot], Request::Free);
            let Request::UnderWay { frames, has_range, is_forgotten, .. } = request else { return };
            // SAFETY: the same buffers as when it was begun, which the device is done with.
            let popped = unsafe {
                let (pieces, count) = read_by_device(header, &frames, has_range);
                self.queue.pop_used(done, &pieces[..count], &mut [written_by_device(header)])
            };
            // SAFETY: inside the header, which the device is done with.
            let status = unsafe { header.add(HEADER_BYTES).read() };
            if !is_forgotten {
                self.requests[slot] = Request::Done(popped.is_ok() && status == STATUS_OK);
            }
        }
    }

    fn header(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < REQUESTS, "there are {REQUESTS} requests");
        // SAFETY: inside the memory of headers.
        unsafe { self.headers.add(slot * STRIDE) }
    }
}

/// What the device reads of a request: the header, and a page of each frame or what is to become zeros. Gives how many
/// pieces that are, too.
///
/// # Safety
/// Header and frames stay and nobody writes to them while the result is used.
unsafe fn read_by_device<'a>(
    header: NonNull<u8>,
    frames: &[Frame],
    has_range: bool,
) -> ([&'a [u8]; PAGES_MAX + 1], usize) {
    let mut pieces: [&[u8]; PAGES_MAX + 1] = [&[]; PAGES_MAX + 1];
    // SAFETY: the header's memory; by the caller.
    pieces[0] = unsafe { slice::from_raw_parts(header.as_ptr(), HEADER_BYTES) };
    if has_range {
        // SAFETY: inside the header's memory; by the caller.
        pieces[1] = unsafe { slice::from_raw_parts(header.add(RANGE).as_ptr(), RANGE_BYTES) };
        return (pieces, 2);
    }
    for (piece, frame) in pieces[1..].iter_mut().zip(frames) {
        // SAFETY: a page of a frame that is held; by the caller.
        *piece = unsafe { slice::from_raw_parts(frame.bytes(), PAGE_BYTES) };
    }
    (pieces, 1 + frames.len())
}

/// What the device writes of a request: the status.
///
/// # Safety
/// Nobody else has the status while the result is used.
unsafe fn written_by_device<'a>(header: NonNull<u8>) -> &'a mut [u8] {
    // SAFETY: behind the header, in its memory; by the caller.
    unsafe { slice::from_raw_parts_mut(header.add(HEADER_BYTES).as_ptr(), 1) }
}
