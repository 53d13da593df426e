//! Memory: brk(2), mmap(2) and what changes mappings.

use alloc::sync::{Arc, Weak};
use core::any::Any;

use coppice_hal::addr::{PAGE_BYTES, USER_END, UserPage};
use coppice_hal::paging::Access;
use coppice_protocol::ship::Call;

use super::Arguments;
use crate::errno::Errno;
use crate::executor;
use crate::files::cache::Mappers;
use crate::files::{Device, Object, OpenFile, buffer};
use crate::memory::{AddressSpace, Backing, FileIdentity};
use crate::process::{Awaited, Caller, Immediate, Trouble, Unfinished};

const MAP_SHARED: u64 = 0x01;
const MAP_PRIVATE: u64 = 0x02;
const MAP_SHARED_VALIDATE: u64 = 0x03;
const MAP_TYPE: u64 = 0x0f;
const MAP_ANONYMOUS: u64 = 0x20;
const PROT_WRITE: u64 = 2;

/// Pages that mincore(2) looks at before others get the core.
const MINCORE_PAGES_AT_ONCE: u64 = 4096;

/// How far a call is that changes what is mapped.
pub(crate) enum Memory {
    /// It is done.
    Done(u64),
    /// What is mapped is so, but pages are left to be taken away, changed or brought in.
    Unfinished(Unfinished),
}

/// Changes what is mapped when no other change is under way: until then the call is to be made again.
fn change(
    caller: Caller<'_>,
    change: impl FnOnce(&mut AddressSpace) -> Result<u64, Errno>,
    populate: impl FnOnce(u64) -> Option<(u64, u64, Access)>,
) -> Immediate<Memory> {
    let mut space = caller.process.space.lock();
    if !space.may_change() {
        return Err(Trouble::Fetch(space.await_change(0)));
    }
    let result = change(&mut space);
    let populate = result.ok().and_then(populate);
    match (space.unfinished(), populate) {
        (None, None) => Ok(Memory::Done(result?)),
        (change, populate) => {
            let value = result.unwrap_or_else(Errno::to_rax);
            Ok(Memory::Unfinished(Unfinished { value, change, populate }))
        }
    }
}

/// brk(2).
pub(super) fn brk(caller: Caller<'_>, a: &Arguments) -> Immediate<Memory> {
    change(caller, |space| Ok(space.set_break(a.get(0))), |_| None)
}

/// mmap(2).
pub(super) fn mmap(caller: Caller<'_>, a: &Arguments) -> Immediate<Memory> {
    let (protection, flags, offset) = (a.get(2), a.get(3), a.get(5));
    if !offset.is_multiple_of(PAGE_BYTES as u64) {
        return Err(Errno::EINVAL.into());
    }
    let populate = |start: u64| {
        let access = AddressSpace::populates(protection, flags)?;
        Some((start, start.saturating_add(a.get(1)), access))
    };
    if flags & MAP_ANONYMOUS != 0 {
        let map = |space: &mut AddressSpace| space.map(a.get(0), a.get(1), protection, flags, Backing::Zero);
        return change(caller, map, populate);
    }
    let file = caller.process.files.lock().get(a.int(4))?;
    let backing = match file_backing(caller, &file, a, flags) {
        Ok(backing) => backing,
        Err(Errno::EBADF) => return Err(Errno::EBADF.into()),
        Err(errno) => {
            // What is wrong with the place comes first, as on Linux.
            caller.process.space.lock().place_for(a.get(0), a.get(1), flags)?;
            let overflows = offset.checked_add(a.get(1)).is_none_or(|end| i64::try_from(end).is_err());
            let is_a_kind = matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE | MAP_PRIVATE);
            return Err(match errno {
                _ if overflows => Errno::EOVERFLOW,
                _ if !is_a_kind => Errno::EINVAL,
                errno => errno,
            }
            .into());
        }
    };
    let may_write = matches!(backing, Backing::Shared { may_write: true, .. });
    let map = |space: &mut AddressSpace| {
        let address = space.map(a.get(0), a.get(1), protection, flags, backing)?;
        // Another thread may have sealed it meanwhile, and was not to be kept from it by a mapping that came too late.
        let is_sealed = || file.as_shared().is_some_and(|file| !file.may_be_shown_to_be_written());
        if may_write && shows_shared(flags) && is_sealed() {
            space.unmap(address, a.get(1))?;
            return Err(Errno::EPERM);
        }
        Ok(address)
    };
    change(caller, map, populate)
}

