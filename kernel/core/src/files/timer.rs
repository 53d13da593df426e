//! timerfd_create(2): a timer that is read, and that can be waited for.
//!
//! How often it was up is worked out when somebody asks. An alarm of the executor tells those who wait; it is set again
//! when the timer is read or looked at, so the shortest period costs no more than its reader.

use alloc::sync::Arc;
use core::task::Waker;

use serde::{Deserialize, Serialize};

use super::readiness::{Ready, Watchers};
use super::stream::{Shape, Sink, Source, Stream, Taken};
use crate::abi::time::TimerSetting;
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Alarm};
use crate::limits::ALARM_BYTES;
use crate::quota::{Charge, Quota, shared_bytes};
use crate::sync::{LockLevel, Mutex};

/// Length of what is read, bytes.
const COUNT_BYTES: usize = 8;

/// See this module.
pub(crate) struct TimerFile {
    /// Times are those of day, or else those since boot.
    is_real: bool,
    state: Mutex<State>,
    watchers: Arc<Watchers>,
    _charge: Charge,
}

#[derive(Default)]
struct State {
    /// When it is up next, ns of the monotonic clock; 0: never.
    next_ns: u64,
    /// How long until it is up again, ns; 0: never.
    interval_ns: u64,
    /// How often it was up, as far as that was worked out and not read.
    count: u64,
    alarm: Option<Alarm>,
}

impl State {
    /// Counts how often it was up until now.
    fn advance(&mut self, now_ns: u64) {
        if self.next_ns == 0 || now_ns < self.next_ns {
            return;
        }
        let Some(periods) = (now_ns - self.next_ns).checked_div(self.interval_ns) else {
            (self.next_ns, self.count) = (0, self.count.saturating_add(1));
            return;
        };
        let times = periods.saturating_add(1);
        self.count = self.count.saturating_add(times);
        self.next_ns = self.next_ns.saturating_add(times.saturating_mul(self.interval_ns));
    }

    fn setting(&self, now_ns: u64) -> TimerSetting {
        let left_ns = if self.next_ns == 0 { 0 } else { self.next_ns.saturating_sub(now_ns).max(1) };
        TimerSetting { value_ns: left_ns, interval_ns: self.interval_ns }
    }
}

/// A timer as data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TimerRecord {
    is_real: bool,
    /// When it is up next, ns of the process's clock; 0: never.
    next_ns: u64,
    interval_ns: u64,
    count: u64,
    /// Those who wait were told that it was up, and nobody has looked since.
    told: bool,
}

impl TimerFile {
    /// What one takes of the heap beside its open file, bytes.
    const BYTES: usize = shared_bytes::<Watchers>() + Watchers::BYTES_FREE + ALARM_BYTES;

