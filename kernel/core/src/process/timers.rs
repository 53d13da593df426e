//! Timers that send the process signals: those of setitimer(2) and those of timer_create(2).
//!
//! One task of the kernel, on the boot core, sleeps until the first of them is up. It is started when a timer is set
//! for the first time, and gone before the end of the process is reported. A timer whose signal is still pending is not
//! looked at until that is taken; then it is known how often it was up meanwhile. So however short its period, a timer
//! costs no more than the handlers it runs.
//!
//! Nothing happens when a process has used so much of the processor. So timers of processor time are looked at as soon
//! as they could be up if all threads run, and again if they are not.

pub(crate) mod record;

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{SIGALRM, SIGKILL, SIGPROF, SIGVTALRM, SIGXCPU};
use crate::abi::time::TimerSetting;
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Notify, TaskHandle};
use crate::limits::{PROCESSOR_TIMER_NS_MIN, TIMER_BYTES, TIMERS_MAX};
use crate::process::Process;
use crate::process::signals::{Delivery, Outcome, Target};
use crate::quota::{Charge, Quota};
use crate::sync::{LockLevel, Mutex};

/// By what a timer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TimerClock {
    /// The time of day.
    Real,
    /// Time since boot.
    Monotonic,
    /// Time that the process had the processor.
    Process,
    /// Time that a thread had the processor.
    Thread(u32),
}

impl TimerClock {
    /// What it shows, ns; `None`: its thread is gone.
    pub(crate) fn now_ns(self, process: &Process) -> Option<u64> {
        match self {
            Self::Real => Some(clock::realtime_ns()),
            Self::Monotonic => Some(process.clock.now_ns()),
            Self::Process => Some(process.threads.cpu_ns()),
            Self::Thread(id) => process.threads.find(id).map(|thread| thread.clock.ns()),
        }
    }

    /// How long it takes at least until it shows `left_ns` more, ns.
    pub(crate) fn earliest_ns(self, process: &Process, left_ns: u64) -> u64 {
        match self {
            Self::Real | Self::Monotonic => left_ns,
            Self::Process => (left_ns / process.threads.all().len().max(1) as u64).max(PROCESSOR_TIMER_NS_MIN),
            Self::Thread(_) => left_ns.max(PROCESSOR_TIMER_NS_MIN),
        }
    }
}

/// The core that the kernel's own tasks run on, also those that end processes.
const BOOT_CORE: usize = 0;

/// Which timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum TimerName {
    /// One of setitimer(2)'s: `ITIMER_REAL` (0), `_VIRTUAL` (1), `_PROF` (2); or of [`PROCESSOR_LIMITS`].
    Interval(u8),
    /// One of timer_create(2)'s.
    Made(u32),
}

/// The timers of setitimer(2) with their clocks and signals, and those of [`PROCESSOR_LIMITS`]. Time in the kernel is
/// not told from the program's own.
const INTERVAL_TIMERS: [(TimerClock, u32); 5] = [
    (TimerClock::Monotonic, SIGALRM),
    (TimerClock::Process, SIGVTALRM),
    (TimerClock::Process, SIGPROF),
    (TimerClock::Process, SIGXCPU),
    (TimerClock::Process, SIGKILL),
];

/// The timers that enforce the soft and the hard limit of processor time.
pub(crate) const PROCESSOR_LIMITS: [TimerName; 2] = [TimerName::Interval(3), TimerName::Interval(4)];

/// A timer.
struct Timer {
    clock: TimerClock,
    /// What it sends; `None`: nothing.
    sends: Option<(Target, SignalInfo)>,
    /// When it is up, ns of its clock; 0: never.
    next_ns: u64,
    interval_ns: u64,
    /// It was up, and its signal is pending.
    is_pending: bool,
    /// How often it was up between its last signal that was taken and the one before, without that one.
    overruns: u32,
    /// What it is charged with, its signal included. Those that every process has are among what that is charged with.
    _charge: Option<Charge>,
}

