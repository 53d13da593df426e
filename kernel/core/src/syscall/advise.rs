//! madvise(2) that brings pages in. In parts, with the core free for others in between.

use coppice_hal::addr::{PAGE_BYTES, USER_END};
use coppice_hal::paging::Access;

use super::Arguments;
use crate::errno::Errno;
use crate::executor;
use crate::memory::CopyError;
use crate::process::{Awaited, Caller};

/// `MADV_*`.
const POPULATE_READ: u32 = 22;
const POPULATE_WRITE: u32 = 23;

/// Bytes that are looked at before others get the core.
const AT_ONCE: u64 = 256 * 1024;

/// Whether this advice is taken here.
pub(crate) fn brings_pages(a: &Arguments) -> bool {
    matches!(a.uint(2), POPULATE_READ | POPULATE_WRITE)
}

/// madvise(2), with such advice.
pub(super) async fn madvise(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let page = PAGE_BYTES as u64;
    let (start, length) = (a.get(0), a.get(1).checked_next_multiple_of(page).ok_or(Errno::EINVAL)?);
    let end = start.checked_add(length).filter(|_| start.is_multiple_of(page)).ok_or(Errno::EINVAL)?;
    if end > USER_END {
        return Err(Errno::ENOMEM.into());
    }
    let mut at = start;
    while at < end {
        let next = end.min(at + AT_ONCE);
        populate(caller, at, next, a.uint(2) == POPULATE_WRITE).await?;
        at = next;
        executor::yield_now().await;
    }
    Ok(0)
}

/// Has the pages of a range there, one after the other: what is wrong with the first is told.
async fn populate(caller: Caller<'_>, mut at: u64, end: u64, writes: bool) -> Awaited<()> {
    let access = if writes { Access::WRITE } else { Access::READ };
    while at < end {
        let touched = {
            let mut space = caller.process.space.lock();
            if !space.is_mapped(at, PAGE_BYTES as u64) {
                return Err(Errno::ENOMEM.into());
            }
            if !space.may_access(at, access) {
                return Err(Errno::EINVAL.into());
            }
            space.touch(at, PAGE_BYTES, access)
        };
        match touched {
            Ok(()) => at += PAGE_BYTES as u64,
            Err(CopyError::Fetch { fetch, .. }) => caller.fetch_for_copy(&fetch).await?,
            Err(CopyError::Fault { .. }) => return Err(Errno::EFAULT.into()),
            Err(CopyError::OutOfMemory) => return Err(Errno::ENOMEM.into()),
        }
    }
    Ok(())
}
