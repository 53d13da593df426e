//! What happens when the kernel finds a defect of its own: it says why, and the machine ends.

use core::panic::PanicInfo;

use spin::Once;

use super::diagnosis;

/// Who else is told.
static HOOK: Once<fn(&str)> = Once::new();

/// Sets what is told the one-line cause when the kernel panics, after it was said on the serial line. The first one
/// stays. If the hook panics too, the machine ends at once.
pub fn set_hook(hook: fn(&str)) {
    HOOK.call_once(|| hook);
}

/// Tells the hook.
pub(super) fn tell(cause: &str) {
    if let Some(hook) = HOOK.get() {
        hook(cause);
    }
}

/// A panic of the kernel.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    diagnosis::panicked(info)
}
