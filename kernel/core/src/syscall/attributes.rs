//! Changing what files are: length, space, mode, times; and waiting for the disk.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_protocol::ship::{Call, Location, Reply, TimeChange, Timestamp};

use super::Arguments;
use super::file_length::{is_limited, may_grow};
use super::place::{
    AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, Target, TargetOrFile, handle_of, read_target, read_target_or_file,
};
use super::shared;
use super::stat::{status_at, status_of};
use crate::abi::i64_at;
use crate::abi::signal::signed_pair;
use crate::abi::time::{SECOND_NS, fraction};
use crate::errno::Errno;
use crate::executor;
use crate::files::{Object, OpenFile, Shipped, Turn, flags};
use crate::memory::{FileChange, FileIdentity};
use crate::process::{Awaited, Caller};

/// Memory that fallocate(2) of a file in `/dev/shm` makes before others get the core, bytes.
const ALLOCATED_AT_ONCE: u64 = 1024 * 1024;

/// `FALLOC_FL_KEEP_SIZE`.
const FALLOC_FL_KEEP_SIZE: u32 = 0x01;

/// `FALLOC_FL_COLLAPSE_RANGE`, `FALLOC_FL_INSERT_RANGE`: what is behind moves.
const FALLOC_FL_MOVING: u32 = 0x08 | 0x20;

/// umask(2).
pub(super) fn umask(caller: Caller<'_>, a: &Arguments) -> u64 {
    caller.process.umask.swap(a.uint(0) & 0o777, Ordering::Relaxed).into()
}

/// truncate(2).
pub(super) async fn truncate(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let length = a.offset(1)?;
    match read_target(caller, AT_FDCWD, a.get(0)).await? {
        Target::Shipped(at) => truncate_at(caller, at, length).await,
        Target::Special(node) if node.is_directory() => Err(Errno::EISDIR.into()),
        Target::Special(_) => Err(Errno::EINVAL.into()),
        Target::Shared(name) => shared::truncate(caller, &name, length).await,
    }
}

async fn truncate_at(caller: Caller<'_>, at: Location, length: u64) -> Awaited {
    if is_limited(caller, length) {
        let status = status_of(caller, Target::Shipped(at.clone()), true).await?;
        may_grow(caller, status.size, length)?;
    }
    // As an open file, so that leases of others are given back first. What cannot be opened so says why itself.
    let flags = flags::O_WRONLY | flags::O_NONBLOCK;
    let Ok((Reply::Opened { handle, status, .. }, _)) = caller.ask(Call::Open { at: at.clone(), flags, mode: 0 }).await
    else {
        return caller.ship(Call::Truncate { at, length }).await;
    };
    let result = caller.ship(Call::HandleTruncate { file: handle, length }).await;
    let file = FileIdentity { device: status.device, inode: status.inode };
    match result {
        Ok(_) => caller.process.file_changed(file, &FileChange::Cut(length)),
        Err(_) => caller.process.job.cache.is_unsure(file),
    }
    // One that cannot be closed is closed with the rank.
    let _ = caller.ship(Call::Close(handle)).await;
    result
}

/// ftruncate(2).
pub(super) async fn ftruncate(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let length = a.offset(1)?;
    let file = open_file(caller, a)?;
    if !file.is_writable() || !file.is_regular() {
        return Err(Errno::EINVAL.into());
    }
    if is_limited(caller, length) {
        may_grow(caller, file.size(caller.process).await?, length)?;
    }
    if let Some(shared) = file.as_shared() {
        shared.set_length(length, &*caller.process.job).await?;
        return Ok(0);
    }
    let shipped = file.as_shipped().ok_or(Errno::EINVAL)?;
    let _turn = turn_at(shipped).await;
    let change = FileChange::Cut(length);
    let changing = caller.process.changing(shipped, change.clone());
    let result = caller.ship(Call::HandleTruncate { file: shipped.handle, length }).await;
    changing.is(result.is_ok().then_some(&change));
    result
}

/// One's turn at a file among those of the node who write to it, if these may write later.
async fn turn_at(shipped: &Shipped) -> Option<Turn<'_>> {
    match shipped.cached() {
        Some(cached) => cached.turn().await,
        None => None,
    }
}