    /// One that is not set, of the time of day or of the time since boot.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(is_real: bool, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let charge = quota.charge(Self::BYTES)?;
        let state = Mutex::new(LockLevel::OpenFile, State::default());
        Ok(Self { is_real, state, watchers: Arc::new(Watchers::new(quota)), _charge: charge })
    }

    /// Whether its times are those of day.
    pub(crate) const fn is_of_day(&self) -> bool {
        self.is_real
    }

    /// Sets it, to a time if `absolute`: of day, or of the node's monotonic clock. Gives how it was set.
    pub(crate) fn set(&self, new: TimerSetting, absolute: bool) -> TimerSetting {
        let now_ns = clock::monotonic_ns();
        // A time of day is where it is now on the other clock: it does not follow a clock that is set.
        let shown_ns = if self.is_real { clock::realtime_ns() } else { now_ns };
        let in_ns = if absolute { new.value_ns.saturating_sub(shown_ns) } else { new.value_ns };
        let before = {
            let mut state = self.state.lock();
            state.advance(now_ns);
            let before = state.setting(now_ns);
            state.next_ns = if new.value_ns == 0 { 0 } else { now_ns.saturating_add(in_ns) };
            state.interval_ns = new.interval_ns;
            state.count = 0;
            self.rouse(&mut state);
            before
        };
        self.watchers.notify();
        before
    }

    /// How it is set.
    pub(crate) fn setting(&self) -> TimerSetting {
        let now_ns = clock::monotonic_ns();
        let mut state = self.state.lock();
        state.advance(now_ns);
        self.rouse(&mut state);
        state.setting(now_ns)
    }

    /// Writes it down; `of_node` says what the process's clock shows when the node's shows that, ns.
    pub(crate) fn record(&self, of_node: &dyn Fn(u64) -> u64) -> TimerRecord {
        let state = self.state.lock();
        let next_ns = if state.next_ns == 0 { 0 } else { of_node(state.next_ns).max(1) };
        let told = state.alarm.as_ref().is_none_or(Alarm::has_rung);
        TimerRecord { is_real: self.is_real, next_ns, interval_ns: state.interval_ns, count: state.count, told }
    }

    /// Makes it again; `on_node` is the other way round.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn again(record: &TimerRecord, on_node: &dyn Fn(u64) -> u64, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let timer = Self::new(record.is_real, quota)?;
        {
            let mut state = timer.state.lock();
            state.next_ns = if record.next_ns == 0 { 0 } else { on_node(record.next_ns).max(1) };
            (state.interval_ns, state.count) = (record.interval_ns, record.count);
            if !record.told {
                timer.rouse(&mut state);
            }
        }
        Ok(timer)
    }

    /// It is up so much later, ns, unless that was told already.
    pub(crate) fn put_off(&self, by_ns: u64) {
        let mut state = self.state.lock();
        if state.next_ns != 0 && state.alarm.as_ref().is_some_and(|alarm| !alarm.has_rung()) {
            state.next_ns = state.next_ns.saturating_add(by_ns);
            self.rouse(&mut state);
        }
    }

    /// Has those who wait told when it is up.
    fn rouse(&self, state: &mut State) {
        state.alarm = None;
        if state.next_ns != 0 {
            state.alarm = Some(executor::alarm(state.next_ns, Waker::from(Arc::clone(&self.watchers))));
        }
    }

    /// See [`super::OpenFile::settle`]: the alarm of a timer that is up rings, if it has not yet.
    pub(crate) fn settle(&self) -> bool {
        let late = {
            let mut state = self.state.lock();
            let is_late = state.next_ns != 0
                && state.alarm.as_ref().is_some_and(|alarm| !alarm.has_rung())
                && clock::monotonic_ns() >= state.next_ns;
            if is_late { state.alarm.take() } else { None }
        };
        if late.is_some() {
            self.watchers.notify();
        }
        late.is_some()
    }

    /// See [`super::OpenFile::ready`].
    pub(crate) fn ready(&self) -> Ready {
        let state = self.state.lock();
        let is_up = state.count > 0 || state.next_ns != 0 && clock::monotonic_ns() >= state.next_ns;
        if is_up { Ready::INPUT } else { Ready::empty() }
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.watchers.watch(waker)
    }
}

