//! Waiting for signals.

use core::future::{pending, poll_fn};
use core::pin::pin;
use core::task::Poll;

use coppice_protocol::syscalls as nr;

use super::Arguments;
use super::signal::read_mask;
use crate::abi::signal::SIGSET_BYTES;
use crate::abi::signal_set::SignalSet;
use crate::abi::time::parse_timespec;
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Phase};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure};

/// pause(2), rt_sigsuspend(2).
pub(super) async fn suspend(caller: Caller<'_>, number: u32, a: &Arguments) -> Awaited {
    let mask = match number {
        nr::RT_SIGSUSPEND if a.get(1) != SIGSET_BYTES as u64 => return Err(Errno::EINVAL.into()),
        nr::RT_SIGSUSPEND => Some(SignalSet(u64::from_le_bytes(caller.read_array(a.get(0)).await?))),
        _ => None,
    };
    caller.with_mask(mask, pin!(caller.interruptible(Phase::Sleep, Patience::Limited, pending()))).await
}

/// rt_sigtimedwait(2).
pub(super) async fn rt_sigtimedwait(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let wanted = match read_mask(caller, a.get(0), a.get(3)).await? {
        Some(wanted) => wanted.blockable(),
        None => return Err(Errno::EFAULT.into()),
    };
    let deadline_ns = match a.get(2) {
        0 => u64::MAX,
        address => {
            let timeout_ns = parse_timespec(&caller.read_array(address).await?)?;
            caller.deadline_ns(|| clock::monotonic_ns().saturating_add(timeout_ns))
        }
    };
    let awaits = Awaits::start(caller, wanted);
    // The thread is woken for any signal that it is to look at.
    let taken = poll_fn(|_| match caller.process.signals.lock().take(caller.thread.tid, wanted) {
        Some(info) => Poll::Ready(info),
        None => Poll::Pending,
    });
    let taken = executor::timeout_at(deadline_ns, taken);
    let taken = caller.interruptible(Phase::Sleep, Patience::Limited, taken).await;
    // A call that is taken up again goes on as it was.
    if matches!(taken, Err(Failure::Held)) {
        core::mem::forget(awaits);
    } else {
        drop(awaits);
    }
    let Ok(info) = taken? else { return Err(Errno::EAGAIN.into()) };
    caller.thread.deeds.signal();
    let info = caller.process.timers.taken(caller.process, info);
    if a.get(1) != 0 {
        caller.write(a.get(1), info.record().bytes()).await?;
    }
    Ok(info.signal.into())
}

/// Says which signals the thread waits for, as long as it does.
struct Awaits<'a>(Caller<'a>);

impl<'a> Awaits<'a> {
    fn start(caller: Caller<'a>, wanted: SignalSet) -> Self {
        let called = caller.process.signals.lock().set_awaited(caller.thread.tid, wanted);
        caller.process.call_threads(called);
        Self(caller)
    }
}

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        let called = self.0.process.signals.lock().set_awaited(self.0.thread.tid, SignalSet::NONE);
        self.0.process.call_threads(called);
    }
}
