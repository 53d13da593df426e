//! Locks of files: fcntl(2)'s and flock(2)'s.
//!
//! They hold within a process ([`crate::files::locks`]). In a job of several ranks they would have to hold between
//! nodes, which they do not: `ENOLCK`, rather than a lock that protects nothing. Processes on the host are not kept out
//! in either case.

use super::Arguments;
use crate::abi::{Record, i64_at, u16_at, u32_at};
use crate::errno::Errno;
use crate::executor::Phase;
use crate::files::OpenFile;
use crate::files::locks::{LockOwner, LockedFile, RangeLock};
use crate::files::readiness::until_watched;
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Immediate};

const F_GETLK: u32 = 5;
const F_SETLK: u32 = 6;
const F_SETLKW: u32 = 7;
const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;

/// Length of `struct flock`, bytes.
const FLOCK_BYTES: usize = 32;

/// `F_RDLCK`: others may have such as well.
const F_RDLCK: u16 = 0;
/// `F_WRLCK`: nobody else may have any.
const F_WRLCK: u16 = 1;
/// `F_UNLCK`: there is no lock.
const F_UNLCK: u16 = 2;

/// A lock that is counted from the end of the file.
const WHENCE_END: u16 = 2;

/// Last byte there can be.
const LAST: u64 = i64::MAX as u64;

/// Whether a command of fcntl(2) is about locks.
pub(super) fn is_about(command: u32) -> bool {
    matches!(command, F_GETLK | F_SETLK | F_SETLKW | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW)
}

/// What a call asks for.
struct Asked {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    kind: u16,
    range: RangeLock,
}

/// Looks at a `struct flock`, in the order that Linux does; `ENOLCK` if locks would have to hold between ranks. `end`
/// is the file's length, if it is counted from there.
fn parse(caller: Caller<'_>, a: &Arguments, file: &OpenFile, end: u64) -> Immediate<Asked> {
    let bytes: [u8; FLOCK_BYTES] = caller.get(a.get(2))?;
    let (kind, command) = (u16_at(&bytes, 0), a.uint(1));
    let is_open_files_own = matches!(command, F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW);
    if command == F_GETLK && kind > F_WRLCK {
        return Err(Errno::EINVAL.into());
    }
    let base = match u16_at(&bytes, 2) {
        0 => 0,
        1 => file.offset().cast_signed(),
        WHENCE_END => end.cast_signed(),
        _ => return Err(Errno::EINVAL.into()),
    };
    let (from, length) = (i64_at(&bytes, 8), i64_at(&bytes, 16));
    let start = base.checked_add(from).ok_or(Errno::EOVERFLOW)?;
    if start < 0 || length < 0 && start + length < 0 {
        return Err(Errno::EINVAL.into());
    }
    if length > 0 && start.checked_add(length - 1).is_none() {
        return Err(Errno::EOVERFLOW.into());
    }
    if kind > F_UNLCK {
        return Err(Errno::EINVAL.into());
    }
    let sets = !matches!(command, F_GETLK | F_OFD_GETLK);
    let is_refused = kind == F_RDLCK && !file.is_readable() || kind == F_WRLCK && !file.is_writable();
    if sets && is_refused {
        return Err(Errno::EBADF.into());
    }
    if is_open_files_own && u32_at(&bytes, 24) != 0 {
        return Err(Errno::EINVAL.into());
    }
    alone(caller)?;
    let start = start.cast_unsigned();
    let (first, last) = match length {
        0 => (start, LAST),
        1.. => (start, start + length.cast_unsigned() - 1),
        // It lies before the place that is named.
        _ => (start - length.unsigned_abs(), start - 1),
    };
    let owner = if is_open_files_own { LockOwner::file(file) } else { LockOwner::Process };
    let range = RangeLock { file: LockedFile::of(file), owner, first, last, exclusive: kind == F_WRLCK };
    Ok(Asked { kind, range })
}

/// Sets or takes away a lock.
fn set(caller: Caller<'_>, file: &OpenFile, asked: &Asked) -> Result<(), Errno> {
    let locks = &caller.process.locks;
    if asked.kind == F_UNLCK {
        return locks.unlock(&asked.range);
    }
    if asked.range.owner != LockOwner::Process {
        file.may_lock(locks);
    }
    locks.lock(asked.range)
}

