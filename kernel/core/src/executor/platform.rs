//! What the executor needs from the machine: a clock, one alarm, and a way to wait. On the host all three are simulated
//! per thread.

#[cfg(target_os = "none")]
mod machine {
    use coppice_hal as hal;
    use coppice_hal::irq::Pending;

    /// Number of the core that runs.
    #[inline]
    pub(crate) fn index() -> usize {
        hal::cpu::index()
    }

    /// Number of cores.
    pub(crate) fn cores() -> usize {
        hal::cpu::count()
    }

    /// Has a core come back from a program or from its halt, or not go there, once.
    pub(crate) fn interrupt(core: usize) {
        hal::cpu::kick(core);
    }

    /// Monotonic time, ns since boot.
    pub(crate) fn now_ns() -> u64 {
        hal::time::now_ns()
    }

    /// The processor's counter.
    #[inline]
    pub(crate) fn ticks() -> u64 {
        hal::time::ticks()
    }

    /// So many ticks of it, ns.
    pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
        hal::time::ticks_to_ns(ticks)
    }

    /// Sets the core's one alarm.
    pub(crate) fn set_alarm(at_ns: u64) {
        hal::time::set_alarm(Some(at_ns));
    }

    /// The interrupts that came since the last call.
    pub(crate) fn take_interrupts() -> Pending {
        hal::irq::take()
    }

    /// Halts until an interrupt has been handled.
    pub(crate) fn wait_for_interrupt() {
        hal::cpu::wait_for_interrupt();
    }
}

#[cfg(not(any(target_os = "none", all(test, feature = "model"))))]
mod simulated {
    use core::cell::Cell;

    use coppice_hal::irq::Pending;

    std::thread_local! {
        static NOW_NS: Cell<u64> = const { Cell::new(1) };
    }

    /// Each thread has one core.
    pub(crate) fn index() -> usize {
        0
    }

    /// One.
    pub(crate) fn cores() -> usize {
        1
    }

    /// No program runs, and nothing is halted.
    pub(crate) fn interrupt(_core: usize) {}

    /// The thread's simulated time, ns.
    pub(crate) fn now_ns() -> u64 {
        NOW_NS.get()
    }

    /// Moves the thread's simulated time on, never back.
    pub(crate) fn advance_to(now_ns: u64) {
        NOW_NS.set(NOW_NS.get().max(now_ns));
    }

    /// Another core of the thread's has another clock.
    pub(crate) fn set_now(now_ns: u64) {
        NOW_NS.set(now_ns);
    }

    /// The clock.
    pub(crate) fn ticks() -> u64 {
        now_ns()
    }

    /// They are what they count.
    pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
        ticks
    }

    /// Nothing to set: the clock jumps to the next timer by itself.
    pub(crate) fn set_alarm(_at_ns: u64) {}

    /// Waits a little.
    pub(crate) fn wait_for_interrupt() {
        coppice_hal::cpu::wait_for_interrupt();
    }

    /// There are none.
    pub(crate) fn take_interrupts() -> Pending {
        Pending::default()
    }
}

/// Cores that are threads of the model checker. What halts and is kicked is a word, as on the machine.
#[cfg(all(test, feature = "model"))]
mod modelled {
    use core::cell::Cell;

    use coppice_hal::irq::Pending;
    use shuttle::sync::{Condvar, Mutex};

    use super::super::core_state::CoreState;
    use crate::sync::atomic::{AtomicU64, Ordering};

    /// Cores that a model may have.
    const CORES: usize = 2;

    #[derive(Default)]
    struct Kick {
        came: Mutex<bool>,
        changed: Condvar,
    }

    shuttle::lazy_static! {
        static ref KICKS: [Kick; CORES] = [(); CORES].map(|()| Kick::default());
        static ref NOW_NS: AtomicU64 = AtomicU64::new(1);
    }

    shuttle::thread_local! {
        static CORE: Cell<Option<&'static CoreState>> = Cell::new(None);
        static INDEX: Cell<usize> = Cell::new(usize::MAX);
    }

    /// The model's thread is this core from now on.
    pub(crate) fn become_core(core: &'static CoreState, index: usize) {
        CORE.with(|cell| cell.set(Some(core)));
        INDEX.with(|cell| cell.set(index));
    }

    pub(crate) fn core() -> Option<&'static CoreState> {
        CORE.with(Cell::get)
    }

    pub(crate) fn index() -> usize {
        INDEX.with(Cell::get)
    }

    pub(crate) fn cores() -> usize {
        CORES
    }

    pub(crate) fn interrupt(core: usize) {
        let kick = &KICKS[core];
        *kick.came.lock().expect("no panic") = true;
        kick.changed.notify_all();
    }

    pub(crate) fn wait_for_interrupt() {
        let kick = &KICKS[index()];
        let mut came = kick.came.lock().expect("no panic");
        while !core::mem::take(&mut *came) {
            came = kick.changed.wait(came).expect("no panic");
        }
    }

    pub(crate) fn now_ns() -> u64 {
        NOW_NS.load(Ordering::Relaxed)
    }

    pub(crate) fn advance_to(now_ns: u64) {
        NOW_NS.fetch_max(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn ticks() -> u64 {
        now_ns()
    }

    pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
        ticks
    }

    pub(crate) fn set_alarm(_at_ns: u64) {}

    pub(crate) fn take_interrupts() -> Pending {
        Pending::default()
    }
}

#[cfg(target_os = "none")]
pub(super) use machine::{
    cores, index, interrupt, now_ns, set_alarm, take_interrupts, ticks, ticks_to_ns, wait_for_interrupt,
};
#[cfg(all(test, feature = "model"))]
pub(super) use modelled::{
    advance_to, become_core, core, cores, index, interrupt, now_ns, set_alarm, take_interrupts, ticks, ticks_to_ns,
    wait_for_interrupt,
};
#[cfg(not(any(target_os = "none", all(test, feature = "model"))))]
pub(super) use simulated::{
    advance_to, cores, index, interrupt, now_ns, set_alarm, set_now, take_interrupts, ticks, ticks_to_ns,
    wait_for_interrupt,
};
