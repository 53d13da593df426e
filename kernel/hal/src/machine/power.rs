//! The machine's end.

use x86_64::instructions::port::PortWriteOnly;
use x86_64::structures::DescriptorTablePointer;

/// Port of the device that ends the machine with a status.
const EXIT_PORT: u16 = 0xf4;

/// Port of the reset control, and the value that resets processor and chipset.
const RESET: (u16, u8) = (0xcf9, 0x06);

/// The machine ended as it should.
pub const STATUS_DONE: u8 = 1;

/// The kernel panicked.
pub const STATUS_PANIC: u8 = 2;

/// Ends the machine. `status`, from 1 to 127, is told to whoever started it.
pub fn exit(status: u8) -> ! {
    // SAFETY: the port is the exit device's, or nobody's.
    unsafe { PortWriteOnly::new(EXIT_PORT).write(u32::from(status & 0x7f)) };
    halt()
}

/// Starts the machine again from its firmware.
pub fn reboot() -> ! {
    // SAFETY: a reset is what is wanted. Where the port does nothing, an exception without any gates does it.
    unsafe {
        PortWriteOnly::new(RESET.0).write(RESET.1);
        x86_64::instructions::tables::lidt(&DescriptorTablePointer { limit: 0, base: x86_64::VirtAddr::zero() });
        core::arch::asm!("int3", options(nostack));
    }
    halt()
}

/// Does nothing for good, with this core.
pub(super) fn halt() -> ! {
    x86_64::instructions::interrupts::disable();
    loop {
        x86_64::instructions::hlt();
    }
}