/// fallocate(2).
pub(super) async fn fallocate(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = open_file(caller, a)?;
    let (offset, length) = (a.offset(2)?, a.offset(3)?);
    if length == 0 {
        return Err(Errno::EINVAL.into());
    }
    if !file.is_writable() {
        return Err(Errno::EBADF.into());
    }
    // What it is comes before how long it would be.
    match &file.object {
        Object::Pipe(_) | Object::Standard(_) => return Err(Errno::ESPIPE.into()),
        Object::Shipped(_) | Object::Shared(_) => {}
        _ => return Err(Errno::ENODEV.into()),
    }
    if i64::try_from(offset + length).is_err() {
        return Err(Errno::EFBIG.into());
    }
    if a.uint(1) & FALLOC_FL_KEEP_SIZE == 0 && file.is_regular() && is_limited(caller, offset + length) {
        may_grow(caller, file.size(caller.process).await?, offset + length)?;
    }
    match &file.object {
        Object::Shipped(shipped) => {
            // Holes, zeros, and whatever moves bytes about.
            let changed = if a.uint(1) & FALLOC_FL_MOVING != 0 { offset..u64::MAX } else { offset..offset + length };
            let _turn = turn_at(shipped).await;
            let change = match a.uint(1) {
                0 => FileChange::Written(changed),
                _ => FileChange::Inside(changed),
            };
            let changing = caller.process.changing(shipped, change.clone());
            let result = caller.ship(Call::Allocate { file: shipped.handle, mode: a.uint(1), offset, length }).await;
            // A length that becomes another is known by who opens it next.
            let keeps_length = a.uint(1) & FALLOC_FL_KEEP_SIZE != 0;
            if result.is_ok() && (a.uint(1) == 0 || keeps_length) {
                changing.is(Some(&change));
            }
            result
        }
        Object::Shared(shared) => {
            // In parts, with the core free for others in between. It grows when all of it is there.
            let (mut at, end) = (offset, offset + length);
            while at < end {
                let part = (end - at).min(ALLOCATED_AT_ONCE);
                shared.allocate(a.uint(1), at, part, at + part == end)?;
                at += part;
                executor::yield_now().await;
            }
            Ok(0)
        }
        _ => Err(Errno::ENODEV.into()),
    }
}

/// sync_file_range(2): for want of anything finer all of the file, once it is a range.
pub(super) async fn sync_file_range(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const FLAGS: u32 = 7;
    let file = open_file(caller, a)?;
    let (offset, end) = (a.get(1), a.get(1).wrapping_add(a.get(2)));
    let is_range = i64::try_from(offset).is_ok() && i64::try_from(end).is_ok() && end >= offset;
    if a.uint(3) & !FLAGS != 0 || !is_range {
        return Err(Errno::EINVAL.into());
    }
    if !file.is_regular() && !file.is_directory() {
        return Err(Errno::ESPIPE.into());
    }
    // Without a flag, nothing is to be done.
    if a.uint(3) == 0 { Ok(0) } else { fsync(caller, a, false).await }
}

/// fsync(2), fdatasync(2), and for want of anything finer syncfs(2).
pub(super) async fn fsync(caller: Caller<'_>, a: &Arguments, data_only: bool) -> Awaited {
    let file = open_file(caller, a)?;
    if file.as_shared().is_some() {
        return Ok(0);
    }
    let handle = handle_of(&file, Errno::EINVAL)?;
    let synchronised = caller.ship(Call::Synchronise { file: handle, data_only }).await;
    file.as_shipped()
        .and_then(Shipped::cached)
        .and_then(|cached| cached.take_error())
        .map_or(synchronised, |errno| Err(errno.into()))
}

/// The open file of the first argument; not one that stands for a place only.
fn open_file(caller: Caller<'_>, a: &Arguments) -> Result<Arc<OpenFile>, Errno> {
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() { Err(Errno::EBADF) } else { Ok(file) }
}

/// chmod(2).
pub(super) async fn chmod(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let target = read_target(caller, AT_FDCWD, a.get(0)).await?;
    change_mode(caller, target, a.uint(1)).await
}

/// fchmodat(2), which has no flags.
pub(super) async fn fchmodat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let target = read_target(caller, a.int(0), a.get(1)).await?;
    change_mode(caller, target, a.uint(2)).await
}

async fn change_mode(caller: Caller<'_>, target: Target, mode: u32) -> Awaited {
    match target {
        Target::Shared(name) => {
            caller.process.job.shared.find(&name)?.set_mode(mode);
            Ok(0)
        }
        target => caller.ship(Call::ChangeMode { at: target.into_location()?, mode: mode & 0o7777 }).await,
    }
}

async fn change_times(
    caller: Caller<'_>,
    target: Target,
    (accessed, modified): (TimeChange, TimeChange),
    follow: bool,
) -> Awaited {
    match target {
        Target::Shared(name) => {
            caller.process.job.shared.find(&name)?.set_times(accessed, modified);
            Ok(0)
        }
        target => caller.ship(Call::ChangeTimes { at: target.into_location()?, accessed, modified, follow }).await,
    }
}

/// fchmodat2(2). The mode of a link cannot be changed.
pub(super) async fn fchmodat2(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (mode, flags) = (a.uint(2) & 0o7777, a.uint(3));
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & AT_SYMLINK_NOFOLLOW != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    match read_target_or_file(caller, a.int(0), a.get(1), flags).await? {
        TargetOrFile::Target(target) => change_mode(caller, target, mode).await,
        TargetOrFile::File(file) => {
            if let Some(shared) = file.as_shared() {
                shared.set_mode(mode);
                return Ok(0);
            }
            let file = handle_of(&file, Errno::EPERM)?;
            caller.ship(Call::HandleChangeMode { file, mode }).await
        }
    }
}

