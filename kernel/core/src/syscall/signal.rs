//! Signals: dispositions, masks, alternate stacks.

use super::Arguments;
use crate::abi::signal::{AlternateStack, SIGACTION_BYTES, SIGSET_BYTES, STACK_BYTES, SignalAction};
use crate::abi::signal_set::SignalSet;
use crate::abi::u64_at;
use crate::errno::Errno;
use crate::memory::limits::STACK_TOP;
use crate::process::{Awaited, Caller, Immediate};
use coppice_hal::user::Registers;

/// rt_sigaction(2).
pub(super) fn rt_sigaction(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (signal, new, old) = (a.uint(0), a.get(1), a.get(2));
    if a.get(3) != SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let new = match new {
        0 => None,
        address => {
            let mut action = SignalAction::parse(&caller.get::<SIGACTION_BYTES>(address)?);
            action.mask = SignalSet(action.mask).blockable().0;
            Some(action)
        }
    };
    let before = caller.process.signals.lock().action(signal)?;
    if new.is_some() {
        caller.process.signals.lock().check_settable(signal)?;
    }
    if old != 0 {
        caller.put(old, before.record().bytes())?;
    }
    if let Some(new) = new {
        let is_pending = caller.process.signals.lock().set_action(signal, new)?;
        if !is_pending {
            caller.process.timers.forgotten(caller.process, signal);
        }
    }
    Ok(0)
}

/// rt_sigprocmask(2).
pub(super) fn rt_sigprocmask(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const SIG_BLOCK: i32 = 0;
    const SIG_UNBLOCK: i32 = 1;
    const SIG_SETMASK: i32 = 2;
    if a.get(3) != SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let before = caller.blocked();
    let after = match a.get(1) {
        0 => None,
        address => {
            let set = u64_at(&caller.get::<SIGSET_BYTES>(address)?, 0);
            Some(match a.int(0) {
                SIG_BLOCK => before.0 | set,
                SIG_UNBLOCK => before.0 & !set,
                SIG_SETMASK => set,
                _ => return Err(Errno::EINVAL.into()),
            })
        }
    };
    if a.get(2) != 0 {
        caller.put(a.get(2), &before.0.to_le_bytes())?;
    }
    if let Some(after) = after {
        let called = caller.process.signals.lock().set_blocked(caller.thread.tid, SignalSet(after));
        caller.process.call_threads(called);
    }
    Ok(0)
}

/// rt_sigpending(2).
pub(super) fn rt_sigpending(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(1) > SIGSET_BYTES as u64 {
        return Err(Errno::EINVAL.into());
    }
    let pending = {
        let signals = caller.process.signals.lock();
        signals.pending(caller.thread.tid).and(signals.blocked(caller.thread.tid))
    };
    caller.put(a.get(0), &pending.0.to_le_bytes()[..a.get(1) as usize])?;
    Ok(0)
}

/// sigaltstack(2).
pub(super) fn sigaltstack(caller: Caller<'_>, regs: &Registers) -> Immediate {
    let (new, old) = (regs.rdi, regs.rsi);
    let before = caller.process.signals.lock().stack(caller.thread.tid);
    let new = match new {
        0 => None,
        address => {
            let new = AlternateStack::parse(&caller.get::<STACK_BYTES>(address)?);
            if before.is_used(regs.rsp) {
                return Err(Errno::EPERM.into());
            }
            Some(check_stack(new)?)
        }
    };
    if old != 0 {
        let state = match before.bytes {
            0 => AlternateStack::DISABLE,
            _ if before.is_used(regs.rsp) => AlternateStack::ONSTACK,
            _ => 0,
        };
        let told = AlternateStack { flags: state | before.flags & AlternateStack::AUTODISARM, ..before };
        caller.put(old, told.record().bytes())?;
    }
    if let Some(new) = new {
        caller.process.signals.lock().set_stack(caller.thread.tid, new);
    }
    Ok(0)
}

/// The stack as it is kept.
///
/// # Errors
/// `ENOMEM`: it is too small, or not the program's. `EINVAL`: a mode that there is not.
pub(crate) fn check_stack(stack: AlternateStack) -> Result<AlternateStack, Errno> {
    match stack.flags & !AlternateStack::AUTODISARM {
        AlternateStack::DISABLE => Ok(AlternateStack { flags: stack.flags, ..AlternateStack::NONE }),
        0 | AlternateStack::ONSTACK if stack.bytes < AlternateStack::BYTES_MIN => Err(Errno::ENOMEM),
        0 | AlternateStack::ONSTACK if stack.address.checked_add(stack.bytes).is_none_or(|end| end > STACK_TOP) => {
            Err(Errno::ENOMEM)
        }
        0 | AlternateStack::ONSTACK => Ok(stack),
        _ => Err(Errno::EINVAL),
    }
}

/// The signal set that a call is given, if it is given one of the right length.
///
/// # Errors
/// `EINVAL`: its length. `EFAULT`.
pub(super) async fn read_mask(caller: Caller<'_>, address: u64, bytes: u64) -> Awaited<Option<SignalSet>> {
    match address {
        0 => Ok(None),
        _ if bytes != SIGSET_BYTES as u64 => Err(Errno::EINVAL.into()),
        _ => Ok(Some(SignalSet(u64::from_le_bytes(caller.read_array(address).await?)))),
    }
}
