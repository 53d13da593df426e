//! One line on the serial line, and the end of the machine: all a loader can do about an error.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use x86_64::instructions::port::{Port, PortWriteOnly};

use crate::error::Error;

/// First port of the serial line.
const SERIAL: u16 = 0x3f8;

/// Offset of the line's status register, and the bit that says there is room for a byte.
const STATUS: (u16, u8) = (5, 1 << 5);

/// How often the line is asked for room before a byte is given up.
const PATIENCE: u32 = 100_000;

/// Port of the device that ends the machine with a status.
const EXIT_PORT: u16 = 0xf4;

/// Status of a machine whose kernel could not be started.
const STATUS_NOT_LOADED: u32 = 3;

/// The serial line.
struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the ports are the serial line's, which nobody else uses.
            unsafe {
                let mut status = Port::<u8>::new(SERIAL + STATUS.0);
                for _ in 0..PATIENCE {
                    if status.read() & STATUS.1 != 0 {
                        break;
                    }
                }
                PortWriteOnly::new(SERIAL).write(byte);
            }
        }
        Ok(())
    }
}

/// Says why, and ends the machine.
pub(crate) fn fail(error: &Error) -> ! {
    end(format_args!("\ncoppice-boot: {error}\n"))
}

/// A defect of the loader.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    end(format_args!("\ncoppice-boot: {info}\n"))
}

/// Writes a text and ends the machine.
fn end(text: fmt::Arguments<'_>) -> ! {
    // Writing to the line cannot fail.
    let _ = Serial.write_fmt(text);
    // SAFETY: the port is the exit device's, or nobody's.
    unsafe { PortWriteOnly::new(EXIT_PORT).write(STATUS_NOT_LOADED) };
    loop {
        x86_64::instructions::hlt();
    }
}
