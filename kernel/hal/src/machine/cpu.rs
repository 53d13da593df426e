//! The processor core this runs on.

use core::arch::asm;
use core::arch::x86_64::__cpuid;

use super::core_state::Core;
use super::irq;

/// What programs are told in `AT_HWCAP`: the feature bits of CPUID leaf 1, register EDX.
#[must_use]
pub fn hwcap() -> u32 {
    __cpuid(1).edx
}

/// Number of the core this runs on.
#[must_use]
pub fn index() -> usize {
    Core::current().index
}

/// Halts the core until an interrupt came that [`irq::take`] has not returned yet. No instruction is executed
/// meanwhile.
pub fn wait_for_interrupt() {
    if irq::is_pending() {
        return;
    }
    // SAFETY: the core wakes for any interrupt; `sti` lets none in before `hlt`, so none can be missed. Handlers keep
    // all registers.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
}