/// Whether a mapping with these flags shows what others write.
fn shows_shared(flags: u64) -> bool {
    matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE)
}

fn file_backing(caller: Caller<'_>, file: &Arc<OpenFile>, a: &Arguments, flags: u64) -> Result<Backing, Errno> {
    if file.is_path() {
        return Err(Errno::EBADF);
    }
    let shared_write = shows_shared(flags) && a.get(2) & PROT_WRITE != 0;
    if !file.is_readable() || shared_write && !file.is_writable() {
        return Err(Errno::EACCES);
    }
    match &file.object {
        Object::Device(Device::Zero) => Ok(Backing::Zero),
        Object::Shared(shared) => {
            let is_open = shared.may_be_shown_to_be_written();
            if shared_write && !is_open {
                return Err(Errno::EPERM);
            }
            let may_write = file.is_writable() && is_open;
            Ok(Backing::Shared { memory: Arc::clone(&shared.memory), offset: a.get(5), may_write })
        }
        Object::Shipped(shipped) if shows_shared(flags) && file.is_regular() => {
            let cached = shipped.cached().ok_or(Errno::ENODEV)?;
            let may_write = file.is_writable();
            if may_write && !cached.may_be_mapped(shipped.client(), shipped.handle) {
                return Err(Errno::ENOMEM);
            }
            caller.process.maps_files();
            let mappers: Weak<dyn Mappers> = Arc::downgrade(&(Arc::clone(&caller.process.job) as Arc<dyn Mappers>));
            caller.process.job.cache.writes_back_mapped()?;
            let memory = cached.memory(&mappers);
            Ok(Backing::Mapped { memory, file: Arc::clone(file) as _, offset: a.get(5), may_write })
        }
        _ if file.is_regular() => {
            caller.process.maps_files();
            Ok(Backing::File { file: Arc::clone(file) as _, offset: a.get(5) })
        }
        _ => Err(Errno::ENODEV),
    }
}

/// munmap(2).
pub(super) fn munmap(caller: Caller<'_>, a: &Arguments) -> Immediate<Memory> {
    change(caller, |space| space.unmap(a.get(0), a.get(1)).map(|()| 0), |_| None)
}

/// mprotect(2).
pub(super) fn mprotect(caller: Caller<'_>, a: &Arguments) -> Immediate<Memory> {
    change(caller, |space| space.protect(a.get(0), a.get(1), a.get(2)).map(|()| 0), |_| None)
}

/// mremap(2).
pub(super) fn mremap(caller: Caller<'_>, a: &Arguments) -> Immediate<Memory> {
    change(caller, |space| space.remap(a.get(0), a.get(1), a.get(2), a.get(3), a.get(4)), |_| None)
}

/// madvise(2).
pub(super) fn madvise(caller: Caller<'_>, a: &Arguments) -> Immediate<Memory> {
    // The advice is a C `int`.
    change(caller, |space| space.advise(a.get(0), a.get(1), a.uint(2).into()).map(|()| 0), |_| None)
}

/// mincore(2): which pages are in memory. In parts, with the core free for others in between.
pub(super) async fn mincore(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (address, length) = page_range(a)?;
    let end = address.checked_add(length).filter(|end| *end <= USER_END).ok_or(Errno::ENOMEM)?;
    let mut at = address;
    caller.thread.keep((length / PAGE_BYTES as u64).min(MINCORE_PAGES_AT_ONCE) as usize)?;
    while at < end {
        let part = (end - at).min(MINCORE_PAGES_AT_ONCE * PAGE_BYTES as u64);
        let mut there = buffer((part / PAGE_BYTES as u64) as usize)?;
        {
            let space = caller.process.space.lock();
            if !space.is_mapped(at, part) {
                return Err(Errno::ENOMEM.into());
            }
            for (page, there) in there.iter_mut().enumerate() {
                let page = UserPage::containing(at + (page * PAGE_BYTES) as u64);
                *there = page.is_some_and(|page| space.table().lookup(page).is_some()).into();
            }
        }
        caller.write(a.get(2).wrapping_add((at - address) / PAGE_BYTES as u64), &there).await?;
        at += part;
        executor::yield_now().await;
    }
    Ok(0)
}

