//! What happens when the kernel finds a defect of its own: it says why, and the machine ends.

use core::panic::PanicInfo;

use super::diagnosis;

/// A panic of the kernel.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    diagnosis::panicked(info)
}
