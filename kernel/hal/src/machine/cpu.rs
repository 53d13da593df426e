//! The processor core this runs on.

use core::arch::asm;
use core::arch::x86_64::__cpuid;

use core::sync::atomic::{AtomicUsize, Ordering};

use super::core_state::{self, Core};
use super::{apic, diagnosis, irq, others};
use crate::paging;

/// See [`count`].
static COUNT: AtomicUsize = AtomicUsize::new(1);

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

/// Number of cores that run: [`index`] is less.
#[must_use]
pub fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Starts the machine's other cores, as far as there are [`crate::CORES_MAX`]; each sets itself up and calls `entry`,
/// with its own [`index`]. To be called once, by core 0. Those that do not come up are left out, and the log says so.
pub fn start_others(entry: fn() -> !) {
    others::start(entry, |running| COUNT.store(running, Ordering::Release));
}

/// Has a core come back from [`crate::user::UserThread::enter`] or [`wait_for_interrupt`], or not go there, once. It is
/// interrupted only if it is there. No effect for cores that do not run.
pub fn kick(core: usize) {
    if let Some(attention) = core_state::ATTENTION.get(core)
        && attention.kick()
    {
        apic::interrupt(core);
    }
}

/// Halts the core until an interrupt came that [`irq::take`] has not returned yet, or the core is kicked. No
/// instruction is executed meanwhile.
pub fn wait_for_interrupt() {
    let attention = Core::current().attention;
    if irq::is_pending() {
        return;
    }
    if !attention.halt() {
        return diagnosis::stop_if_ending();
    }
    if !paging::may_halt() {
        attention.wake();
        paging::forget_retired();
        return diagnosis::stop_if_ending();
    }
    // SAFETY: the core wakes for any interrupt; `sti` lets none in before `hlt`, so none can be missed. Handlers keep
    // all registers.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
    attention.wake();
    diagnosis::stop_if_ending();
}
