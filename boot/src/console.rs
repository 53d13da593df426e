//! One line on the first serial port, and the end of the machine.

use core::fmt::{self, Write};

use x86_64::instructions::hlt;
use x86_64::instructions::port::Port;

/// Data register of COM1; the line status register is five further.
const COM1: u16 = 0x3f8;

/// Transmitter holding register empty.
const TRANSMIT_READY: u8 = 1 << 5;

/// Port of QEMU's `isa-debug-exit`.
const DEBUG_EXIT: u16 = 0xf4;

/// What the loader writes there; QEMU's exit status becomes `2 × STATUS + 1`.
const STATUS_BOOT_FAILED: u8 = 0x21;

/// How often to look for room before a byte is given up: without a serial port nobody ever takes it.
const TRIES_MAX: u32 = 100_000;

/// The first serial port.
struct Com1;

impl Write for Com1 {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let (mut data, mut status) = (Port::<u8>::new(COM1), Port::<u8>::new(COM1 + 5));
            // SAFETY: reading COM1's status has no effect.
            let mut ready = || unsafe { status.read() } & TRANSMIT_READY != 0;
            if (0..TRIES_MAX).any(|_| ready()) {
                // SAFETY: COM1's data register takes a byte to send, nothing else.
                unsafe { data.write(byte) };
            }
        }
        Ok(())
    }
}

/// Prints on the serial port.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    // Writing to the port reports no errors.
    let _ = Com1.write_fmt(text);
}

/// Says what went wrong and ends the machine.
pub(crate) fn fail(reason: &str) -> ! {
    print(format_args!("boot: {reason}\n"));
    // SAFETY: the port exists for this, or does not exist and takes the byte into the void.
    unsafe { Port::<u8>::new(DEBUG_EXIT).write(STATUS_BOOT_FAILED) };
    loop {
        hlt();
    }
}
