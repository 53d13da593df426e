//! Locks of files at the I/O node, which knows those of all ranks there. A process changes one at a time, so that it
//! knows what it has; whoever waits for another's lock keeps nobody from that.

use alloc::vec::Vec;

use coppice_protocol::lock::{Asked, Span, Whose};
use coppice_protocol::ship::{Call, Handle, Reply};

use super::{F_UNLCK, Found, Wanted};
use crate::errno::Errno;
use crate::executor::Phase;
use crate::files::locks::{LockOwner, RangeLock};
use crate::files::{Descriptor, OpenFile};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Identity};
use crate::ship::Locking;

fn asked(file: Handle, lock: &RangeLock) -> Asked {
    let whose = if lock.owner == LockOwner::Process { Whose::Process } else { Whose::OpenFile };
    Asked { file, whose, span: lock.span }
}

/// Sets or takes away a lock of a range.
pub(super) async fn set(
    caller: Caller<'_>,
    (file, handle): (&OpenFile, Handle),
    wanted: &Wanted,
    waits: bool,
) -> Awaited {
    let locks = &caller.process.locks;
    let asked = asked(handle, &wanted.lock);
    if wanted.kind == F_UNLCK {
        unlock(caller, asked, || locks.unlock(&wanted.lock)).await?;
        return Ok(0);
    }
    if wanted.lock.owner != LockOwner::Process {
        file.may_lock(locks);
    }
    lock(caller, asked, waits, |done| match done {
        Ok(()) => locks.has_locked(&wanted.lock, handle),
        Err(_) => Ok(()),
    })
    .await
}

/// Sets or takes away a lock of a whole file.
pub(super) async fn flock(
    caller: Caller<'_>,
    (file, handle): (&OpenFile, Handle),
    exclusive: Option<bool>,
    waits: bool,
) -> Awaited {
    let locks = &caller.process.locks;
    let asked = Asked { file: handle, whose: Whose::Whole, span: Span::whole(exclusive == Some(true)) };
    if exclusive.is_none() {
        unlock(caller, asked, || locks.has_locked_file(file, None)).await?;
        return Ok(0);
    }
    file.may_lock(locks);
    // Who cannot have another has none.
    lock(caller, asked, waits, |done| locks.has_locked_file(file, exclusive.filter(|_| done.is_ok()))).await
}

/// Locks at the I/O node, and has it written down here what came of it: also that it is taken.
async fn lock(
    caller: Caller<'_>,
    asked: Asked,
    waits: bool,
    note: impl Fn(Result<(), Errno>) -> Result<(), Errno>,
) -> Awaited {
    let (locks, client) = (&caller.process.locks, &caller.process.client);
    let mut waiting = waits.then(|| Locking::new(client, asked));
    loop {
        let count = waiting.as_ref().map(|waiting| waiting.bell().count());
        let turn = locks.turn().await;
        let done = match &mut waiting {
            Some(waiting) => waiting.attempt().await.map(|done| done.is_some()),
            None => client.call(Call::Lock { asked, wait: None }, Vec::new()).await.map(|_| true),
        };
        match done {
            Ok(true) => {
                if let Err(errno) = note(Ok(())) {
                    // It would not be known that it is there.
                    unlock_there(caller, asked).await?;
                    return Err(errno.into());
                }
                return Ok(0);
            }
            Ok(false) => note(Err(Errno::EAGAIN))?,
            Err(errno) => {
                locks.is_unsure_of(errno);
                if errno == Errno::EAGAIN {
                    note(Err(errno))?;
                }
                return Err(errno.into());
            }
        }
        drop(turn);
        if let (Some(waiting), Some(count)) = (&waiting, count) {
            let rung = waiting.bell().rung_since(count);
            caller.interruptible(Phase::File, Patience::Endless, rung).await?;
        }
    }
}

/// Unlocks at the I/O node, and has it written down here.
async fn unlock(caller: Caller<'_>, asked: Asked, note: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    let _turn = caller.process.locks.turn().await;
    unlock_there(caller, asked).await?;
    note()
}

async fn unlock_there(caller: Caller<'_>, asked: Asked) -> Result<(), Errno> {
    let done = caller.process.client.call(Call::Unlock(asked), Vec::new()).await;
    done.map(drop).inspect_err(|errno| caller.process.locks.is_unsure_of(*errno))
}

/// Finds what stands in the way of a lock. Who asks for no lock finds its own.
pub(super) async fn find(caller: Caller<'_>, handle: Handle, wanted: &Wanted) -> Awaited<Option<Found>> {
    if wanted.kind == F_UNLCK {
        return Ok(super::find(caller, wanted));
    }
    match caller.process.client.call(Call::TestLock(asked(handle, &wanted.lock)), Vec::new()).await? {
        (Reply::Done, _) => Ok(None),
        (Reply::Locked(locked), _) => {
            let process = if locked.is_open_files {
                u32::MAX
            } else if locked.owner.job == caller.process.client.owner().job {
                Identity::pid_of(locked.owner.rank)
            } else {
                // As on Linux of one that cannot be named.
                0
            };
            Ok(Some(Found { span: locked.span, process }))
        }
        _ => Err(Errno::EIO.into()),
    }
}

/// A number stands for this no more: what ends with it is unlocked when this is done, so that who is told then finds it
/// free.
pub(crate) async fn let_go(caller: Caller<'_>, descriptor: Descriptor) {
    let (file, locks) = (descriptor.file, &caller.process.locks);
    let is_last = alloc::sync::Arc::strong_count(&file) == 1;
    if !locks.to_unlock(&file, is_last).is_empty() {
        let _turn = locks.turn().await;
        for asked in locks.to_unlock(&file, is_last) {
            // If it cannot be said now, it ends with the handle, or is said when the file is closed again.
            let _ = unlock_there(caller, asked).await;
        }
        locks.closed(&file);
    } else {
        locks.closed(&file);
    }
}