/// msync(2): what was written of files in the range is written back, and is on the disk. What is not waited for is
/// written back in a while anyhow.
pub(super) async fn msync(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const MS_ASYNC: u64 = 1;
    const MS_INVALIDATE: u64 = 2;
    const MS_SYNC: u64 = 4;
    let flags = a.get(2);
    let is_unknown =
        flags & !(MS_ASYNC | MS_INVALIDATE | MS_SYNC) != 0 || flags & MS_ASYNC != 0 && flags & MS_SYNC != 0;
    if is_unknown || !a.get(0).is_multiple_of(PAGE_BYTES as u64) {
        return Err(Errno::EINVAL.into());
    }
    let start = a.get(0);
    let length = a.get(1).wrapping_add(PAGE_BYTES as u64 - 1) & !(PAGE_BYTES as u64 - 1);
    if length > 0 && !caller.process.space.lock().is_mapped(start, length) {
        return Err(Errno::ENOMEM.into());
    }
    let end = start.saturating_add(length);
    let mut next = (flags & MS_SYNC != 0).then(|| file_mapped_in(caller, start, end, None)).flatten();
    while let Some((file, identity)) = next {
        synchronise(caller, &file).await?;
        next = file_mapped_in(caller, start, end, Some(identity));
    }
    Ok(0)
}

/// The first file that is mapped shared in a range, behind one.
fn file_mapped_in(
    caller: Caller<'_>,
    start: u64,
    end: u64,
    behind: Option<FileIdentity>,
) -> Option<(Arc<OpenFile>, FileIdentity)> {
    let space = caller.process.space.lock();
    let files = space.mapped_files(start, end).map(|file| (file, file.identity()));
    let (file, identity) = files.filter(|(_, file)| Some(*file) > behind).min_by_key(|(_, file)| *file)?;
    let file: Arc<dyn Any + Send + Sync> = Arc::clone(file) as _;
    Some((file.downcast::<OpenFile>().ok()?, identity))
}

/// Writes back what is written of a mapped file, and has it be on the disk.
async fn synchronise(caller: Caller<'_>, file: &OpenFile) -> Awaited<()> {
    let Some((shipped, cached)) = file.as_shipped().and_then(|shipped| Some((shipped, shipped.cached()?))) else {
        return Ok(());
    };
    cached.settle().await;
    let synchronised = caller.ship(Call::Synchronise { file: shipped.handle, data_only: true }).await;
    if let Some(lost) = cached.take_error() {
        return Err(lost.into());
    }
    synchronised.map(drop)
}

/// mlock(2), munlock(2): nothing is ever taken from memory, so only the range is looked at.
pub(super) fn lock(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const IN_PAGE: u64 = PAGE_BYTES as u64 - 1;
    let start = a.get(0) & !IN_PAGE;
    // A length that is more than there can be comes round to nothing, on Linux too.
    let length = a.get(1).wrapping_add(a.get(0) - start).wrapping_add(IN_PAGE) & !IN_PAGE;
    if start.checked_add(length).is_none() {
        return Err(Errno::EINVAL.into());
    }
    if length > 0 && !caller.process.space.lock().is_mapped(start, length) {
        return Err(Errno::ENOMEM.into());
    }
    Ok(0)
}

/// Address and length of whole pages.
fn page_range(a: &Arguments) -> Result<(u64, u64), Errno> {
    let address = a.get(0);
    if !address.is_multiple_of(PAGE_BYTES as u64) {
        return Err(Errno::EINVAL);
    }
    let length = a.get(1).checked_next_multiple_of(PAGE_BYTES as u64).ok_or(Errno::ENOMEM)?;
    Ok((address, length))
}
