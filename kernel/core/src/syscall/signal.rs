//! Signals: dispositions, masks, and sending them to oneself.

use coppice_protocol::syscalls as nr;

use super::Arguments;
use super::abi::signal::{AlternateStack, SIGACTION_BYTES, SIGSET_BYTES, STACK_BYTES, SignalAction};
use super::abi::u64_at;
use crate::errno::Errno;
use crate::memory::limits::STACK_TOP;
use crate::process::signals::{Effect, SignalSet};
use crate::process::{Caller, Immediate};
use core::sync::atomic::Ordering;

/// rt_sigaction(2).
pub(super) fn rt_sigaction(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (signal, new, old) = (a.uint(0), a.get(1), a.get(2));
    if a.get(3) != SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let new = if new == 0 { None } else { Some(SignalAction::parse(&caller.get::<SIGACTION_BYTES>(new)?)) };
    let before = {
        let signals = caller.process.signals.lock();
        // Said before anything is written: whether the new one can be set.
        if new.is_some() {
            signals.check_settable(signal)?;
        }
        signals.action(signal)?
    };
    if old != 0 {
        caller.put(old, before.record().bytes())?;
    }
    if let Some(new) = new {
        caller.process.signals.lock().set_action(signal, new)?;
    }
    Ok(0)
}

/// rt_sigprocmask(2). `None`: a signal that was pending stops the process.
pub(super) fn rt_sigprocmask(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let effect = match change_mask(caller, a) {
        Ok(effect) => effect,
        Err(trouble) => return Some(Err(trouble)),
    };
    match effect {
        Effect::Nothing => Some(Ok(0)),
        Effect::End(end) => Some(Err(end.into())),
        Effect::Stop => None,
    }
}

fn change_mask(caller: Caller<'_>, a: &Arguments) -> Immediate<Effect> {
    const SIG_BLOCK: i32 = 0;
    const SIG_UNBLOCK: i32 = 1;
    const SIG_SETMASK: i32 = 2;
    if a.get(3) != SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let before = caller.blocked();
    let after = match a.get(1) {
        0 => before.0,
        address => {
            let set = u64_at(&caller.get::<SIGSET_BYTES>(address)?, 0);
            match a.int(0) {
                SIG_BLOCK => before.0 | set,
                SIG_UNBLOCK => before.0 & !set,
                SIG_SETMASK => set,
                _ => return Err(Errno::EINVAL.into()),
            }
        }
    };
    let after = SignalSet(after).blockable();
    if a.get(2) != 0 {
        caller.put(a.get(2), &before.0.to_le_bytes())?;
    }
    caller.thread.blocked.store(after.0, Ordering::Relaxed);
    Ok(caller.process.signals.lock().release(after))
}

/// rt_sigpending(2).
pub(super) fn rt_sigpending(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(1) > SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let pending = caller.process.signals.lock().pending().0.to_le_bytes();
    caller.put(a.get(0), &pending[..a.get(1) as usize])?;
    Ok(0)
}

/// sigaltstack(2).
pub(super) fn sigaltstack(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let new = match a.get(0) {
        0 => None,
        address => Some(check_stack(AlternateStack::parse(&caller.get::<STACK_BYTES>(address)?))?),
    };
    if a.get(1) != 0 {
        let before = *caller.thread.alternate_stack.lock();
        caller.put(a.get(1), before.record().bytes())?;
    }
    if let Some(new) = new {
        *caller.thread.alternate_stack.lock() = new;
    }
    Ok(0)
}

fn check_stack(stack: AlternateStack) -> Result<AlternateStack, Errno> {
    const SS_ONSTACK: u32 = 1;
    match stack.flags & !AlternateStack::AUTODISARM {
        AlternateStack::DISABLE => Ok(AlternateStack::NONE),
        0 | SS_ONSTACK if stack.bytes < AlternateStack::BYTES_MIN => Err(Errno::ENOMEM),
        0 | SS_ONSTACK if stack.address.checked_add(stack.bytes).is_none_or(|end| end > STACK_TOP) => {
            Err(Errno::ENOMEM)
        }
        0 | SS_ONSTACK => Ok(AlternateStack { flags: stack.flags & AlternateStack::AUTODISARM, ..stack }),
        _ => Err(Errno::EINVAL),
    }
}

/// kill(2), tkill(2), tgkill(2): to itself, there is nobody else. `None`: it stops itself.
pub(super) fn kill(caller: Caller<'_>, number: u32, a: &Arguments) -> Option<Immediate> {
    let effect = check_target(caller, number, a).and_then(|signal| {
        let blocked = caller.blocked();
        caller.process.signals.lock().send(signal, blocked)
    });
    match effect {
        Ok(Effect::Nothing) => Some(Ok(0)),
        Ok(Effect::End(end)) => Some(Err(end.into())),
        Ok(Effect::Stop) => None,
        Err(errno) => Some(Err(errno.into())),
    }
}

/// The signal, if it is for this process.
fn check_target(caller: Caller<'_>, number: u32, a: &Arguments) -> Result<u32, Errno> {
    let identity = &caller.process.identity;
    let is_own = |id: i32| u32::try_from(id).is_ok_and(|id| id == identity.pid);
    let (to_self, signal) = match number {
        nr::KILL => {
            let pid = a.int(0);
            // 0 is the own group, which has no other member; −1 everybody but oneself, who is nobody.
            (pid == 0 || is_own(pid) || pid < -1 && is_own(pid.wrapping_neg()), a.uint(1))
        }
        nr::TKILL if a.int(0) <= 0 => return Err(Errno::EINVAL),
        nr::TKILL => (is_own(a.int(0)), a.uint(1)),
        _ if a.int(0) <= 0 || a.int(1) <= 0 => return Err(Errno::EINVAL),
        _ => (is_own(a.int(0)) && is_own(a.int(1)), a.uint(2)),
    };
    if signal > crate::process::signals::SIGNAL_MAX {
        return Err(Errno::EINVAL);
    }
    if to_self { Ok(signal) } else { Err(Errno::ESRCH) }
}
