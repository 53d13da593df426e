//! Locks of files: fcntl(2)'s and flock(2)'s.
//!
//! Locks of files and directories at the I/O node hold between all ranks there, of all jobs ([`shipped`]). Those of
//! what is the process's own hold within it ([`crate::files::locks`]). What ranks of one node have in common but not
//! with others (`/dev/shm`, what the kernel makes) can be locked in a job of one rank only: else `ENOLCK`, rather than
//! a lock that protects nothing. Processes on the host are not kept out in any case.

mod shipped;

use alloc::sync::Arc;

use coppice_protocol::lock::Span;

use super::Arguments;
use crate::abi::{Record, i64_at, u16_at, u32_at};
use crate::errno::Errno;
use crate::executor::Phase;
use crate::files::locks::{LockOwner, RangeLock};
use crate::files::readiness::until_watched;
use crate::files::{Object, OpenFile};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Immediate};

pub(super) use self::shipped::let_go;

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
struct Wanted {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    kind: u16,
    lock: RangeLock,
}

/// Looks at a `struct flock`, in the order that Linux does; `ENOLCK` if it would have to hold between ranks and does
/// not. `end` is the file's length, if it is counted from there.
fn parse(caller: Caller<'_>, a: &Arguments, file: &OpenFile, end: u64) -> Immediate<Wanted> {
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
    check(caller, file)?;
    let start = start.cast_unsigned();
    let (first, last) = match length {
        0 => (start, LAST),
        1.. => (start, start + length.cast_unsigned() - 1),
        // It lies before the place that is named.
        _ => (start - length.unsigned_abs(), start - 1),
    };
    let owner = if is_open_files_own { LockOwner::file(file) } else { LockOwner::Process };
    let lock = RangeLock::of(file, owner, Span { first, last, exclusive: kind == F_WRLCK });
    Ok(Wanted { kind, lock })
}

/// Sets or takes away a lock.
fn set(caller: Caller<'_>, file: &OpenFile, wanted: &Wanted) -> Result<(), Errno> {
    let locks = &caller.process.locks;
    if wanted.kind == F_UNLCK {
        return locks.unlock(&wanted.lock);
    }
    if wanted.lock.owner != LockOwner::Process {
        file.may_lock(locks);
    }
    locks.lock(&wanted.lock)
}

/// A lock that stands in the way, and which process has it; of an open file's nobody says.
struct Found {
    span: Span,
    process: u32,
}

/// Finds what stands in the way of a lock. Who asks for no lock finds its own.
fn find(caller: Caller<'_>, wanted: &Wanted) -> Option<Found> {
    let locks = &caller.process.locks;
    let found = if wanted.kind == F_UNLCK { locks.own(&wanted.lock) } else { locks.in_the_way(&wanted.lock) };
    found.map(|RangeLock { owner, span, .. }| {
        let process = if owner == LockOwner::Process { caller.process.identity.pid } else { u32::MAX };
        Found { span, process }
    })
}

/// Tells what stands in the way of a lock, or that nothing does.
fn tell(caller: Caller<'_>, a: &Arguments, found: Option<Found>) -> Immediate {
    let bytes: [u8; FLOCK_BYTES] = caller.get(a.get(2))?;
    let answer = Record::<FLOCK_BYTES>::new().raw(0, &bytes);
    let answer = match found {
        None => answer.u16(0, F_UNLCK),
        Some(Found { span: Span { first, last, exclusive }, process }) => {
            let length = if last == LAST { 0 } else { last - first + 1 };
            let answer = answer.u16(0, if exclusive { F_WRLCK } else { F_RDLCK }).u16(2, 0);
            answer.u64(8, first).u64(16, length).u32(24, process)
        }
    };
    caller.put(a.get(2), answer.bytes())?;
    Ok(0)
}

fn try_control(caller: Caller<'_>, a: &Arguments, file: &OpenFile, end: u64) -> Immediate {
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    let wanted = parse(caller, a, file, end)?;
    if matches!(a.uint(1), F_GETLK | F_OFD_GETLK) {
        return tell(caller, a, find(caller, &wanted));
    }
    set(caller, file, &wanted)?;
    Ok(0)
}

