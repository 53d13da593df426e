//! Descriptors: dup(2), close(2).

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Arguments;
use super::locks;
use crate::errno::Errno;
use crate::files::cache::CachedFile;
use crate::files::{DESCRIPTORS_MAX, Descriptor, OpenFile, flags};
use crate::process::{Awaited, Caller, Immediate};

/// dup(2).
pub(super) fn dup(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Ok(copy(caller, a.int(0), 0, false)?)
}

/// A copy of a descriptor at the lowest free number from `from` on.
pub(super) fn copy(caller: Caller<'_>, number: i32, from: usize, close_on_exec: bool) -> Result<u64, Errno> {
    let mut files = caller.process.files.lock();
    let file = files.get(number)?;
    files.insert(Descriptor { file, close_on_exec }, from).map(|number| number.cast_unsigned().into())
}

/// dup2(2); `None` if the I/O node must be told what ends with what it closes.
pub(super) fn dup2(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let (old, new) = (a.int(0), a.int(1));
    if old == new {
        let file = caller.process.files.lock().get(old);
        return Some(file.map(|_| new.cast_unsigned().into()).map_err(Into::into));
    }
    if unlocks(caller, new) { None } else { Some(replace(caller, old, new, false).map(let_go(caller, new))) }
}

/// The same, waiting until it was told.
pub(super) async fn dup2_waiting(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (old, new) = (a.int(0), a.int(1));
    let_go_waiting(caller, replace(caller, old, new, false)?).await;
    Ok(new.cast_unsigned().into())
}

/// dup3(2), as [`dup2`].
pub(super) fn dup3(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let (old, new, how) = (a.int(0), a.int(1), a.uint(2));
    if how & !flags::O_CLOEXEC != 0 || old == new {
        return Some(Err(Errno::EINVAL.into()));
    }
    let close_on_exec = how & flags::O_CLOEXEC != 0;
    if unlocks(caller, new) { None } else { Some(replace(caller, old, new, close_on_exec).map(let_go(caller, new))) }
}

/// The same, waiting.
pub(super) async fn dup3_waiting(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (old, new, how) = (a.int(0), a.int(1), a.uint(2));
    let_go_waiting(caller, replace(caller, old, new, how & flags::O_CLOEXEC != 0)?).await;
    Ok(new.cast_unsigned().into())
}

/// Puts a copy of a descriptor in another's place, which is given.
fn replace(caller: Caller<'_>, old: i32, new: i32, close_on_exec: bool) -> Immediate<Option<Descriptor>> {
    let mut files = caller.process.files.lock();
    let file = files.get(old)?;
    Ok(files.replace(new, Descriptor { file, close_on_exec })?)
}

/// Whether the I/O node is to be told of locks when a descriptor is closed.
fn unlocks(caller: Caller<'_>, number: i32) -> bool {
    let file = caller.process.files.lock().get(number);
    // This is one of those who have it.
    file.is_ok_and(|file| !caller.process.locks.to_unlock(&file, Arc::strong_count(&file) <= 2).is_empty())
}

/// A number stands for what is given no more. Outside of the descriptors' lock: it may be the last of its open file.
fn let_go(caller: Caller<'_>, number: i32) -> impl FnOnce(Option<Descriptor>) -> u64 {
    move |descriptor| {
        if let Some(descriptor) = descriptor {
            caller.process.locks.closed(&descriptor.file);
        }
        number.cast_unsigned().into()
    }
}

/// The same, when the I/O node was told.
async fn let_go_waiting(caller: Caller<'_>, descriptor: Option<Descriptor>) {
    if let Some(descriptor) = descriptor {
        locks::let_go(caller, descriptor).await;
    }
}

/// close(2), if nothing of what was written to the file is to be written back, and it has no locks at the I/O node,
/// which closes its handle a moment later.
pub(super) fn close(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let number = a.int(0);
    let file = caller.process.files.lock().get(number);
    let writes =
        file.is_ok_and(|file| file.is_writable() && written_to(&file).is_some_and(|cached| cached.has_to_tell()));
    if writes || unlocks(caller, number) {
        return None;
    }
    let removed = caller.process.files.lock().remove(number);
    Some(removed.map(Some).map(let_go(caller, 0)).map_err(Into::into))
}

/// The same once all was written, so that it can be said what was not.
pub(super) async fn close_written(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let cached = {
        let file = caller.file(a.int(0))?;
        written_to(&file).map(Arc::clone)
    };
    if let Some(cached) = &cached {
        cached.settle().await;
    }
    let removed = caller.process.files.lock().remove(a.int(0))?;
    let_go_waiting(caller, Some(removed)).await;
    match cached.and_then(|cached| cached.take_error()) {
        Some(errno) => Err(errno.into()),
        None => Ok(0),
    }
}

fn written_to(file: &OpenFile) -> Option<&Arc<CachedFile>> {
    file.as_shipped()?.cached()
}

/// close_range(2); `None` if the I/O node may have to be told.
pub(super) fn close_range(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    if a.uint(2) & CLOSE_RANGE_CLOEXEC == 0 && caller.process.locks.has_shipped() {
        return None;
    }
    let closed = close_each(caller, a, |descriptor| {
        let_go(caller, 0)(Some(descriptor));
    });
    Some(closed)
}

/// The same, waiting until it was told.
pub(super) async fn close_range_waiting(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let mut removed = Vec::new();
    close_each(caller, a, |descriptor| removed.push(descriptor))?;
    for descriptor in removed {
        locks::let_go(caller, descriptor).await;
    }
    Ok(0)
}

const CLOSE_RANGE_UNSHARE: u32 = 2;
const CLOSE_RANGE_CLOEXEC: u32 = 4;

fn close_each(caller: Caller<'_>, a: &Arguments, mut closed: impl FnMut(Descriptor)) -> Immediate {
    let (first, last, how) = (a.uint(0), a.uint(1), a.uint(2));
    if first > last || how & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let last = last.min(DESCRIPTORS_MAX as u32);
    for number in first..=last {
        let number = number.cast_signed();
        // Numbers that are not in use are skipped.
        let removed = {
            let mut files = caller.process.files.lock();
            if how & CLOSE_RANGE_CLOEXEC != 0 {
                let _ = files.set_close_on_exec(number, true);
                None
            } else {
                files.remove(number).ok()
            }
        };
        removed.into_iter().for_each(&mut closed);
    }
    Ok(0)
}
