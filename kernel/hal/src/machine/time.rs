//! Time since the kernel was entered, and one alarm per core. There is no tick: nothing happens while nothing is due.
//!
//! The clock is the processor's time-stamp counter. Its rate is measured against the power-management timer for a
//! millisecond when the kernel starts, which is good to about a thousandth, and again when the kernel has run for a
//! tenth of a second, a second, and then every while, over the time since then, which is good to a few millionths. Only
//! the rate changes then, so time never jumps.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::acpi::TimerPort;
use super::apic;
use super::core_state::Core;
use super::features;
use spin::{Mutex, Once};

/// Rate of the power-management timer, Hz.
const REFERENCE_HZ: u64 = 3_579_545;

/// How long the first measurement takes, ticks of the reference: one millisecond.
const FIRST_TICKS: u64 = REFERENCE_HZ / 1000;

/// Readings of the reference of which the least disturbed is used.
const READINGS: usize = 8;

/// When the rate is measured for the second time, ns. Each later time is ten times as late, up to [`REFINE_LAST_NS`].
const REFINE_FIRST_NS: u64 = 100_000_000;

/// From when on the rate is expected to stay, ns: behind the second measurement.
const REFINE_LOOK_NS: u64 = 5 * REFINE_FIRST_NS;

/// When the rate is measured for the last time, ns.
const REFINE_LAST_NS: u64 = 1_000_000_000_000;

/// A counter whose rate is found to have changed by more than one part in so many does not run evenly. It is looked for
/// only once the rate was measured over a tenth of a second, which is much better than that.
const DRIFT_SHARE: u64 = 500;

/// Nanoseconds in a second.
const NS_PER_S: u64 = 1_000_000_000;

/// Bits behind the point of a rate.
const RATE_SHIFT: u32 = 32;

/// Longest time the core's timer is set to at once, ns.
const TIMER_NS_MAX: u64 = 60 * NS_PER_S;

/// Least time the core's timer is set to, ns.
const TIMER_NS_MIN: u64 = 1000;

/// Alarms this far away are set a little early, and set again then: the timer's rate is only known so well.
const TIMER_EXACT_NS: u64 = 10_000_000;

/// How much earlier: one part in so many.
const TIMER_EARLY_SHARE: u64 = 256;

/// `now = ns + (counter - at) * rate`, written by one core and read by all.
struct Clock {
    /// Odd while being written.
    version: AtomicU32,
    /// Counter at the last change of rate.
    at: AtomicU64,
    /// Time at the last change of rate.
    ns: AtomicU64,
    /// Nanoseconds per count, [`RATE_SHIFT`] bits behind the point.
    rate: AtomicU64,
}

static CLOCK: Clock =
    Clock { version: AtomicU32::new(0), at: AtomicU64::new(0), ns: AtomicU64::new(0), rate: AtomicU64::new(0) };

/// When the rate is to be measured next, ns.
static REFINE_AT_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Ticks of a core's timer per nanosecond, [`RATE_SHIFT`] bits behind the point.
static TIMER_RATE: AtomicU64 = AtomicU64::new(0);

/// The reference, and its first reading.
static REFERENCE: Once<(TimerPort, Reading)> = Once::new();

/// Something that counts, and the counter, at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    value: u32,
    counter: u64,
}

/// Nanoseconds since the kernel was entered.
#[must_use]
#[inline]
pub fn now_ns() -> u64 {
    loop {
        let version = CLOCK.version.load(Ordering::Acquire);
        let (at, ns, rate) =
            (CLOCK.at.load(Ordering::Relaxed), CLOCK.ns.load(Ordering::Relaxed), CLOCK.rate.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if version & 1 == 0 && CLOCK.version.load(Ordering::Relaxed) == version {
            // Another core may have changed the rate after this one's counter was read.
            return ns + scale(counter().saturating_sub(at), rate);
        }
    }
}

/// The processor's counter, which [`now_ns`] is made of.
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    counter()
}

/// How long so many ticks of it take, ns.
#[must_use]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    scale(ticks, CLOCK.rate.load(Ordering::Relaxed))
}

/// Lets [`super::irq::take`] report the alarm once [`now_ns`] has reached `at_ns`; `None` for never. The core's former
/// alarm is forgotten, also if it went off and was not taken yet.
pub fn set_alarm(at_ns: Option<u64>) {
    let now = now_ns();
    if now >= REFINE_AT_NS.load(Ordering::Relaxed) {
        refine(now);
    }
    let at_ns = at_ns.unwrap_or(u64::MAX);
    let core = Core::current();
    if core.alarm_ns.swap(at_ns, Ordering::Relaxed) != at_ns {
        arm(at_ns, now);
    }
}

/// Whether the core's alarm is due; if it is not, the timer is set again. Runs in the timer's handler.
pub(super) fn alarm_is_due() -> bool {
    let core = Core::current();
    let at_ns = core.alarm_ns.load(Ordering::Relaxed);
    let now = now_ns();
    if now < at_ns {
        arm(at_ns, now);
        return false;
    }
    core.alarm_ns.store(u64::MAX, Ordering::Relaxed);
    true
}

/// Says what the clock counts with, and warns where that may not run evenly: where the processor does not promise it,
/// and is not emulated, in which case who emulates it counts with something that does.
pub(super) fn report() {
    let khz = (1_000_000_u128 << RATE_SHIFT) / u128::from(CLOCK.rate.load(Ordering::Relaxed).max(1));
    if features::has(features::INVARIANT_TSC) || features::has(features::HYPERVISED) {
        log::debug!("the time-stamp counter runs at {khz} kHz");
    } else {
        log::warn!("the time-stamp counter, now at {khz} kHz, may change its rate: no invariant TSC; times may drift");
    }
}