/// Tells what stands in the way of a lock, or that nothing does. Who asks for no lock is told of its own.
fn tell(caller: Caller<'_>, a: &Arguments, asked: &Asked) -> Immediate {
    let locks = &caller.process.locks;
    let found = if asked.kind == F_UNLCK { locks.own(&asked.range) } else { locks.in_the_way(&asked.range) };
    let bytes: [u8; FLOCK_BYTES] = caller.get(a.get(2))?;
    let answer = Record::<FLOCK_BYTES>::new().raw(0, &bytes);
    let answer = match found {
        None => answer.u16(0, F_UNLCK),
        Some(lock) => {
            let length = if lock.last == LAST { 0 } else { lock.last - lock.first + 1 };
            let process = match lock.owner {
                LockOwner::Process => caller.process.identity.pid,
                LockOwner::File(_) => u32::MAX,
            };
            let answer = answer.u16(0, if lock.exclusive { F_WRLCK } else { F_RDLCK }).u16(2, 0);
            answer.u64(8, lock.first).u64(16, length).u32(24, process)
        }
    };
    caller.put(a.get(2), answer.bytes())?;
    Ok(0)
}

fn try_control(caller: Caller<'_>, a: &Arguments, end: u64) -> Immediate {
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    let asked = parse(caller, a, &file, end)?;
    if matches!(a.uint(1), F_GETLK | F_OFD_GETLK) {
        return tell(caller, a, &asked);
    }
    set(caller, &file, &asked)?;
    Ok(0)
}

/// fcntl(2) about a lock; `None` if it waits, or counts from the end of a file whose length must be asked for.
pub(super) fn control(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let waits = matches!(a.uint(1), F_SETLKW | F_OFD_SETLKW);
    if waits || is_from_end(caller, a) { None } else { Some(try_control(caller, a, 0)) }
}

/// Whether it must be asked where the end is that a lock is counted from.
fn is_from_end(caller: Caller<'_>, a: &Arguments) -> bool {
    let has_end = |file: &OpenFile| (file.is_regular() || file.is_directory()) && !file.is_path();
    caller.get::<FLOCK_BYTES>(a.get(2)).is_ok_and(|bytes| u16_at(&bytes, 2) == WHENCE_END)
        && caller.file(a.int(0)).is_ok_and(|file| has_end(&file))
}

/// The same, waiting as long as it takes.
pub(super) async fn control_waiting(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.file(a.int(0))?;
    let end = if is_from_end(caller, a) { file.size(caller.process).await? } else { 0 };
    if !matches!(a.uint(1), F_SETLKW | F_OFD_SETLKW) {
        return Ok(try_control(caller, a, end)?);
    }
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    // Made sure of before it is looked at what is there.
    caller.read_array::<FLOCK_BYTES>(a.get(2)).await?;
    let asked = parse(caller, a, &file, end)?;
    wait(caller, || set(caller, &file, &asked)).await
}

/// Makes attempts until one does not say that another lock is in the way.
async fn wait(caller: Caller<'_>, mut attempt: impl FnMut() -> Result<(), Errno>) -> Awaited {
    let attempt = || match attempt() {
        Err(Errno::EAGAIN) => None,
        other => Some(other),
    };
    let waiting = until_watched(|waker| caller.process.locks.watch(waker), attempt);
    caller.interruptible(Phase::File, Patience::Endless, waiting).await???;
    Ok(0)
}

fn alone(caller: Caller<'_>) -> Result<(), Errno> {
    if caller.process.identity.size > 1 { Err(Errno::ENOLCK) } else { Ok(()) }
}

const LOCK_SH: u32 = 1;
const LOCK_EX: u32 = 2;
const LOCK_NB: u32 = 4;
const LOCK_UN: u32 = 8;

/// One attempt at flock(2).
fn try_flock(caller: Caller<'_>, a: &Arguments) -> Result<(), Errno> {
    let how = a.uint(1) & !LOCK_NB;
    if !matches!(how, LOCK_SH | LOCK_EX | LOCK_UN) {
        return Err(Errno::EINVAL);
    }
    let file = caller.file(a.int(0))?;
    if file.is_path() || how != LOCK_UN && !file.is_readable() && !file.is_writable() {
        return Err(Errno::EBADF);
    }
    alone(caller)?;
    let locks = &caller.process.locks;
    if how == LOCK_UN {
        locks.unlock_file(&file);
        return Ok(());
    }
    file.may_lock(locks);
    locks.lock_file(&file, how == LOCK_EX)
}

/// flock(2); `None` if it waits.
pub(super) fn flock(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    match try_flock(caller, a) {
        Err(Errno::EAGAIN) if a.uint(1) & LOCK_NB == 0 => None,
        done => Some(done.map(|()| 0).map_err(Into::into)),
    }
}

/// The same, waiting as long as it takes.
pub(super) async fn flock_waiting(caller: Caller<'_>, a: &Arguments) -> Awaited {
    wait(caller, || try_flock(caller, a)).await
}
