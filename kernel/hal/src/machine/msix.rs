//! Interrupts as messages (MSI-X): the card writes a word to the core's interrupt controller.

use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction, PciRoot};

use super::apic;
use super::window::{self, Kind};

/// Number of the capability.
const CAPABILITY: u8 = 0x11;

/// Bit of the capability's control half-word: on.
const ENABLE: u32 = 1 << 31;

/// Bit of the capability's control half-word: all masked.
const MASK_ALL: u32 = 1 << 30;

/// Bytes of a table entry.
const ENTRY_BYTES: usize = 16;

/// Lets entry 0 of a function's table interrupt this core with `vector`. `None` if it has no such table.
pub(super) fn enable(
    root: &mut PciRoot<impl ConfigurationAccess>,
    access: &mut impl ConfigurationAccess,
    function: DeviceFunction,
    vector: u8,
) -> Option<()> {
    let capability = root.capabilities(function).find(|capability| capability.id == CAPABILITY)?.offset;
    let place = access.read_word(function, capability + 4);
    let (bar, offset) = ((place & 7) as u8, u64::from(place & !7));
    let (base, size) = root.bar_info(function, bar).ok()??.memory_address_size()?;
    if base == 0 || offset + ENTRY_BYTES as u64 > size {
        return None;
    }
    let entry = window::at(base + offset, ENTRY_BYTES, Kind::Registers)?.cast::<u32>();
    let (address, data) = apic::message(vector)?;
    for (index, word) in [address as u32, (address >> 32) as u32, data, 0].into_iter().enumerate() {
        // SAFETY: the four words of entry 0 of the table, which the function says lies here; it is off still.
        unsafe { entry.wrapping_add(index).write_volatile(word) };
    }
    let control = access.read_word(function, capability);
    access.write_word(function, capability, control & !MASK_ALL | ENABLE);
    Some(())
}
