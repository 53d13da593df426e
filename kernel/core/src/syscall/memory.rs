//! Memory: brk(2), mmap(2) and what changes mappings.

use alloc::sync::Arc;

use coppice_hal::addr::PAGE_BYTES;

use super::Arguments;
use crate::errno::Errno;
use crate::files::{Device, Object, buffer};
use crate::memory::Backing;
use crate::process::{Caller, Immediate, Trouble};

const MAP_SHARED: u64 = 0x01;
const MAP_PRIVATE: u64 = 0x02;
const MAP_TYPE: u64 = 0x0f;
const MAP_ANONYMOUS: u64 = 0x20;
const PROT_WRITE: u64 = 2;

/// Pages that mincore(2) looks at in one call. It answers `EINVAL` beyond, because it never waits.
const MINCORE_PAGES_MAX: u64 = 65_536;

/// brk(2).
pub(super) fn brk(caller: Caller<'_>, a: &Arguments) -> u64 {
    caller.process.space.lock().set_break(a.get(0))
}

/// mmap(2).
pub(super) fn mmap(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (protection, flags, offset) = (a.get(2), a.get(3), a.get(5));
    if !offset.is_multiple_of(PAGE_BYTES as u64) {
        return Err(Errno::EINVAL.into());
    }
    let backing = if flags & MAP_ANONYMOUS != 0 { Backing::Zero } else { file_backing(caller, a, flags)? };
    Ok(caller.process.space.lock().map(a.get(0), a.get(1), protection, flags, backing)?)
}

fn file_backing(caller: Caller<'_>, a: &Arguments, flags: u64) -> Result<Backing, Errno> {
    let file = caller.process.files.lock().get(a.int(4))?;
    if file.is_path() {
        return Err(Errno::EBADF);
    }
    let kind = flags & MAP_TYPE;
    let shared_write = kind & MAP_SHARED != 0 && kind != MAP_PRIVATE && a.get(2) & PROT_WRITE != 0;
    if !file.is_readable() || shared_write && !file.is_writable() {
        return Err(Errno::EACCES);
    }
    match &file.object {
        Object::Device(Device::Zero) => Ok(Backing::Zero),
        Object::Shared(shared) => {
            Ok(Backing::Shared { memory: Arc::clone(&shared.memory), offset: a.get(5), may_write: file.is_writable() })
        }
        _ if file.is_regular() => Ok(Backing::File { file: Arc::clone(&file) as _, offset: a.get(5) }),
        _ => Err(Errno::ENODEV),
    }
}

/// munmap(2).
pub(super) fn munmap(caller: Caller<'_>, a: &Arguments) -> Immediate {
    caller.process.space.lock().unmap(a.get(0), a.get(1))?;
    Ok(0)
}

/// mprotect(2).
pub(super) fn mprotect(caller: Caller<'_>, a: &Arguments) -> Immediate {
    caller.process.space.lock().protect(a.get(0), a.get(1), a.get(2))?;
    Ok(0)
}

/// mremap(2).
pub(super) fn mremap(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Ok(caller.process.space.lock().remap(a.get(0), a.get(1), a.get(2), a.get(3), a.get(4))?)
}

/// madvise(2).
pub(super) fn madvise(caller: Caller<'_>, a: &Arguments) -> Immediate {
    // The advice is a C `int`.
    caller.process.space.lock().advise(a.get(0), a.get(1), a.uint(2).into())?;
    Ok(0)
}

/// mincore(2): which pages are there without being touched. Only what was never mapped is told apart (`ENOMEM`): every
/// page a program has touched stays, so all that are mapped are reported as there.
pub(super) fn mincore(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (address, length) = page_range(a)?;
    let pages = length / PAGE_BYTES as u64;
    if pages > MINCORE_PAGES_MAX {
        return Err(Errno::EINVAL.into());
    }
    if !caller.process.space.lock().is_mapped(address, length) {
        return Err(Errno::ENOMEM.into());
    }
    let mut there = buffer(pages as usize)?;
    there.fill(1);
    caller.put(a.get(2), &there)?;
    Ok(0)
}

/// msync(2): private mappings have nothing to write back.
pub(super) fn msync(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const MS_ASYNC: u64 = 1;
    const MS_INVALIDATE: u64 = 2;
    const MS_SYNC: u64 = 4;
    let flags = a.get(2);
    if flags & !(MS_ASYNC | MS_INVALIDATE | MS_SYNC) != 0 || flags & MS_ASYNC != 0 && flags & MS_SYNC != 0 {
        return Err(Errno::EINVAL.into());
    }
    lock(caller, a)
}

/// mlock(2), munlock(2): nothing is ever taken from memory, so only the range is looked at.
pub(super) fn lock(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let start = a.get(0) & !(PAGE_BYTES as u64 - 1);
    let length = a.get(1).checked_add(a.get(0) - start).ok_or(Errno::EINVAL)?;
    if length > 0 && !caller.process.space.lock().is_mapped(start, length) {
        return Err(Errno::ENOMEM.into());
    }
    Ok(0)
}

/// Address and length of whole pages.
fn page_range(a: &Arguments) -> Result<(u64, u64), Trouble> {
    let address = a.get(0);
    if !address.is_multiple_of(PAGE_BYTES as u64) {
        return Err(Errno::EINVAL.into());
    }
    let length = a.get(1).checked_next_multiple_of(PAGE_BYTES as u64).ok_or(Errno::ENOMEM)?;
    Ok((address, length))
}
