//! The host's processor, of which nothing is used.

use std::time::Duration;

/// What programs are told in `AT_HWCAP`: the feature bits of CPUID leaf 1, register EDX. None on the host.
#[must_use]
pub fn hwcap() -> u32 {
    0
}

/// Number of the core this runs on.
#[must_use]
pub fn index() -> usize {
    0
}

/// Number of cores that run.
#[must_use]
pub fn count() -> usize {
    1
}

/// There are no others.
pub fn start_others(_entry: fn() -> !) {}

/// There is nothing to come back from.
pub fn kick(_core: usize) {}

/// Sleeps for a short time, as if an interrupt had come.
pub fn wait_for_interrupt() {
    std::thread::sleep(Duration::from_micros(100));
}
