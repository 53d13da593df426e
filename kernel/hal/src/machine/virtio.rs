//! The registers of a virtio device that its generic driver does not reach: which interrupt a queue causes, the
//! doorbell of each queue, by one write instead of three accesses, and what a device says of itself that the driver
//! does not know.

use core::mem::offset_of;
use core::ptr::NonNull;

use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction, PciRoot};

use super::window::{self, Kind};

/// Number of vendor-specific capabilities, with which a card says where its registers are.
const CAPABILITY_VENDOR: u8 = 9;

/// Kind of such a capability: the common registers.
const KIND_COMMON: u8 = 1;

/// Kind of such a capability: the doorbells.
const KIND_DOORBELLS: u8 = 2;

/// Kind of such a capability: what the device says of itself.
const KIND_DEVICE: u8 = 4;

/// Value of a message register: no interrupt.
const NO_MESSAGE: u16 = 0xffff;

/// The common registers, up to the last that is used here.
#[repr(C)]
struct Common {
    device_feature_select: u32,
    device_feature: u32,
    driver_feature_select: u32,
    driver_feature: u32,
    message_configuration: u16,
    queue_count: u16,
    status: u8,
    generation: u8,
    queue_select: u16,
    queue_size: u16,
    queue_message: u16,
    queue_enable: u16,
    queue_doorbell: u16,
}

/// Where the registers are.
pub(super) struct Doorbells {
    common: *mut u8,
    doorbells: *mut u8,
    doorbells_bytes: usize,
    /// Distance from one doorbell to the next, bytes.
    distance: usize,
}

/// Tells the card that a queue has something new.
pub(super) struct Doorbell {
    register: NonNull<u16>,
    queue: u16,
}

// SAFETY: the register is the device's and may be written by any core.
unsafe impl Send for Doorbell {}

impl Doorbell {
    /// Rings.
    pub(super) fn ring(&self) {
        // SAFETY: the queue's own doorbell register, which is mapped for good.
        unsafe { self.register.write_volatile(self.queue) };
    }
}

impl Doorbells {
    /// Finds the registers; `None` if the card does not say where they are.
    pub(super) fn find(
        root: &mut PciRoot<impl ConfigurationAccess>,
        access: &mut impl ConfigurationAccess,
        function: DeviceFunction,
    ) -> Option<Self> {
        let common = capability(root, function, KIND_COMMON)?;
        let (common, _) = registers(root, access, function, common)?;
        let doorbells_at = capability(root, function, KIND_DOORBELLS)?;
        let (doorbells, doorbells_bytes) = registers(root, access, function, doorbells_at)?;
        let distance = access.read_word(function, doorbells_at + 16) as usize;
        let found = Self { common, doorbells, doorbells_bytes, distance };
        found.write(offset_of!(Common, message_configuration), NO_MESSAGE);
        Some(found)
    }

    /// Lets a queue cause the interrupt of message 0, and gives its doorbell.
    pub(super) fn set_up(&self, queue: u16) -> Option<Doorbell> {
        self.write(offset_of!(Common, queue_select), queue);
        self.write(offset_of!(Common, queue_message), 0);
        let offset = usize::from(self.read(offset_of!(Common, queue_doorbell))) * self.distance;
        let fits = offset + size_of::<u16>() <= self.doorbells_bytes;
        let register = NonNull::new(self.doorbells.wrapping_add(offset).cast())?;
        (fits && self.read(offset_of!(Common, queue_message)) == 0).then_some(Doorbell { register, queue })
    }

    fn read(&self, offset: usize) -> u16 {
        // SAFETY: one of the common registers, whose place the card told and which are mapped.
        unsafe { self.common.wrapping_add(offset).cast::<u16>().read_volatile() }
    }

    fn write(&self, offset: usize, value: u16) {
        // SAFETY: as above; only the selection of a queue and its message are written, before the card runs.
        unsafe { self.common.wrapping_add(offset).cast::<u16>().write_volatile(value) };
    }
}

/// What the device says of itself, in 8-byte words from its start. `None`: it does not say so much.
pub(super) fn device_words<const WORDS: usize>(
    root: &mut PciRoot<impl ConfigurationAccess>,
    access: &mut impl ConfigurationAccess,
    function: DeviceFunction,
) -> Option<[u64; WORDS]> {
    let capability = capability(root, function, KIND_DEVICE)?;
    let (start, bytes) = registers(root, access, function, capability)?;
    // As halves, which the standard wants (virtio 1.2, 4.1.3.1).
    // SAFETY: the device says that its words are there, and they are mapped.
    let half = |index| u64::from(unsafe { start.cast::<u32>().wrapping_add(index).read_volatile() });
    let word = |index| half(2 * index) | half(2 * index + 1) << 32;
    (bytes >= WORDS * size_of::<u64>()).then(|| core::array::from_fn(word))
}

/// Where in a function's configuration the first capability of this kind is.
fn capability(root: &PciRoot<impl ConfigurationAccess>, function: DeviceFunction, kind: u8) -> Option<u8> {
    let mut ours = root.capabilities(function).filter(|capability| capability.id == CAPABILITY_VENDOR);
    ours.find(|capability| (capability.private_header >> 8) as u8 == kind).map(|capability| capability.offset)
}

/// Where the registers are that a capability tells of, and how many bytes there are.
fn registers(
    root: &mut PciRoot<impl ConfigurationAccess>,
    access: &mut impl ConfigurationAccess,
    function: DeviceFunction,
    capability: u8,
) -> Option<(*mut u8, usize)> {
    let bar = access.read_word(function, capability + 4) as u8;
    let offset = u64::from(access.read_word(function, capability + 8));
    let bytes = access.read_word(function, capability + 12);
    let (base, size) = root.bar_info(function, bar).ok()??.memory_address_size()?;
    if base == 0 || offset + u64::from(bytes) > size {
        return None;
    }
    Some((window::at(base + offset, bytes as usize, Kind::Registers)?, bytes as usize))
}