/// Starts the clock: `entered` is the counter when the kernel was entered. Also measures the core's timer.
pub(super) fn start(entered: u64, port: TimerPort) {
    apic::set_timer(u32::MAX);
    let timer_first = read(apic::timer_ticks_left);
    let first = read_reference(port);
    while elapsed(port, first, sample(|| port.read()).0) < FIRST_TICKS {}
    let last = read_reference(port);
    let timer_last = read(apic::timer_ticks_left);
    apic::set_timer(0);
    let ns = elapsed(port, first, last) * NS_PER_S / REFERENCE_HZ;
    let rate = (ns << RATE_SHIFT) / (last.counter - first.counter).max(1);
    publish(entered, 0, rate);
    let timer_ns = scale(timer_last.counter - timer_first.counter, rate);
    let timer_ticks = u64::from(timer_first.value.saturating_sub(timer_last.value));
    TIMER_RATE.store((timer_ticks << RATE_SHIFT) / timer_ns.max(1), Ordering::Relaxed);
    REFERENCE.call_once(|| (port, first));
    REFINE_AT_NS.store(REFINE_FIRST_NS, Ordering::Relaxed);
}

/// Measures the rate over all the time the kernel has run.
#[cold]
fn refine(now: u64) {
    static REFINING: Mutex<()> = Mutex::new(());
    let Some((port, first)) = REFERENCE.get() else { return };
    // Another core may have come first, and may be done.
    let Some(_only) = REFINING.try_lock() else { return };
    if now < REFINE_AT_NS.load(Ordering::Relaxed) {
        return;
    }
    let next = if now < REFINE_LAST_NS { now.saturating_mul(10) } else { u64::MAX };
    REFINE_AT_NS.store(next, Ordering::Relaxed);
    let last = read_reference(*port);
    let counts = last.counter - first.counter;
    // The reference has overflowed some times. The rate as known says how often, if it overflowed at all rarely enough
    // to tell half an overflow by.
    let rate = CLOCK.rate.load(Ordering::Relaxed);
    let period = u64::from(port.mask) + 1;
    let expected = u128::from(scale(counts, rate)) * u128::from(REFERENCE_HZ) / u128::from(NS_PER_S);
    let part = u64::from(last.value.wrapping_sub(first.value) & port.mask);
    let overflows = (expected as u64 + period / 2).saturating_sub(part) / period;
    let ticks = overflows * period + part;
    let exact = ((u128::from(ticks) * u128::from(NS_PER_S)) << RATE_SHIFT)
        / u128::from(REFERENCE_HZ)
        / u128::from(counts.max(1));
    // What is measured over longer times differs from the first measurement by its error only, unless the counter has
    // changed its rate meanwhile.
    if now > REFINE_LOOK_NS && exact.abs_diff(rate.into()) > u128::from(rate / DRIFT_SHARE) {
        log::warn!("the time-stamp counter has changed its rate: times are wrong by about a part in {DRIFT_SHARE}");
    }
    let at = counter();
    let ns = CLOCK.ns.load(Ordering::Relaxed) + scale(at - CLOCK.at.load(Ordering::Relaxed), rate);
    publish(at, ns, exact as u64);
}

/// Changes the clock.
fn publish(at: u64, ns: u64, rate: u64) {
    let version = CLOCK.version.load(Ordering::Relaxed);
    CLOCK.version.store(version.wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::Release);
    CLOCK.at.store(at, Ordering::Relaxed);
    CLOCK.ns.store(ns, Ordering::Relaxed);
    CLOCK.rate.store(rate, Ordering::Relaxed);
    CLOCK.version.store(version.wrapping_add(2), Ordering::Release);
}

/// Sets the core's timer for an alarm.
fn arm(at_ns: u64, now: u64) {
    if at_ns == u64::MAX {
        apic::set_timer(0);
        return;
    }
    let mut wait = at_ns.saturating_sub(now).clamp(TIMER_NS_MIN, TIMER_NS_MAX);
    if wait > TIMER_EXACT_NS {
        wait -= wait / TIMER_EARLY_SHARE;
    }
    let ticks = scale(wait, TIMER_RATE.load(Ordering::Relaxed)) + 1;
    apic::set_timer(u32::try_from(ticks).unwrap_or(u32::MAX));
}

/// Reads the reference.
fn read_reference(port: TimerPort) -> Reading {
    read(|| port.read())
}

/// Reads something and the counter at the same moment, as undisturbed as a few readings allow.
fn read(what: impl Fn() -> u32) -> Reading {
    let mut best = sample(&what);
    for _ in 1..READINGS {
        let next = sample(&what);
        if next.1 < best.1 {
            best = next;
        }
    }
    best.0
}

/// Reads something and the counter, and tells how many counts that took.
fn sample(what: impl Fn() -> u32) -> (Reading, u64) {
    let before = counter();
    let value = what();
    let counts = counter() - before;
    (Reading { value, counter: before + counts / 2 }, counts)
}

/// Ticks of the reference between two readings that are less than its period apart.
fn elapsed(port: TimerPort, first: Reading, last: Reading) -> u64 {
    u64::from(last.value.wrapping_sub(first.value) & port.mask)
}

/// The processor's counter. The processor may read it before what comes earlier has been done (SDM volume 2, RDTSC);
/// the clock's readers do without a fence, as what they compare with (an alarm, another core's word) is further away.
#[inline]
pub(super) fn counter() -> u64 {
    // SAFETY: the processor has the instruction; the kernel checks for it when it starts.
    unsafe { _rdtsc() }
}

/// Multiplies by a rate.
#[inline]
fn scale(value: u64, rate: u64) -> u64 {
    ((u128::from(value) * u128::from(rate)) >> RATE_SHIFT) as u64
}
