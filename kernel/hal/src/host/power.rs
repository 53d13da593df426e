//! Ending the process instead of the machine.

/// The machine ended as it should.
pub const STATUS_DONE: u8 = 1;

/// The kernel panicked.
pub const STATUS_PANIC: u8 = 2;

/// Ends the process.
pub fn exit(status: u8) -> ! {
    std::process::exit(status.into());
}

/// Ends the process: there is no machine to start again.
pub fn reboot() -> ! {
    std::process::exit(0);
}
