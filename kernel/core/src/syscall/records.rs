//! fcntl(2) and flock(2).
//!
//! Locks: a process never conflicts with itself, so in a job of one rank every lock is granted. In a job of several
//! they would have to hold between nodes, which they do not: `ENOLCK`, rather than a lock that protects nothing.
//! Processes on the host are not kept out in either case.

use coppice_hal::addr::PAGE_BYTES;
use coppice_protocol::ship::Call;

use super::Arguments;
use super::abi::{Record, i64_at, u16_at, u32_at};
use super::descriptors::copy;
use crate::errno::Errno;
use crate::files::shared::seals;
use crate::files::{Object, OpenFile, flags};
use crate::limits::{PIPE_BYTES_LIMIT, PIPE_BYTES_MAX};
use crate::process::{Awaited, Caller, Immediate};

const F_DUPFD: u32 = 0;
const F_GETFD: u32 = 1;
const F_SETFD: u32 = 2;
const F_GETFL: u32 = 3;
const F_SETFL: u32 = 4;
const F_GETLK: u32 = 5;
const F_SETLK: u32 = 6;
const F_SETLKW: u32 = 7;
const F_SETOWN: u32 = 8;
const F_GETOWN: u32 = 9;
const F_OFD_GETLK: u32 = 36;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;
const F_DUPFD_CLOEXEC: u32 = 1030;
const F_SETPIPE_SZ: u32 = 1031;
const F_GETPIPE_SZ: u32 = 1032;

const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;

const FD_CLOEXEC: u64 = 1;

/// Length of `struct flock`, bytes.
const FLOCK_BYTES: usize = 32;
/// `F_UNLCK`: there is no lock.
const F_UNLCK: u16 = 2;

/// fcntl(2); `None` if the I/O node must be told.
pub(super) fn fcntl(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    if a.uint(1) == F_SETFL && must_tell(caller, a) || is_from_end(caller, a) {
        return None;
    }
    Some(control(caller, a, 0))
}

