//! Timers that are read: timerfd_create(2) and its like.

use alloc::sync::Arc;

use super::Arguments;
use super::pipe::install;
use super::time::Clock;
use super::timers::{itimerspec, parse_itimerspec};
use crate::errno::Errno;
use crate::files::{Object, OpenFile, TimerFile, flags};
use crate::process::{Caller, Immediate};

/// timerfd_create(2), of clocks that can wake nobody from sleep: the others are not for users.
pub(super) fn create(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const CLOCK_REALTIME: i32 = 0;
    const CLOCK_MONOTONIC: i32 = 1;
    const CLOCK_BOOTTIME: i32 = 7;
    const CLOCK_REALTIME_ALARM: i32 = 8;
    const CLOCK_BOOTTIME_ALARM: i32 = 9;
    if a.uint(1) & !(flags::O_CLOEXEC | flags::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let clock = match a.int(0) {
        CLOCK_REALTIME | CLOCK_MONOTONIC | CLOCK_BOOTTIME => Clock::of(caller, a.int(0))?,
        CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EINVAL.into()),
    };
    let timer = TimerFile::new(clock == Clock::Real, &caller.process.node.quota)?;
    let number = install(caller, Object::Timer(timer), a.uint(1) | flags::O_RDWR)?;
    Ok(number.cast_unsigned().into())
}

fn find(caller: Caller<'_>, a: &Arguments) -> Result<Arc<OpenFile>, Errno> {
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() {
        return Err(Errno::EBADF);
    }
    if matches!(file.object, Object::Timer(_)) { Ok(file) } else { Err(Errno::EINVAL) }
}

/// timerfd_settime(2). That the clock was set ("cancel on set") is not told: it never is.
pub(super) fn settime(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const TFD_TIMER_ABSTIME: u32 = 1;
    const TFD_TIMER_CANCEL_ON_SET: u32 = 2;
    let new = caller.get(a.get(2))?;
    if a.uint(1) & !(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut new = parse_itimerspec(&new)?;
    let file = find(caller, a)?;
    let Object::Timer(timer) = &file.object else { return Err(Errno::EINVAL.into()) };
    if a.get(3) != 0 {
        caller.put(a.get(3), itimerspec(timer.setting()).bytes())?;
    }
    let is_absolute = a.uint(1) & TFD_TIMER_ABSTIME != 0;
    // Zero means never.
    if is_absolute && !timer.is_of_day() && new.value_ns != 0 {
        new.value_ns = caller.process.clock.on_node(new.value_ns).max(1);
    }
    timer.set(new, is_absolute);
    Ok(0)
}

/// timerfd_gettime(2).
pub(super) fn gettime(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a)?;
    let Object::Timer(timer) = &file.object else { return Err(Errno::EINVAL.into()) };
    caller.put(a.get(1), itimerspec(timer.setting()).bytes())?;
    Ok(0)
}
