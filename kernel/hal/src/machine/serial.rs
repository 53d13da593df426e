//! The serial line: the kernel's log, and what it says when it is about to end.

use core::fmt::{self, Write};
use core::hint;

use log::{LevelFilter, Log, Metadata, Record};
use spin::Mutex;
use uart_16550::backend::PioBackend;
use uart_16550::{BaudRate, Config, Uart16550};

use super::time;

/// First port of the line.
const PORT: u16 = 0x3f8;

/// The line, if there is one.
static LINE: Mutex<Option<Line>> = Mutex::new(None);

/// A serial line that text can be written to.
struct Line(Uart16550<PioBackend>);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.send_bytes_exact(text.as_bytes());
        Ok(())
    }
}

/// Takes the line; `None` if the machine has none.
fn open() -> Option<Line> {
    // SAFETY: the port is the first serial line's on every machine of this kind, and only this module uses it.
    let mut uart = unsafe { Uart16550::new_port(PORT) }.ok()?;
    uart.init(Config { baud_rate: BaudRate::Baud115200, ..Config::default() }).ok()?;
    Some(Line(uart))
}

/// Opens the line and sends the log there.
pub(super) fn start() {
    let mut line = open();
    if let Some(line) = &mut line {
        // The firmware does not end its last line. Writing to the line cannot fail.
        let _ = line.write_str("\n");
    }
    *LINE.lock() = line;
    // Fails only if there is a log already.
    if log::set_logger(&SerialLog).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// How often it is looked whether another core is done with its line.
const ATTEMPTS: usize = 10_000;

/// Writes without regard to who holds the line: for a kernel that may have been stopped in the middle of a line.
/// Another core is given time to end its own.
pub(super) fn write_regardless(text: fmt::Arguments<'_>) {
    let _line = (0..ATTEMPTS).find_map(|_| {
        hint::spin_loop();
        LINE.try_lock()
    });
    if let Some(mut line) = open() {
        // Writing to the line cannot fail.
        let _ = line.write_fmt(text);
    }
}

/// The log.
struct SerialLog;

impl Log for SerialLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now_us = time::now_ns() / 1000;
        if let Some(line) = LINE.lock().as_mut() {
            let (seconds, us) = (now_us / 1_000_000, now_us % 1_000_000);
            // Writing to the line cannot fail.
            let _ = writeln!(line, "[{seconds:4}.{us:06}] {:5} {}: {}", record.level(), record.target(), record.args());
        }
    }

    fn flush(&self) {}
}