fn control(caller: Caller<'_>, a: &Arguments, end: u64) -> Immediate {
    let (number, command) = (a.int(0), a.uint(1));
    let file = caller.process.files.lock().get(number)?;
    let about_descriptor = matches!(command, F_DUPFD | F_DUPFD_CLOEXEC | F_GETFD | F_SETFD | F_GETFL);
    if file.is_path() && !about_descriptor {
        return Err(Errno::EBADF.into());
    }
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => {
            let is_possible = |from: &usize| (*from as u64) < caller.process.limits.descriptors();
            let from = usize::try_from(a.int(2)).ok().filter(is_possible).ok_or(Errno::EINVAL)?;
            Ok(copy(caller, number, from, command == F_DUPFD_CLOEXEC)?)
        }
        F_GETFD => Ok(caller.process.files.lock().descriptor(number)?.close_on_exec.into()),
        F_SETFD => {
            caller.process.files.lock().set_close_on_exec(number, a.get(2) & FD_CLOEXEC != 0)?;
            Ok(0)
        }
        F_GETFL => Ok(file.flags().into()),
        F_SETFL => {
            file.set_flags(a.uint(2));
            Ok(0)
        }
        F_GETLK | F_OFD_GETLK => {
            check_lock(caller, a, &file, end)?;
            let bytes: [u8; FLOCK_BYTES] = caller.get(a.get(2))?;
            let free = Record::<FLOCK_BYTES>::new().raw(0, &bytes).u16(0, F_UNLCK);
            caller.put(a.get(2), free.bytes())?;
            Ok(0)
        }
        F_SETLK | F_SETLKW | F_OFD_SETLK | F_OFD_SETLKW => {
            check_lock(caller, a, &file, end)?;
            Ok(0)
        }
        F_SETOWN | F_GETOWN => Ok(0),
        F_ADD_SEALS => {
            let shared = file.as_shared().ok_or(Errno::EINVAL)?;
            if !file.is_writable() {
                return Err(Errno::EPERM.into());
            }
            if a.uint(2) & !seals::ALL != 0 {
                return Err(Errno::EINVAL.into());
            }
            shared.seal(a.uint(2), &caller.process.job)?;
            Ok(0)
        }
        F_GET_SEALS => Ok(file.as_shared().ok_or(Errno::EINVAL)?.seals().into()),
        F_GETPIPE_SZ | F_SETPIPE_SZ if !matches!(file.object, Object::Stream(_) | Object::Pipe(_)) => {
            Err(Errno::EBADF.into())
        }
        F_SETPIPE_SZ => {
            let bytes = pipe_bytes(a.uint(2))?;
            match &file.object {
                Object::Pipe(end) => end.set_limit(bytes)?,
                // They are as large as they are.
                _ if bytes > PIPE_BYTES_MAX => return Err(Errno::EPERM.into()),
                _ => {}
            }
            Ok(bytes as u64)
        }
        F_GETPIPE_SZ => match &file.object {
            Object::Pipe(end) => Ok(end.limit() as u64),
            _ => Ok(PIPE_BYTES_MAX as u64),
        },
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Looks at a `struct flock`, in the order that Linux does; `ENOLCK` if locks would have to hold between ranks. `end`
/// is the file's length, if it is counted from there.
fn check_lock(caller: Caller<'_>, a: &Arguments, file: &OpenFile, end: u64) -> Immediate<()> {
    const F_RDLCK: u16 = 0;
    const F_WRLCK: u16 = 1;
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
    Ok(alone(caller)?)
}

/// A lock that is counted from the end of the file.
const WHENCE_END: u16 = 2;

/// Whether a call is about such a lock, and it must be asked where that is.
fn is_from_end(caller: Caller<'_>, a: &Arguments) -> bool {
    let is_lock = matches!(a.uint(1), F_GETLK | F_SETLK | F_SETLKW | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW);
    is_lock
        && caller.get::<FLOCK_BYTES>(a.get(2)).is_ok_and(|bytes| u16_at(&bytes, 2) == WHENCE_END)
        && caller.process.files.lock().get(a.int(0)).is_ok_and(|file| file.is_regular() && !file.is_path())
}

/// fcntl(2) that the I/O node must be told or asked about.
pub(super) async fn fcntl_shipped(caller: Caller<'_>, a: &Arguments) -> Awaited {
    if a.uint(1) == F_SETFL {
        return set_flags(caller, a).await;
    }
    let file = caller.process.files.lock().get(a.int(0))?;
    let end = file.size(caller.process).await?;
    Ok(control(caller, a, end)?)
}

/// How large a pipe becomes that is to hold so many bytes: a power of two of pages.
///
/// # Errors
/// `EINVAL`: more than there can be. `EPERM`: more than a program may have.
fn pipe_bytes(asked: u32) -> Result<usize, Errno> {
    if asked > 1 << 31 {
        return Err(Errno::EINVAL);
    }
    let bytes = (asked as usize).max(PAGE_BYTES).next_power_of_two();
    if bytes > PIPE_BYTES_LIMIT { Err(Errno::EPERM) } else { Ok(bytes) }
}

fn alone(caller: Caller<'_>) -> Result<(), Errno> {
    if caller.process.identity.size > 1 { Err(Errno::ENOLCK) } else { Ok(()) }
}

/// Whether `F_SETFL` changes what the I/O node has to know: of all flags, `O_NOATIME`.
fn must_tell(caller: Caller<'_>, a: &Arguments) -> bool {
    let file = caller.process.files.lock().get(a.int(0));
    file.is_ok_and(|file| file.as_shipped().is_some() && (file.flags() ^ a.uint(2)) & flags::O_NOATIME != 0)
}

/// `F_SETFL` that the I/O node must be told.
async fn set_flags(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    if let Some(shipped) = file.as_shipped() {
        caller.ship(Call::SetFlags { file: shipped.handle, flags: a.uint(2) & flags::SETTABLE }).await?;
    }
    file.set_flags(a.uint(2));
    Ok(0)
}

/// flock(2).
pub(super) fn flock(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const LOCK_NB: u32 = 4;
    if !matches!(a.uint(1) & !LOCK_NB, 1 | 2 | 8) {
        return Err(Errno::EINVAL.into());
    }
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    alone(caller)?;
    Ok(0)
}
