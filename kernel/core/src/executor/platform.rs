//! What the executor needs from the machine: a clock, one alarm, and a way to wait. On the host all three are simulated
//! per thread.

#[cfg(target_os = "none")]
mod machine {
    use coppice_hal as hal;

    /// Monotonic time, ns since boot.
    pub(crate) fn now_ns() -> u64 {
        hal::time::now_ns()
    }

    /// Arms the core's one alarm, or disarms it.
    pub(crate) fn set_alarm(deadline_ns: Option<u64>) {
        hal::time::set_alarm(deadline_ns);
    }

    /// Whether the network card has asked for attention since the last call.
    pub(crate) fn take_nic_interrupt() -> bool {
        hal::irq::take().nic
    }

    /// Halts until an interrupt has been handled.
    pub(crate) fn wait_for_interrupt() {
        hal::cpu::wait_for_interrupt();
    }
}

#[cfg(not(target_os = "none"))]
mod simulated {
    use core::cell::Cell;

    std::thread_local! {
        static NOW_NS: Cell<u64> = const { Cell::new(1) };
    }

    /// The thread's simulated time, ns.
    pub(crate) fn now_ns() -> u64 {
        NOW_NS.get()
    }

    /// Moves the thread's simulated time on, never back.
    pub(crate) fn advance_to(now_ns: u64) {
        NOW_NS.set(NOW_NS.get().max(now_ns));
    }

    /// Nothing to arm: the clock jumps to the next timer by itself.
    pub(crate) fn set_alarm(_deadline_ns: Option<u64>) {}

    /// Waits a little.
    pub(crate) fn wait_for_interrupt() {
        coppice_hal::cpu::wait_for_interrupt();
    }

    /// There is no network card.
    pub(crate) fn take_nic_interrupt() -> bool {
        false
    }
}

#[cfg(target_os = "none")]
pub(super) use machine::{now_ns, set_alarm, take_nic_interrupt, wait_for_interrupt};
#[cfg(not(target_os = "none"))]
pub(super) use simulated::{advance_to, now_ns, set_alarm, take_nic_interrupt, wait_for_interrupt};
