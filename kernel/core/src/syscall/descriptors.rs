//! Descriptors: dup(2), close(2).

use alloc::sync::Arc;

use super::Arguments;
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

/// dup2(2).
pub(super) fn dup2(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (old, new) = (a.int(0), a.int(1));
    if old == new {
        caller.process.files.lock().get(old)?;
        return Ok(new.cast_unsigned().into());
    }
    replace(caller, old, new, false)
}

/// dup3(2).
pub(super) fn dup3(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (old, new, how) = (a.int(0), a.int(1), a.uint(2));
    if how & !flags::O_CLOEXEC != 0 || old == new {
        return Err(Errno::EINVAL.into());
    }
    replace(caller, old, new, how & flags::O_CLOEXEC != 0)
}

fn replace(caller: Caller<'_>, old: i32, new: i32, close_on_exec: bool) -> Immediate {
    let replaced = {
        let mut files = caller.process.files.lock();
        let file = files.get(old)?;
        files.replace(new, Descriptor { file, close_on_exec })?
    };
    // Outside the lock: it may be the last of its open file.
    let_go(caller, replaced);
    Ok(new.cast_unsigned().into())
}

/// A number stands for this no more.
fn let_go(caller: Caller<'_>, descriptor: Option<Descriptor>) {
    if let Some(descriptor) = descriptor {
        caller.process.locks.closed(&descriptor.file);
    }
}

/// close(2), if nothing of what was written to the file is to be written back. The I/O node closes its handle a moment
/// later.
pub(super) fn close(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let file = caller.process.files.lock().get(a.int(0));
    let waits =
        file.is_ok_and(|file| file.is_writable() && written_to(&file).is_some_and(|cached| cached.has_to_tell()));
    if waits { None } else { Some(closed(caller, a)) }
}

/// The same once all was written, so that it can be said what was not.
pub(super) async fn close_written(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.file(a.int(0))?;
    let cached = written_to(&file);
    if let Some(cached) = cached {
        cached.settle().await;
    }
    let result = closed(caller, a);
    match cached.and_then(|cached| cached.take_error()) {
        Some(errno) => Err(errno.into()),
        None => Ok(result?),
    }
}

fn written_to(file: &OpenFile) -> Option<&Arc<CachedFile>> {
    file.as_shipped()?.cached()
}

fn closed(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let removed = caller.process.files.lock().remove(a.int(0))?;
    let_go(caller, Some(removed));
    Ok(0)
}

/// close_range(2).
pub(super) fn close_range(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const CLOSE_RANGE_UNSHARE: u32 = 2;
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
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
        let_go(caller, removed);
    }
    Ok(0)
}
