//! Interrupts: their handlers only note that they came, for whoever asks next on this core.

use core::arch::asm;
use core::sync::atomic::Ordering;

use super::core_state::Core;
use super::{apic, time};
use crate::paging;

/// Vector of the core's timer.
pub(super) const VECTOR_TIMER: u8 = 0x20;

/// Vector with which cores interrupt each other; what for is said in [`Core::attention`].
pub(crate) const VECTOR_KICK: u8 = 0x22;

/// Vector of the network card.
pub(super) const VECTOR_NIC: u8 = 0x21;

/// Vector of the region's engine.
pub(super) const VECTOR_REGION: u8 = 0x23;

/// Vector the interrupt controller uses when an interrupt vanished while being delivered. Not to be acknowledged.
pub(super) const VECTOR_SPURIOUS: u8 = 0xff;

/// First of the sixteen vectors of the old interrupt controllers, which are masked. Not to be acknowledged either.
pub(super) const VECTOR_LEGACY: u8 = 0xe0;

/// Bit of [`Core::pending`]: the alarm went off.
const TIMER: u32 = 1 << 0;

/// Bit of [`Core::pending`]: the network card.
const NIC: u32 = 1 << 1;

/// Bit of [`Core::pending`]: the region's engine.
const REGION: u32 = 1 << 2;

/// What came since it was last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The network card has frames, or room for frames.
    pub nic: bool,
    /// The alarm went off.
    pub timer: bool,
    /// The region's engine has done something.
    pub region: bool,
}

/// Takes what came, having let in what waits outside. A kick that came before ([`super::cpu::kick`]) counts no more.
#[inline]
pub fn take() -> Pending {
    // SAFETY: interrupts are on for one instruction; their handlers keep all registers and touch only `Core::pending`
    // and the alarm.
    unsafe { asm!("sti", "nop", "cli", options(nostack)) };
    let core = Core::current();
    core.attention.look();
    paging::forget_retired();
    let pending = &core.pending;
    let mut bits = pending.load(Ordering::Relaxed);
    if bits != 0 {
        bits = pending.swap(0, Ordering::Relaxed);
    }
    Pending { nic: bits & NIC != 0, timer: bits & TIMER != 0, region: bits & REGION != 0 }
}

/// Whether something came that nobody took.
pub(super) fn is_pending() -> bool {
    Core::current().pending.load(Ordering::Relaxed) != 0
}

/// Notes an interrupt. Runs in handlers.
pub(crate) fn handle(vector: u8) {
    let came = match vector {
        VECTOR_TIMER if time::alarm_is_due() => TIMER,
        VECTOR_NIC => NIC,
        VECTOR_REGION => REGION,
        VECTOR_SPURIOUS => return,
        vector if vector & 0xf0 == VECTOR_LEGACY => return,
        // Nobody else was given a vector; an early timer has set itself again.
        _ => 0,
    };
    apic::acknowledge();
    Core::current().pending.fetch_or(came, Ordering::Relaxed);
}