impl Timer {
    const fn new(clock: TimerClock, sends: Option<(Target, SignalInfo)>, charge: Option<Charge>) -> Self {
        Self { clock, sends, next_ns: 0, interval_ns: 0, is_pending: false, overruns: 0, _charge: charge }
    }

    /// Its signal was taken, or was none: goes on behind `now_ns`.
    fn go_on(&mut self, now_ns: u64) {
        self.is_pending = false;
        if self.next_ns == 0 {
            self.overruns = 0;
        } else if self.interval_ns == 0 {
            (self.next_ns, self.overruns) = (0, 0);
        } else if let Some(late_ns) = now_ns.checked_sub(self.next_ns) {
            let missed = late_ns / self.interval_ns;
            self.overruns = u32::try_from(missed).unwrap_or(u32::MAX).min(i32::MAX as u32);
            self.next_ns = self.next_ns.saturating_add((missed + 1).saturating_mul(self.interval_ns));
        }
    }

    fn setting(&self, process: &Process) -> TimerSetting {
        let now_ns = self.clock.now_ns(process).unwrap_or(0);
        let is_set = self.next_ns != 0 && !(self.is_pending && self.interval_ns == 0);
        let late_ns = now_ns.saturating_sub(self.next_ns);
        let left_ns = match late_ns.checked_rem(self.interval_ns) {
            // One that is pending is up again at the end of the period.
            Some(into_ns) if self.is_pending => self.interval_ns - into_ns,
            _ => self.next_ns.saturating_sub(now_ns).max(1),
        };
        TimerSetting { value_ns: if is_set { left_ns } else { 0 }, interval_ns: self.interval_ns }
    }
}

/// The timers of a process.
pub(crate) struct Timers {
    state: Mutex<State>,
    changed: Arc<Notify>,
}

struct State {
    timers: BTreeMap<TimerName, Timer>,
    next_id: u32,
    task: Option<TaskHandle>,
}

/// A timer that is up, and what it sends.
type Due = (TimerName, Option<(Target, SignalInfo)>);

/// The timer that may have sent a signal.
fn sender(info: &SignalInfo) -> Option<TimerName> {
    if let Some(id) = info.timer_id() {
        return Some(TimerName::Made(id));
    }
    let index = INTERVAL_TIMERS.iter().position(|(_, signal)| *signal == info.signal)?;
    Some(TimerName::Interval(index as u8))
}

impl Timers {
    /// None is set.
    pub(crate) fn new() -> Self {
        let interval = |(index, (clock, signal)): (usize, &(TimerClock, u32))| {
            let timer = Timer::new(*clock, Some((Target::Process, SignalInfo::kernel(*signal))), None);
            (TimerName::Interval(index as u8), timer)
        };
        let timers = INTERVAL_TIMERS.iter().enumerate().map(interval).collect();
        Self {
            state: Mutex::new(LockLevel::ProcessTimers, State { timers, next_id: 0, task: None }),
            changed: Arc::default(),
        }
    }

    /// Makes a timer that sends this (nothing, if `None`), given its id. Gives the id.
    ///
    /// # Errors
    /// `EAGAIN`: there are [`TIMERS_MAX`], or there is no memory for one more.
    pub(crate) fn make(
        &self,
        clock: TimerClock,
        quota: &Arc<Quota>,
        sends: impl FnOnce(u32) -> Option<(Target, SignalInfo)>,
    ) -> Result<u32, Errno> {
        let charge = quota.charge(TIMER_BYTES).map_err(|_| Errno::EAGAIN)?;
        let mut state = self.state.lock();
        if state.timers.len() >= TIMERS_MAX + INTERVAL_TIMERS.len() {
            return Err(Errno::EAGAIN);
        }
        let mut id = state.next_id;
        while state.timers.contains_key(&TimerName::Made(id)) {
            id = (id + 1) & i32::MAX.cast_unsigned();
        }
        state.next_id = (id + 1) & i32::MAX.cast_unsigned();
        state.timers.insert(TimerName::Made(id), Timer::new(clock, sends(id), Some(charge)));
        Ok(id)
    }

