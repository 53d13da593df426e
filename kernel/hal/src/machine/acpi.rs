//! The two things the firmware's tables are read for: the port of the power-management timer, whose rate is the same on
//! every machine, and which processor cores there are.

use x86_64::instructions::port::PortReadOnly;

use super::window::{self, Kind};

/// Bytes of the header every table starts with.
const HEADER_BYTES: usize = 36;

/// Longest table that is read.
const TABLE_BYTES_MAX: usize = 64 * 1024;

/// Fields of the fixed description table.
mod fixed {
    /// Port of the timer, 4 bytes.
    pub(super) const TIMER_PORT: usize = 76;
    /// Flags, 4 bytes.
    pub(super) const FLAGS: usize = 112;
    /// Flag: the timer counts 32 bits, not 24.
    pub(super) const TIMER_IS_LONG: u32 = 1 << 8;
}

/// Fields of the table of interrupt controllers.
mod controllers {
    /// The first of its entries: kind and length, 1 byte each, and what belongs to the kind.
    pub(super) const ENTRIES: usize = 44;
    /// Kind: a core's controller.
    pub(super) const LOCAL: u8 = 0;
    /// Its number, 1 byte.
    pub(super) const LOCAL_ID: usize = 3;
    /// Its flags, 4 bytes.
    pub(super) const LOCAL_FLAGS: usize = 4;
    /// Kind: a core's controller whose number takes 32 bits.
    pub(super) const WIDE: u8 = 9;
    /// Its number, 4 bytes.
    pub(super) const WIDE_ID: usize = 4;
    /// Its flags, 4 bytes.
    pub(super) const WIDE_FLAGS: usize = 8;
    /// Flag: the core can be used.
    pub(super) const ENABLED: u32 = 1 << 0;
}

/// Where the power-management timer is.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerPort {
    port: u16,
    /// Bits of it that count.
    pub(super) mask: u32,
}

impl TimerPort {
    /// What it counts now.
    pub(super) fn read(self) -> u32 {
        // SAFETY: the firmware says that this is the timer's port; reading it has no effect.
        unsafe { PortReadOnly::<u32>::new(self.port).read() & self.mask }
    }
}

/// Finds the power-management timer; `None` if the tables name none.
pub(super) fn timer_port(root_pointer: u64) -> Option<TimerPort> {
    let fixed = find(root_pointer, *b"FACP")?;
    let port = u16::try_from(u32_at(fixed, fixed::TIMER_PORT)?).ok().filter(|port| *port != 0)?;
    let is_long = u32_at(fixed, fixed::FLAGS)? & fixed::TIMER_IS_LONG != 0;
    Some(TimerPort { port, mask: if is_long { u32::MAX } else { 0x00ff_ffff } })
}

/// Numbers of the interrupt controllers of all cores that can be used, as many as there is room for. Returns how many
/// that are.
pub(super) fn cores(root_pointer: u64, ids: &mut [u32]) -> usize {
    let Some(mut rest) = find(root_pointer, *b"APIC").and_then(|table| table.get(controllers::ENTRIES..)) else {
        return 0;
    };
    let mut found = 0;
    while let [kind, length, ..] = *rest
        && let Some((entry, others)) = rest.split_at_checked(length.into())
        && !entry.is_empty()
    {
        rest = others;
        let (flags, id) = match kind {
            controllers::LOCAL => {
                (u32_at(entry, controllers::LOCAL_FLAGS), entry.get(controllers::LOCAL_ID).map(|id| u32::from(*id)))
            }
            controllers::WIDE => (u32_at(entry, controllers::WIDE_FLAGS), u32_at(entry, controllers::WIDE_ID)),
            _ => continue,
        };
        if flags.is_some_and(|flags| flags & controllers::ENABLED != 0)
            && let Some(id) = id
            && let Some(place) = ids.get_mut(found)
        {
            *place = id;
            found += 1;
        }
    }
    found
}

/// The table with a signature.
fn find(root_pointer: u64, signature: [u8; 4]) -> Option<&'static [u8]> {
    let root_pointer_bytes = bytes(root_pointer, 36)?;
    root_pointer_bytes.starts_with(b"RSD PTR ").then_some(())?;
    let revision = root_pointer_bytes[15];
    // From revision 2 on there is a second root table with longer addresses.
    let (root, entry_bytes) =
        if revision >= 2 { (u64_at(root_pointer_bytes, 24)?, 8) } else { (u32_at(root_pointer_bytes, 16)?.into(), 4) };
    let entries = table(root)?.get(HEADER_BYTES..)?;
    let mut addresses = entries.chunks_exact(entry_bytes).map(|entry| match entry_bytes {
        8 => u64_at(entry, 0),
        _ => u32_at(entry, 0).map(u64::from),
    });
    addresses.find_map(|address| table(address?).filter(|table| table.starts_with(&signature)))
}

/// The bytes of a table.
fn table(address: u64) -> Option<&'static [u8]> {
    let length = u32_at(bytes(address, HEADER_BYTES)?, 4)? as usize;
    (HEADER_BYTES..=TABLE_BYTES_MAX).contains(&length).then_some(())?;
    bytes(address, length)
}

/// Bytes of physical memory.
fn bytes(address: u64, length: usize) -> Option<&'static [u8]> {
    let start = window::at(address, length, Kind::Tables).filter(|_| address != 0)?;
    // SAFETY: mapped for good, to be read. The firmware's tables lie in memory that is not usable or below the first
    // MiB, which nobody writes to while the kernel starts, and they are not kept longer.
    Some(unsafe { core::slice::from_raw_parts(start, length) })
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}