impl Stream for TimerFile {
    fn take(&self, limit: usize, _peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        if limit < COUNT_BYTES {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        state.advance(clock::monotonic_ns());
        if state.count == 0 {
            return Err(Errno::EAGAIN);
        }
        let copied = sink(&state.count.to_le_bytes());
        if copied == COUNT_BYTES {
            state.count = 0;
            self.rouse(&mut state);
        }
        Ok(Taken { copied, length: COUNT_BYTES })
    }

    fn put(&self, _length: usize, _source: &mut Source<'_>) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }

    fn shape(&self) -> Shape {
        Shape::Numbers
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::stream::Stream;
    use super::{Ready, TimerFile, TimerSetting};
    use crate::clock;
    use crate::errno::Errno;
    use crate::executor;
    use crate::quota::tests::quota;
    use crate::testing::WakeCounter;

    fn read(timer: &TimerFile) -> Result<u64, Errno> {
        let mut value = [0; 8];
        timer.take(8, false, &mut |part| {
            value.copy_from_slice(part);
            part.len()
        })?;
        Ok(u64::from_le_bytes(value))
    }

    #[test]
    fn it_counts_how_often_it_was_up() {
        let counted = executor::run_to_end(async {
            let timer = TimerFile::new(false, &quota()).expect("memory");
            assert_eq!((read(&timer), timer.ready()), (Err(Errno::EAGAIN), Ready::empty()));
            timer.set(TimerSetting { value_ns: 100, interval_ns: 50 }, false);
            executor::sleep(99).await;
            assert_eq!((read(&timer), timer.ready()), (Err(Errno::EAGAIN), Ready::empty()));
            executor::sleep(1).await;
            assert_eq!(timer.ready(), Ready::INPUT);
            executor::sleep(120).await;
            assert_eq!(timer.setting(), TimerSetting { value_ns: 30, interval_ns: 50 });
            assert_eq!((read(&timer), read(&timer)), (Ok(3), Err(Errno::EAGAIN)));
            executor::sleep(30).await;
            let all: Vec<_> = (0..2).map(|_| read(&timer)).collect();
            timer.set(TimerSetting { value_ns: clock::monotonic_ns() + 7, interval_ns: 0 }, true);
            executor::sleep(1000).await;
            assert_eq!((timer.ready(), timer.setting()), (Ready::INPUT, TimerSetting::default()));
            (all, read(&timer), timer.ready())
        });
        assert_eq!(counted, Ok(((Vec::from([Ok(1), Err(Errno::EAGAIN)])), Ok(1), Ready::empty())));
    }

    #[test]
    fn setting_it_forgets_what_was_counted() {
        let counted = executor::run_to_end(async {
            let timer = TimerFile::new(true, &quota()).expect("memory");
            timer.set(TimerSetting { value_ns: 1, interval_ns: 0 }, true);
            assert_eq!(timer.ready(), Ready::INPUT);
            let before = timer.set(TimerSetting { value_ns: 0, interval_ns: 3 }, false);
            (before, read(&timer), timer.setting())
        });
        let unset = TimerSetting { value_ns: 0, interval_ns: 3 };
        assert_eq!(counted, Ok((TimerSetting::default(), Err(Errno::EAGAIN), unset)));
    }

    /// Whether a timer that is made again from the record of this one tells those who watch it that it is up.
    fn is_told_again(timer: &TimerFile) -> impl Future<Output = bool> {
        let record = timer.record(&|ns| ns);
        async move {
            let again = TimerFile::again(&record, &|ns| ns, &quota()).expect("memory");
            assert_eq!(again.ready(), Ready::INPUT);
            let (counter, waker) = WakeCounter::new();
            again.watch(&waker).expect("memory");
            executor::sleep(1).await;
            counter.count() > 0
        }
    }

    #[test]
    fn what_nobody_was_told_yet_is_told_when_it_is_made_again() {
        let told = executor::run_to_end(async {
            let timer = TimerFile::new(false, &quota()).expect("memory");
            // It is up, and its alarm has not rung, for nobody has looked at the alarms.
            timer.set(TimerSetting { value_ns: clock::monotonic_ns(), interval_ns: 0 }, true);
            let before = is_told_again(&timer).await;
            executor::sleep(10).await;
            (before, is_told_again(&timer).await)
        });
        assert_eq!(told, Ok((true, false)));
    }

    #[test]
    fn a_late_alarm_rings_once_for_those_who_wait_already() {
        let told = executor::run_to_end(async {
            let timer = TimerFile::new(false, &quota()).expect("memory");
            let (before, waker) = WakeCounter::new();
            timer.watch(&waker).expect("memory");
            timer.set(TimerSetting { value_ns: 5, interval_ns: 0 }, false);
            // Setting it woke that one.
            timer.watch(&waker).expect("memory");
            let early = timer.settle();
            timer.set(TimerSetting { value_ns: clock::monotonic_ns(), interval_ns: 0 }, true);
            timer.watch(&waker).expect("memory");
            let late = (timer.settle(), timer.settle());
            let (after, waker) = WakeCounter::new();
            timer.watch(&waker).expect("memory");
            executor::sleep(10).await;
            (early, late, before.count(), after.count(), timer.ready())
        });
        assert_eq!(told, Ok((false, (true, false), 3, 0, Ready::INPUT)));
    }

    #[test]
    fn it_is_not_written_and_not_read_in_parts() {
        let timer = TimerFile::new(false, &quota()).expect("memory");
        assert_eq!(timer.take(7, false, &mut |_| 0).err(), Some(Errno::EINVAL));
        assert_eq!(timer.put(8, &mut |_| 0), Err(Errno::EINVAL));
    }
}