    /// Forgets a timer.
    ///
    /// # Errors
    /// `EINVAL`: there is none.
    pub(crate) fn delete(&self, name: TimerName) -> Result<(), Errno> {
        self.state.lock().timers.remove(&name).map(drop).ok_or(Errno::EINVAL)
    }

    /// Sets a timer, to a time of its clock if `absolute`. Gives how it was set.
    ///
    /// # Errors
    /// `EINVAL`: there is none. `EAGAIN`: there is no task for it.
    pub(crate) fn set(
        &self,
        process: &Process,
        name: TimerName,
        new: TimerSetting,
        absolute: bool,
    ) -> Result<TimerSetting, Errno> {
        if new.value_ns != 0 {
            self.start(process)?;
        }
        let before = {
            let mut state = self.state.lock();
            let timer = state.timers.get_mut(&name).ok_or(Errno::EINVAL)?;
            let before = timer.setting(process);
            let from_ns = if absolute { 0 } else { timer.clock.now_ns(process).unwrap_or(0) };
            // One that sends nothing goes on telling when it would have been up, as on Linux.
            let tells = timer.sends.is_none() && matches!(timer.clock, TimerClock::Real | TimerClock::Monotonic);
            timer.next_ns = match new.value_ns {
                0 if tells => timer.next_ns,
                0 => 0,
                value_ns => from_ns.saturating_add(value_ns),
            };
            // One that is made and switched off has no period either, as on Linux.
            let is_off = new.value_ns == 0 && matches!(name, TimerName::Made(_) | TimerName::Interval(0));
            timer.interval_ns = if is_off { 0 } else { new.interval_ns };
            timer.is_pending = false;
            before
        };
        self.changed.notify();
        Ok(before)
    }

    /// How a timer is set.
    ///
    /// # Errors
    /// `EINVAL`: there is none.
    pub(crate) fn setting(&self, process: &Process, name: TimerName) -> Result<TimerSetting, Errno> {
        let state = self.state.lock();
        state.timers.get(&name).map(|timer| timer.setting(process)).ok_or(Errno::EINVAL)
    }

    /// How often a timer was up before its last signal was taken, without the time that sent it.
    ///
    /// # Errors
    /// `EINVAL`: there is none.
    pub(crate) fn overruns(&self, name: TimerName) -> Result<u32, Errno> {
        self.state.lock().timers.get(&name).map(|timer| timer.overruns).ok_or(Errno::EINVAL)
    }

    /// A signal is about to run its handler.
    pub(crate) fn noticed(&self, process: &Process, delivery: Delivery) -> Delivery {
        Delivery { info: self.taken(process, delivery.info), ..delivery }
    }

    /// A signal was taken. If a timer sent it, gives it with what there is to say of the timer.
    pub(crate) fn taken(&self, process: &Process, info: SignalInfo) -> SignalInfo {
        let Some(name) = sender(&info) else { return info };
        let mut state = self.state.lock();
        let Some(timer) = state.timers.get_mut(&name).filter(|timer| timer.is_pending) else { return info };
        timer.go_on(timer.clock.now_ns(process).unwrap_or(0));
        let overruns = timer.overruns;
        drop(state);
        self.changed.notify();
        if info.timer_id().is_some() { info.with_overruns(overruns) } else { info }
    }

    /// Pending signals of this number were forgotten.
    pub(crate) fn forgotten(&self, process: &Process, signal: u32) {
        let mut state = self.state.lock();
        let of_signal = |timer: &&mut Timer| timer.sends.is_some_and(|(_, info)| info.signal == signal);
        for timer in state.timers.values_mut().filter(of_signal).filter(|timer| timer.is_pending) {
            timer.go_on(timer.clock.now_ns(process).unwrap_or(0));
        }
        drop(state);
        self.changed.notify();
    }

