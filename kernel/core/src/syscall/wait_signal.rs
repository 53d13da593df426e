//! Waiting for a signal that nobody can send: for ever, that is until the job is killed, unless there is a time limit
//! or a signal is pending already.

use coppice_protocol::syscalls as nr;

use super::Arguments;
use super::abi::signal::{SIGSET_BYTES, siginfo};
use super::abi::time::parse_timespec;
use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::process::signals::{Effect, SignalSet};
use crate::process::{Awaited, Caller};

/// The process is stopped and nobody continues it.
pub(super) async fn stop() -> Awaited {
    core::future::pending().await
}

/// pause(2), rt_sigsuspend(2).
pub(super) async fn suspend(caller: Caller<'_>, number: u32, a: &Arguments) -> Awaited {
    if number == nr::RT_SIGSUSPEND {
        if a.get(1) != SIGSET_BYTES as u64 {
            return Err(Errno::EINVAL.into());
        }
        let mask = SignalSet(u64::from_le_bytes(caller.read_array(a.get(0)).await?));
        let effect = caller.process.signals.lock().release(mask);
        if let Effect::End(end) = effect {
            return Err(end.into());
        }
    }
    core::future::pending().await
}

/// rt_sigtimedwait(2).
pub(super) async fn rt_sigtimedwait(caller: Caller<'_>, a: &Arguments) -> Awaited {
    /// `SI_TKILL`: a thread sent it.
    const SI_TKILL: i32 = -6;
    if a.get(3) != SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let wanted = SignalSet(u64::from_le_bytes(caller.read_array(a.get(0)).await?)).blockable();
    let deadline_ns = match a.get(2) {
        0 => u64::MAX,
        address => {
            let timeout_ns = parse_timespec(&caller.read_array(address).await?)?;
            clock::monotonic_ns().saturating_add(timeout_ns)
        }
    };
    let taken = caller.process.signals.lock().take(wanted);
    match taken {
        Some(signal) => {
            if a.get(1) != 0 {
                let identity = &caller.process.identity;
                caller.write(a.get(1), siginfo(signal, SI_TKILL, identity.pid, identity.user).bytes()).await?;
            }
            Ok(signal.into())
        }
        None => {
            executor::sleep_until(deadline_ns).await;
            Err(Errno::EAGAIN.into())
        }
    }
}
