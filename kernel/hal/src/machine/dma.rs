//! Memory shared with devices: frames of the pool, at the addresses they have in the direct map. Devices use physical
//! addresses as they are; there is no translation between.

use core::ptr::NonNull;

use virtio_drivers::{BufferDirection, Hal, PhysAddr};

use super::memory;
use super::window::{self, Kind};
use crate::addr::PAGE_BYTES;
use crate::frames::FrameKind;

/// Takes a run of zeroed memory that lies in one piece and is the kernel's for good. Returns its physical address too.
pub(super) fn take(bytes: usize) -> Option<(PhysAddr, NonNull<u8>)> {
    let order = bytes.div_ceil(PAGE_BYTES).next_power_of_two().trailing_zeros();
    let frame = memory::frames().alloc_block(FrameKind::Kernel, u8::try_from(order).ok()?)?;
    let physical = frame.address();
    let address = NonNull::new(memory::at(physical, bytes)?)?;
    core::mem::forget(frame);
    Some((physical, address))
}

/// What the virtio drivers need of the kernel.
pub(super) struct Virtio;

// SAFETY: memory comes from the pool, zeroed, in one piece and nobody else's, and is never given back, so that a device
// can at worst write to memory that is its own.
unsafe impl Hal for Virtio {
    fn dma_alloc(pages: usize, _direction: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // Address 0 is how a failure is told.
        take(pages * PAGE_BYTES).unwrap_or((0, NonNull::dangling()))
    }

    unsafe fn dma_dealloc(_physical: PhysAddr, _address: NonNull<u8>, _pages: usize) -> i32 {
        // A card that has failed to start may still write to its rings.
        0
    }

    unsafe fn mmio_phys_to_virt(physical: PhysAddr, bytes: usize) -> NonNull<u8> {
        let registers = window::at(physical, bytes, Kind::Registers).and_then(NonNull::new);
        // The driver asks for parts of what was mapped before it started (`pci::map_registers`).
        registers.expect("a device's registers were mapped")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _direction: BufferDirection) -> PhysAddr {
        memory::physical(buffer.cast().as_ptr())
    }

    unsafe fn unshare(_physical: PhysAddr, _buffer: NonNull<[u8]>, _direction: BufferDirection) {}
}