    /// None is up from now on, of a process whose threads are no more. To be called on the boot core.
    pub(crate) fn pause(&self) {
        let task = self.state.lock().task.take();
        if let Some(task) = task {
            task.abort();
        }
    }

    /// No timer is ever up again. To be called on the boot core, when no thread is left.
    pub(crate) fn stop(&self) {
        self.pause();
        let timers = core::mem::take(&mut self.state.lock().timers);
        drop(timers);
    }

    /// Sees to it that there is a task.
    fn start(&self, process: &Process) -> Result<(), Errno> {
        if self.state.lock().task.is_some() {
            return Ok(());
        }
        let known = process.job.processes().into_iter().find(|known| core::ptr::eq(Arc::as_ptr(known), process));
        let process = known.as_ref().map(Arc::downgrade).ok_or(Errno::EAGAIN)?;
        let mut state = self.state.lock();
        // Another thread may have been quicker.
        if state.task.is_none() {
            let task = executor::spawn_on(BOOT_CORE, watch(process, Arc::clone(&self.changed)));
            state.task = Some(task.map_err(|_| Errno::EAGAIN)?);
        }
        Ok(())
    }

    /// Sends the signals of all timers that are up. Gives when the next one may be, ns of the monotonic clock.
    fn ring(&self, process: &Process) -> u64 {
        let (due, mut next_ns) = self.due(process);
        for (name, sends) in due {
            let outcome = sends.map(|(target, info)| process.signals.lock().send(target, info));
            match outcome {
                Some(Ok(outcome @ (Outcome::Nothing | Outcome::Call(_) | Outcome::CallAll | Outcome::End(_)))) => {
                    process.act(outcome);
                }
                // Nobody will take it.
                Some(Ok(Outcome::Ignored) | Err(_)) | None => {
                    next_ns = next_ns.min(self.go_on_unheard(process, name));
                }
            }
        }
        next_ns
    }

    /// The timers that are up, with what they send, and when the next one may be.
    fn due(&self, process: &Process) -> (Vec<Due>, u64) {
        let mut next_ns = u64::MAX;
        let mut due = Vec::new();
        for (name, timer) in &mut self.state.lock().timers {
            if timer.next_ns == 0 || timer.is_pending {
                continue;
            }
            let Some(now_ns) = timer.clock.now_ns(process) else {
                timer.next_ns = 0;
                continue;
            };
            match timer.next_ns.checked_sub(now_ns) {
                None | Some(0) => {
                    timer.is_pending = true;
                    due.push((*name, timer.sends));
                }
                Some(left_ns) => next_ns = next_ns.min(from_now(timer.clock.earliest_ns(process, left_ns))),
            }
        }
        (due, next_ns)
    }

    /// A timer goes on whose signal nobody takes, but not all the time. Gives when it may be up.
    fn go_on_unheard(&self, process: &Process, name: TimerName) -> u64 {
        let mut state = self.state.lock();
        let Some(timer) = state.timers.get_mut(&name) else { return u64::MAX };
        let now_ns = timer.clock.now_ns(process).unwrap_or(0);
        timer.go_on(now_ns);
        if timer.next_ns == 0 {
            return u64::MAX;
        }
        from_now(timer.clock.earliest_ns(process, timer.next_ns.saturating_sub(now_ns)).max(PROCESSOR_TIMER_NS_MIN))
    }
}

fn from_now(duration_ns: u64) -> u64 {
    clock::monotonic_ns().saturating_add(duration_ns)
}

/// Rings the timers of a process as long as there is one.
async fn watch(process: Weak<Process>, changed: Arc<Notify>) {
    loop {
        let next_ns = match process.upgrade() {
            Some(process) => process.timers.ring(&process),
            None => return,
        };
        let _ = executor::timeout_at(next_ns, changed.notified()).await;
    }
}
