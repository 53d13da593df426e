//! Starting the cores other than the one that the loader started.
//!
//! They are started one after the other: each gets a state and a stack, is reset, begins at the trampoline and comes to
//! [`begin`], where it sets itself up as the first one did. A core that takes too long is reset again and left out.
//!
//! The order is the manual's (SDM volume 3, 8.4.4.1): reset, begin, and begin again. It has 10 ms between the first
//! two, which old processors need; a core that is deaf when it is first told to begin is told again after as long, and
//! one that has begun does not listen any more.

use core::hint;
use core::sync::atomic::{AtomicBool, Ordering};

use spin::{Mutex, Once};

use super::core_state::{self, Core};
use super::trampoline::Trampoline;
use super::{acpi, apic, control, time, traps};
use crate::CORES_MAX;
use crate::paging;

/// How long a core may take to come up, ns. The host may have other things to do than to run it.
const START_NS_MAX: u64 = 5_000_000_000;

/// How long is waited for it before it is told to begin once more, ns: it may have been deaf still after its reset.
const REPEAT_NS: u64 = 10_000_000;

/// Numbers of the interrupt controllers of all cores.
static FOUND: Once<([u32; CORES_MAX], usize)> = Once::new();

/// What a core does when it is set up.
static ENTRY: Once<fn() -> !> = Once::new();

/// The core that is started.
struct Start {
    core: &'static Core,
    /// The first core's time-stamp counter when it started this one.
    counter: u64,
    /// Either the core has come up and says so, or it took too long and is not to go on: who sets this first, decides.
    decided: AtomicBool,
    /// The core is up.
    up: AtomicBool,
}

// SAFETY: the core's state is used by that core alone from the moment it begins.
unsafe impl Sync for Start {}
// SAFETY: as above.
unsafe impl Send for Start {}

/// Reads from the firmware's tables which cores there are.
pub(super) fn find(tables: u64) {
    FOUND.call_once(|| {
        let mut ids = [0; CORES_MAX];
        let count = acpi::cores(tables, &mut ids);
        (ids, count)
    });
}

/// Starts them; `counted` is told how many run, each time one more does.
pub(super) fn start(entry: fn() -> !, counted: impl Fn(usize)) {
    static STARTED: Mutex<()> = Mutex::new(());
    let Some(_only) = STARTED.try_lock() else { return };
    let own = apic::id();
    let (ids, count) = FOUND.get().copied().unwrap_or(([0; CORES_MAX], 0));
    let others = ids.iter().take(count).filter(|id| **id != own && **id <= apic::id_max());
    if others.clone().next().is_none() {
        return;
    }
    ENTRY.call_once(|| entry);
    let Some(trampoline) =
        Some(paging::kernel_root()).filter(|root| *root <= u32::MAX.into()).and_then(Trampoline::build)
    else {
        log::error!("the other cores cannot be started: the kernel lies too high");
        return;
    };
    let mut running = 1;
    for (stack, id) in (1..).zip(others) {
        match core_state::for_another(running, stack) {
            None => {
                log::error!("no memory for the stack of core {running}");
                return;
            }
            Some(core) if start_one(&trampoline, core, *id) => {
                running += 1;
                counted(running);
            }
            Some(_) => log::error!("a core (controller {id}) does not come up; going on without it"),
        }
    }
    log::info!("{running} cores");
}

/// Starts one core. Returns whether it has come up.
fn start_one(trampoline: &Trampoline, core: &'static Core, id: u32) -> bool {
    let (decided, up) = (AtomicBool::new(false), AtomicBool::new(false));
    let start: &'static Start =
        alloc::boxed::Box::leak(alloc::boxed::Box::new(Start { core, counter: time::counter(), decided, up }));
    trampoline.lead(core.stack_top(), begin, start);
    apic::assign(core.index, id);
    apic::reset(core.index);
    let since_ns = time::now_ns();
    let mut repeat_ns = since_ns;
    while !start.up.load(Ordering::Acquire) {
        let now_ns = time::now_ns();
        if now_ns.saturating_sub(since_ns) > START_NS_MAX && !start.decided.swap(true, Ordering::AcqRel) {
            apic::reset(core.index);
            return false;
        }
        if now_ns >= repeat_ns {
            apic::start_at(core.index, trampoline.page());
            repeat_ns = now_ns + REPEAT_NS;
        }
        hint::spin_loop();
    }
    true
}

/// Where a core comes from the trampoline.
extern "sysv64" fn begin(start: &'static Start) -> ! {
    paging::load_kernel();
    start.core.start();
    traps::start();
    control::start();
    apic::start();
    // There is one clock for all cores, so their counters have to be one. One that is behind would be behind for good.
    let is_behind = time::counter() < start.counter;
    if is_behind {
        log::error!("the time-stamp counter of core {} is behind that of core 0", start.core.index);
    }
    if let Some(entry) = ENTRY.get()
        && !is_behind
        && !start.decided.swap(true, Ordering::AcqRel)
    {
        start.up.store(true, Ordering::Release);
        entry()
    }
    // Too late, or of no use: it is reset in a moment.
    loop {
        x86_64::instructions::hlt();
    }
}