/// fchmod(2).
pub(super) async fn fchmod(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = open_file(caller, a)?;
    if let Some(shared) = file.as_shared() {
        shared.set_mode(a.uint(1));
        return Ok(0);
    }
    let file = handle_of(&file, Errno::EPERM)?;
    caller.ship(Call::HandleChangeMode { file, mode: a.uint(1) & 0o7777 }).await
}

/// utimensat(2). Without a path, the descriptor's own file.
pub(super) async fn utimensat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(3);
    let times = match a.get(2) {
        0 => Ok((TimeChange::Now, TimeChange::Now)),
        address => {
            let times: [u8; 32] = caller.read_array(address).await?;
            parse_change(&times, 0).and_then(|accessed| Ok((accessed, parse_change(&times, 16)?)))
        }
    };
    if times == Ok((TimeChange::Omit, TimeChange::Omit)) {
        return Ok(0);
    }
    if a.get(1) == 0 && a.int(0) != AT_FDCWD {
        if flags != 0 {
            return Err(Errno::EINVAL.into());
        }
        let file = open_file(caller, a)?;
        let (accessed, modified) = times?;
        return change_own_times(caller, &file, accessed, modified).await;
    }
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if let Err(errno) = times {
        // The place must be there all the same, as on Linux.
        status_at(caller, a.int(0), a.get(1), flags).await?;
        return Err(errno.into());
    }
    let (accessed, modified) = times?;
    match read_target_or_file(caller, a.int(0), a.get(1), flags).await? {
        TargetOrFile::Target(target) => {
            change_times(caller, target, (accessed, modified), flags & AT_SYMLINK_NOFOLLOW == 0).await
        }
        TargetOrFile::File(file) => change_own_times(caller, &file, accessed, modified).await,
    }
}

async fn change_own_times(caller: Caller<'_>, file: &OpenFile, accessed: TimeChange, modified: TimeChange) -> Awaited {
    if let Some(shared) = file.as_shared() {
        shared.set_times(accessed, modified);
        return Ok(0);
    }
    let file = handle_of(file, Errno::EPERM)?;
    caller.ship(Call::HandleChangeTimes { file, accessed, modified }).await
}

/// A `struct timespec` of utimensat(2).
fn parse_change(bytes: &[u8], offset: usize) -> Result<TimeChange, Errno> {
    const UTIME_NOW: i64 = 0x3fff_ffff;
    const UTIME_OMIT: i64 = 0x3fff_fffe;
    match i64_at(bytes, offset + 8) {
        UTIME_NOW => Ok(TimeChange::Now),
        UTIME_OMIT => Ok(TimeChange::Omit),
        nanoseconds => time(i64_at(bytes, offset), nanoseconds, 1),
    }
}

/// A time of which the fraction comes in units of `unit_ns`.
fn time(seconds: i64, part: i64, unit_ns: u32) -> Result<TimeChange, Errno> {
    let part = fraction(part, SECOND_NS / u64::from(unit_ns))?;
    Ok(TimeChange::To(Timestamp { seconds, nanoseconds: part as u32 * unit_ns }))
}

/// utime(2): whole seconds.
pub(super) async fn utime(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (accessed, modified) = match a.get(1) {
        0 => (TimeChange::Now, TimeChange::Now),
        address => {
            let (accessed, modified) = signed_pair(&caller.read_array(address).await?);
            (time(accessed, 0, 1)?, time(modified, 0, 1)?)
        }
    };
    let target = read_target(caller, AT_FDCWD, a.get(0)).await?;
    change_times(caller, target, (accessed, modified), true).await
}

/// utimes(2): microseconds.
pub(super) async fn utimes(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (accessed, modified) = match a.get(1) {
        0 => (TimeChange::Now, TimeChange::Now),
        address => {
            let times: [u8; 32] = caller.read_array(address).await?;
            let of = |offset| time(i64_at(&times, offset), i64_at(&times, offset + 8), 1000);
            (of(0)?, of(16)?)
        }
    };
    let target = read_target(caller, AT_FDCWD, a.get(0)).await?;
    change_times(caller, target, (accessed, modified), true).await
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ship::{TimeChange, Timestamp};

    use super::{Errno, parse_change, time};
    use crate::abi::Record;

    #[test]
    fn times_are_parsed_as_linux_does() {
        let parse = |seconds, rest| parse_change(Record::<16>::new().i64(0, seconds).i64(8, rest).bytes(), 0);
        assert_eq!(parse(-5, 6), Ok(TimeChange::To(Timestamp { seconds: -5, nanoseconds: 6 })));
        assert_eq!(parse(9, libc::UTIME_NOW), Ok(TimeChange::Now));
        assert_eq!(parse(9, libc::UTIME_OMIT), Ok(TimeChange::Omit));
        assert_eq!(parse(9, 1_000_000_000), Err(Errno::EINVAL));
        assert_eq!(parse(9, -1), Err(Errno::EINVAL));
        assert_eq!(time(1, 999_999, 1000), Ok(TimeChange::To(Timestamp { seconds: 1, nanoseconds: 999_999_000 })));
        assert_eq!(time(1, 1_000_000, 1000), Err(Errno::EINVAL));
    }
}