/// fcntl(2) about a lock; `None` if it waits, or the I/O node must be asked.
pub(super) fn control(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let waits = matches!(a.uint(1), F_SETLKW | F_OFD_SETLKW);
    let file = match caller.file(a.int(0)) {
        Ok(file) => file,
        Err(errno) => return Some(Err(errno.into())),
    };
    let must_wait = waits || file.as_shipped().is_some() && !file.is_path() || is_from_end(caller, a);
    if must_wait { None } else { Some(try_control(caller, a, &file, 0)) }
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
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    let end = if is_from_end(caller, a) { file.size(caller.process).await? } else { 0 };
    // Made sure of before it is looked at what is there.
    caller.read_array::<FLOCK_BYTES>(a.get(2)).await?;
    let waits = matches!(a.uint(1), F_SETLKW | F_OFD_SETLKW);
    if let Some(shipped) = file.as_shipped() {
        let wanted = parse(caller, a, &file, end)?;
        if matches!(a.uint(1), F_GETLK | F_OFD_GETLK) {
            let found = shipped::find(caller, shipped.handle, &wanted).await?;
            return Ok(tell(caller, a, found)?);
        }
        return shipped::set(caller, (&file, shipped.handle), &wanted, waits).await;
    }
    if !waits {
        return Ok(try_control(caller, a, &file, end)?);
    }
    let wanted = parse(caller, a, &file, end)?;
    wait(caller, || set(caller, &file, &wanted)).await
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

/// Whether a lock of it holds between all who can have that open.
fn check(caller: Caller<'_>, file: &OpenFile) -> Result<(), Errno> {
    let is_everybodys = match &file.object {
        Object::Device(_) | Object::Text(..) | Object::Asks(..) | Object::Counters(..) => true,
        Object::Program(_) | Object::Special(_) | Object::Shared(_) | Object::Standard(_) => true,
        Object::Shipped(_) | Object::Pipe(_) | Object::Pair(_) | Object::Socket(_) | Object::Netlink(_) => false,
        Object::Event(_) | Object::Timer(_) | Object::Signals(_) | Object::Poller(_) | Object::Service(_) => false,
    };
    if is_everybodys && caller.process.identity.size > 1 { Err(Errno::ENOLCK) } else { Ok(()) }
}

const LOCK_SH: u32 = 1;
const LOCK_EX: u32 = 2;
const LOCK_NB: u32 = 4;
const LOCK_UN: u32 = 8;

/// What flock(2) is about, and what it wants: an exclusive lock or another, or (`None`) none any more.
fn parse_flock(caller: Caller<'_>, a: &Arguments) -> Result<(Arc<OpenFile>, Option<bool>), Errno> {
    let how = a.uint(1) & !LOCK_NB;
    if !matches!(how, LOCK_SH | LOCK_EX | LOCK_UN) {
        return Err(Errno::EINVAL);
    }
    let file = caller.file(a.int(0))?;
    if file.is_path() || how != LOCK_UN && !file.is_readable() && !file.is_writable() {
        return Err(Errno::EBADF);
    }
    check(caller, &file)?;
    Ok((file, (how != LOCK_UN).then_some(how == LOCK_EX)))
}

/// One attempt at it, of what is not at the I/O node.
fn try_flock(caller: Caller<'_>, file: &OpenFile, exclusive: Option<bool>) -> Result<(), Errno> {
    let locks = &caller.process.locks;
    let Some(exclusive) = exclusive else {
        locks.unlock_file(file);
        return Ok(());
    };
    file.may_lock(locks);
    locks.lock_file(file, exclusive)
}

/// flock(2); `None` if it waits, or the I/O node must be asked.
pub(super) fn flock(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let done = match parse_flock(caller, a) {
        Ok((file, _)) if file.as_shipped().is_some() => return None,
        Ok((file, exclusive)) => try_flock(caller, &file, exclusive),
        Err(errno) => Err(errno),
    };
    match done {
        Err(Errno::EAGAIN) if a.uint(1) & LOCK_NB == 0 => None,
        done => Some(done.map(|()| 0).map_err(Into::into)),
    }
}

/// The same, waiting as long as it takes.
pub(super) async fn flock_waiting(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (file, exclusive) = parse_flock(caller, a)?;
    match file.as_shipped() {
        Some(shipped) => {
            let waits = a.uint(1) & LOCK_NB == 0;
            shipped::flock(caller, (&file, shipped.handle), exclusive, waits).await
        }
        None => wait(caller, || try_flock(caller, &file, exclusive)).await,
    }
}
