//! fcntl(2). Its locks are in [`super::locks`].

use coppice_hal::addr::PAGE_BYTES;
use coppice_protocol::ship::Call;

use super::Arguments;
use super::descriptors::copy;
use super::locks;
use crate::abi::u32_at;
use crate::errno::Errno;
use crate::files::shared::seals;
use crate::files::{Object, flags};
use crate::limits::{PIPE_BYTES_LIMIT, PIPE_BYTES_MAX};
use crate::process::{Awaited, Caller, Immediate};

const F_DUPFD: u32 = 0;
const F_GETFD: u32 = 1;
const F_SETFD: u32 = 2;
const F_GETFL: u32 = 3;
const F_SETFL: u32 = 4;
const F_SETOWN: u32 = 8;
const F_GETOWN: u32 = 9;
const F_SETOWN_EX: u32 = 15;
const F_GETOWN_EX: u32 = 16;
const F_DUPFD_CLOEXEC: u32 = 1030;
const F_SETPIPE_SZ: u32 = 1031;
const F_GETPIPE_SZ: u32 = 1032;

const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;

const FD_CLOEXEC: u64 = 1;

/// Length of `struct f_owner_ex`, bytes.
const OWNER_BYTES: usize = 8;

/// fcntl(2); `None` if the I/O node must be told, or the caller must wait.
pub(super) fn fcntl(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    match a.uint(1) {
        F_SETFL if must_tell(caller, a) => None,
        command if locks::is_about(command) => locks::control(caller, a),
        _ => Some(control(caller, a)),
    }
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
        F_SETOWN | F_GETOWN => Ok(0),
        // What C libraries ask for in their place: nobody is told anything.
        F_GETOWN_EX => {
            caller.put(a.get(2), &[0; OWNER_BYTES])?;
            Ok(0)
        }
        F_SETOWN_EX => match u32_at(&caller.get::<OWNER_BYTES>(a.get(2))?, 0) {
            0..=2 => Ok(0),
            _ => Err(Errno::EINVAL.into()),
        },
        F_ADD_SEALS => {
            // Whether it may be written comes before whether it can be sealed.
            if !file.is_writable() {
                return Err(Errno::EPERM.into());
            }
            let shared = file.as_shared().ok_or(Errno::EINVAL)?;
            if a.uint(2) & !seals::ALL != 0 {
                return Err(Errno::EINVAL.into());
            }
            shared.seal(a.uint(2), &*caller.process.job)?;
            Ok(0)
        }
        F_GET_SEALS => Ok(file.as_shared().ok_or(Errno::EINVAL)?.seals().into()),
        F_GETPIPE_SZ | F_SETPIPE_SZ if !matches!(file.object, Object::Standard(_) | Object::Pipe(_)) => {
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

/// fcntl(2) that the I/O node must be told or asked about, or that waits.
pub(super) async fn fcntl_waiting(caller: Caller<'_>, a: &Arguments) -> Awaited {
    if a.uint(1) == F_SETFL { set_flags(caller, a).await } else { locks::control_waiting(caller, a).await }
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
