//! fcntl(2) and flock(2).
//!
//! Locks: a process never conflicts with itself, so in a job of one rank every lock is granted. In a job of several
//! they would have to hold between nodes, which they do not: `ENOLCK`, rather than a lock that protects nothing.
//! Processes on the host are not kept out in either case.

use coppice_protocol::ship::Call;

use super::Arguments;
use super::abi::{Record, u16_at};
use super::descriptors::copy;
use crate::errno::Errno;
use crate::files::shared::seals;
use crate::files::{DESCRIPTORS_MAX, Object, flags};
use crate::limits::PIPE_BYTES_MAX;
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
    if a.uint(1) == F_SETFL && must_tell(caller, a) {
        return None;
    }
    Some(control(caller, a))
}

fn control(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (number, command) = (a.int(0), a.uint(1));
    let file = caller.process.files.lock().get(number)?;
    let about_descriptor = matches!(command, F_DUPFD | F_DUPFD_CLOEXEC | F_GETFD | F_SETFD | F_GETFL);
    if file.is_path() && !about_descriptor {
        return Err(Errno::EBADF.into());
    }
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => {
            let from = usize::try_from(a.int(2)).ok().filter(|from| *from < DESCRIPTORS_MAX).ok_or(Errno::EINVAL)?;
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
            check_lock(caller, a)?;
            let bytes: [u8; FLOCK_BYTES] = caller.get(a.get(2))?;
            let free = Record::<FLOCK_BYTES>::new().raw(0, &bytes).u16(0, F_UNLCK);
            caller.put(a.get(2), free.bytes())?;
            Ok(0)
        }
        F_SETLK | F_SETLKW | F_OFD_SETLK | F_OFD_SETLKW => {
            check_lock(caller, a)?;
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
        // They are as large as they are.
        F_SETPIPE_SZ if a.uint(2) as usize > PIPE_BYTES_MAX => Err(Errno::EPERM.into()),
        F_GETPIPE_SZ | F_SETPIPE_SZ => Ok(PIPE_BYTES_MAX as u64),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Looks at a `struct flock`; `ENOLCK` if locks would have to hold between ranks.
fn check_lock(caller: Caller<'_>, a: &Arguments) -> Immediate<()> {
    let bytes: [u8; FLOCK_BYTES] = caller.get(a.get(2))?;
    if u16_at(&bytes, 0) > F_UNLCK || u16_at(&bytes, 2) > 2 {
        return Err(Errno::EINVAL.into());
    }
    Ok(alone(caller)?)
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
pub(super) async fn set_flags(caller: Caller<'_>, a: &Arguments) -> Awaited {
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
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    if !matches!(a.uint(1) & !LOCK_NB, 1 | 2 | 8) {
        return Err(Errno::EINVAL.into());
    }
    alone(caller)?;
    Ok(0)
}
