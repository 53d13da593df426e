//! What the firmware left running and nobody needs: the old interrupt controllers and the interval timer.

use x86_64::instructions::port::PortWriteOnly;

use super::irq::VECTOR_LEGACY;

/// Silences both.
pub(super) fn silence() {
    /// Command and data ports of the two controllers.
    const CONTROLLERS: [(u16, u16, u8); 2] = [(0x20, 0x21, 0), (0xa0, 0xa1, 8)];
    for (command, data, first) in CONTROLLERS {
        // Initialise (cascade, four words), vectors out of the exceptions' way, wiring, 8086 mode, mask all.
        write(command, 0x11);
        write(data, VECTOR_LEGACY + first);
        write(data, if first == 0 { 1 << 2 } else { 2 });
        write(data, 1);
        write(data, 0xff);
    }
    // Channel 0 to "interrupt on terminal count" without a count: it stands still instead of ticking 18 times a second,
    // which costs the host even while masked.
    write(0x43, 0x30);
}

/// Writes to a port.
fn write(port: u16, value: u8) {
    // SAFETY: these ports reach the interrupt controllers and the timer only, and no handler depends on either.
    unsafe { PortWriteOnly::new(port).write(value) };
}
