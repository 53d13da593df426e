//! Signals that are read: signalfd(2), and the reading.

use super::Arguments;
use super::pipe::install;
use super::ranges::Ranges;
use crate::abi::signal::{SIGNALFD_BYTES, SIGSET_BYTES};
use crate::abi::signal_set::SignalSet;
use crate::abi::u64_at;
use crate::errno::Errno;
use crate::executor::Phase;
use crate::files::readiness::until_watched;
use crate::files::{Object, OpenFile, SignalFile, flags};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure, Immediate};

/// signalfd(2).
pub(super) fn signalfd(caller: Caller<'_>, a: &Arguments) -> Immediate {
    make(caller, a, 0)
}

/// signalfd4(2).
pub(super) fn signalfd4(caller: Caller<'_>, a: &Arguments) -> Immediate {
    make(caller, a, a.uint(3))
}

fn make(caller: Caller<'_>, a: &Arguments, how: u32) -> Immediate {
    if a.get(2) != SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let wanted = SignalSet(u64_at(&caller.get::<SIGSET_BYTES>(a.get(1))?, 0)).blockable();
    if how & !(flags::O_CLOEXEC | flags::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if a.int(0) != -1 {
        let file = caller.process.files.lock().get(a.int(0))?;
        let Object::Signals(signals) = &file.object else { return Err(Errno::EINVAL.into()) };
        signals.set_wanted(wanted);
        return Ok(a.uint(0).into());
    }
    let quota = &caller.process.node.quota;
    let board = caller.process.signals.lock().board(quota);
    let signals = SignalFile::new(wanted, board);
    let number = install(caller, Object::Signals(signals), how | flags::O_RDWR)?;
    Ok(number.cast_unsigned().into())
}

/// Reads signals: those that are pending, as many as there is room for, or waits for one.
pub(super) async fn read(caller: Caller<'_>, file: &OpenFile, signals: &SignalFile, ranges: &mut Ranges) -> Awaited {
    if ranges.left() < SIGNALFD_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let take = || caller.process.signals.lock().take(caller.thread.tid, signals.wanted());
    let mut done = 0;
    while ranges.left() >= SIGNALFD_BYTES as u64 {
        // What was taken must not be lost for a page that is to be fetched.
        match ranges.make_ready(caller, SIGNALFD_BYTES).await {
            Err(Failure::Errno(_)) if done > 0 => break,
            ready => ready?,
        }
        let info = match take() {
            Some(info) => info,
            None if done > 0 => break,
            None if file.is_nonblocking() => return Err(Errno::EAGAIN.into()),
            None => {
                let waiting = until_watched(|waker| signals.watch(waker), take);
                caller.interruptible(Phase::Sleep, Patience::Endless, waiting).await??
            }
        };
        caller.thread.deeds.signal();
        let info = caller.process.timers.taken(caller.process, info);
        let (copied, result) = ranges.put(caller, info.read_record().bytes());
        result?;
        done += copied as u64;
        caller.completed(done);
    }
    Ok(done)
}
