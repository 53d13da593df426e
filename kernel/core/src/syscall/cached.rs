//! Reads and writes of files of which the node has a lease: between the program and the pages that its job has here
//! ([`crate::files::cache`]). What cannot be done here is done at the I/O node, from there on.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::Arguments;
use super::ranges::Ranges;
use super::read::{OFFSET_MAX, Progress};
use crate::errno::Errno;
use crate::executor;
use crate::files::cache::{COPY_BYTES_MAX, CachedFile, Taking};
use crate::files::{OpenFile, Shipped, flags};
use crate::memory::{AddressSpace, FileChange};
use crate::process::resources::INFINITY;
use crate::process::{Awaited, Caller, Immediate, Trouble};

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// There is nothing more to be done.
    Done,
    /// The rest is to be done at the I/O node.
    Strict,
}

/// Writes with one of these wait for the disk.
const WAITS_FOR_DISK: u32 = flags::O_SYNC | flags::O_DSYNC | flags::O_DIRECT;

/// Bytes that a read or a write copies without letting others have the core in between.
const COPIED_NOW_BYTES_MAX: u64 = 16 * 1024;

/// Bytes from which on a read goes past what is kept, of a file that is long ([`CachedFile::is_long`]) and that no
/// other rank here may read as well.
const READ_PAST_MIN: u64 = 512 * 1024;

/// Bytes from which on a write goes to the I/O node at once: what is as long need not wait for more.
const WRITTEN_LATER_MAX: u64 = 512 * 1024;

/// Reads into the ranges from where `progress` is on.
pub(super) async fn read(
    caller: Caller<'_>,
    shipped: &Shipped,
    ranges: &mut Ranges,
    progress: &mut Progress<'_>,
) -> Awaited<Ended> {
    let Some(cached) = shipped.cached() else { return Ok(Ended::Strict) };
    let reader = (&caller.process.client, shipped.handle);
    let is_long = ranges.left() >= READ_PAST_MIN && cached.is_long(progress.from);
    if is_long && caller.process.job.processes().len() == 1 {
        // It would be copied once more to be kept, and only the last of it could be.
        return Ok(Ended::Strict);
    }
    let mut missed_at = None;
    while ranges.left() > 0 {
        let at = progress.from + progress.done;
        if at >= OFFSET_MAX {
            return Ok(Ended::Done);
        }
        cached.ask(reader, &(at..at.saturating_add(ranges.left().min(COPY_BYTES_MAX as u64))));
        let taken = ranges.use_next(caller, |space, address, count| {
            let taking = cached.read(space, address, at, count)?;
            Ok((if let Taking::Copied(bytes) = taking { bytes } else { 0 }, taking))
        });
        match taken {
            Ok(Some(Taking::Copied(bytes))) => {
                caller.process.account.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
                progress.add(bytes as u64);
                if bytes == COPY_BYTES_MAX {
                    executor::yield_now().await;
                }
            }
            Ok(Some(Taking::End) | None) => return Ok(Ended::Done),
            Ok(Some(Taking::Missing)) if missed_at != Some(at) => {
                missed_at = Some(at);
                let wanted = at..at.saturating_add(ranges.left().min(COPY_BYTES_MAX as u64));
                cached.fetch(reader, &wanted).await;
            }
            Ok(Some(Taking::Missing | Taking::Full | Taking::Strict)) => return Ok(Ended::Strict),
            Err(Trouble::Fetch(fetch)) => caller.fetch_for_copy(&fetch).await?,
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Ok(Ended::Done)
}

/// read(2), where all of it is here, nobody waits for the offset, and it is little. `None`: it is to be made as others.
pub(super) fn read_now(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let file = file_to_read(caller, a)?;
    let _turn = file.try_turn()?;
    let offset = file.offset();
    let read = copy_now(caller, &file, offset, a)?;
    file.set_offset(offset + read);
    Some(Ok(read))
}

/// pread64(2), as [`read_now`].
pub(super) fn pread64_now(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let file = file_to_read(caller, a)?;
    copy_now(caller, &file, a.offset(3).ok()?, a).map(Ok)
}

fn file_to_read(caller: Caller<'_>, a: &Arguments) -> Option<Arc<OpenFile>> {
    let file = caller.process.files.lock().get(a.int(0)).ok()?;
    (file.is_readable() && file.as_shipped().is_some_and(|shipped| shipped.cached().is_some())).then_some(file)
}

fn copy_now(caller: Caller<'_>, file: &OpenFile, offset: u64, a: &Arguments) -> Option<u64> {
    let (address, count) = (a.get(1), a.get(2));
    let is_possible = AddressSpace::is_user_range(address, count) && offset < OFFSET_MAX - COPIED_NOW_BYTES_MAX;
    if !(1..=COPIED_NOW_BYTES_MAX).contains(&count) || !is_possible {
        return None;
    }
    let shipped = file.as_shipped()?;
    let cached = shipped.cached()?;
    let (read, is_whole) = cached.read_now(&caller.process.space.lock(), address, offset, count as usize)?;
    let read = read as u64;
    if !is_whole {
        // For those that follow.
        cached.ask((&caller.process.client, shipped.handle), &(offset..offset + count));
    }
    caller.process.account.bytes_read.fetch_add(read, Ordering::Relaxed);
    Some(read)
}

/// write(2), where nobody waits for the offset or the file, and it is little that is written later. `None`: it is to be
/// made as others.
pub(super) fn write_now(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let file = file_to_write(caller, a)?;
    let _turn = file.try_turn()?;
    let offset = file.offset();
    let written = take_now(caller, &file, offset, a)?;
    file.set_offset(offset + written);
    Some(Ok(written))
}

/// pwrite64(2), as [`write_now`].
pub(super) fn pwrite64_now(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let file = file_to_write(caller, a)?;
    take_now(caller, &file, a.offset(3).ok()?, a).map(Ok)
}

fn file_to_write(caller: Caller<'_>, a: &Arguments) -> Option<Arc<OpenFile>> {
    let file = caller.process.files.lock().get(a.int(0)).ok()?;
    let is_cached = file.as_shipped().is_some_and(|shipped| shipped.cached().is_some());
    let is_plain = file.flags() & WAITS_FOR_DISK == 0 && !file.appends();
    let is_unlimited = caller.process.limits.file_bytes() == INFINITY;
    (file.is_writable() && is_cached && is_plain && is_unlimited).then_some(file)
}

fn take_now(caller: Caller<'_>, file: &OpenFile, offset: u64, a: &Arguments) -> Option<u64> {
    let (address, count) = (a.get(1), a.get(2));
    let is_possible = AddressSpace::is_user_range(address, count) && offset < OFFSET_MAX - COPIED_NOW_BYTES_MAX;
    if !(1..=COPIED_NOW_BYTES_MAX).contains(&count) || !is_possible {
        return None;
    }
    let shipped = file.as_shipped()?;
    let cached = shipped.cached()?;
    let _turn = cached.try_turn()?;
    let writer = (&caller.process.client, shipped.handle);
    let mut done = 0;
    while done < count {
        let at = offset + done;
        let part = (address + done, (count - done) as usize);
        let taken = cached.write(writer, &mut caller.process.space.lock(), part, Some(at));
        let Ok((Taking::Copied(bytes), _)) = taken else { break };
        done += bytes as u64;
        wrote(caller, cached, at, bytes as u64);
    }
    // What is left is written once more, with what was: nobody else has had a turn.
    (done == count).then_some(count)
}

/// Bytes were taken to be written later.
fn wrote(caller: Caller<'_>, cached: &Arc<CachedFile>, at: u64, bytes: u64) {
    caller.process.account.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    caller.process.file_shown(cached.identity(), &FileChange::Written(at..at + bytes));
    caller.process.job.cache.wrote(cached);
}

/// Writes the ranges from where `progress` is on, or if it `appends` at the file's end, which then is where it was. To
/// be called in one's turn at the file.
pub(super) async fn write(
    caller: Caller<'_>,
    (file, shipped, cached): (&OpenFile, &Shipped, &Arc<CachedFile>),
    ranges: &mut Ranges,
    (progress, appends): (&mut Progress<'_>, bool),
) -> Awaited<Ended> {
    if file.flags() & WAITS_FOR_DISK != 0 || ranges.left() > WRITTEN_LATER_MAX {
        return Ok(Ended::Strict);
    }
    if let Some(lost) = cached.take_error() {
        return Err(lost.into());
    }
    let writer = (&caller.process.client, shipped.handle);
    let mut was_full = false;
    while ranges.left() > 0 {
        let at = progress.from + progress.done;
        if at > OFFSET_MAX {
            return Err(Errno::EFBIG.into());
        }
        let offset = if appends && progress.done == 0 { None } else { Some(at) };
        let taken = ranges.use_next(caller, |space, address, count| {
            let (taking, offset) = cached.write(writer, space, (address, count), offset)?;
            Ok((if let Taking::Copied(bytes) = taking { bytes } else { 0 }, (taking, offset)))
        });
        match taken {
            Ok(Some((Taking::Copied(bytes), offset))) => {
                was_full = false;
                if appends && progress.done == 0 {
                    progress.from = offset;
                }
                progress.add(bytes as u64);
                wrote(caller, cached, offset, bytes as u64);
            }
            Ok(None) => return Ok(Ended::Done),
            Ok(Some((Taking::Full, _))) if !was_full => {
                was_full = true;
                cached.make_room().await;
            }
            Ok(Some(_)) => return Ok(Ended::Strict),
            Err(Trouble::Fetch(fetch)) => caller.fetch_for_copy(&fetch).await?,
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Ok(Ended::Done)
}
