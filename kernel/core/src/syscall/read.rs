//! Reading: read(2), pread64(2), readv(2), preadv(2), preadv2(2).
//!
//! A long read of a file is made in parts of [`BULK_BYTES_MAX`], several of which are under way at once. What comes
//! behind a short part or an error is forgotten, and the offset moves by what was given to the program alone.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::{Call, Reply};

use super::cached::{self, Ended};
use super::ranges::{Ranges, part};
use super::stream::{How, read_stream};
use super::{Arguments, signal_file};
use crate::errno::Errno;
use crate::executor::{self, Phase};
use crate::files::pipeline::Pipeline;
use crate::files::{Device, Input, Object, OpenFile, Standard, buffer};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure};

/// Parts of a long transfer that are under way at once.
pub(super) const PARTS_UNDER_WAY: usize = 4;

/// Highest offset a file can have, bytes.
pub(super) const OFFSET_MAX: u64 = i64::MAX as u64;

/// read(2).
pub(super) async fn read(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = open_for_reading(caller, a)?;
    let mut ranges = Ranges::one(a.get(1), a.get(2))?;
    // What they give has its length.
    if ranges.left() == 0 && matches!(file.object, Object::Event(_) | Object::Timer(_) | Object::Signals(_)) {
        return Err(Errno::EINVAL.into());
    }
    read_into(caller, &file, None, &mut ranges).await
}

/// pread64(2).
pub(super) async fn pread64(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let offset = a.offset(3)?;
    has_places(caller, a)?;
    let file = open_for_reading(caller, a)?;
    let mut ranges = Ranges::one(a.get(1), a.get(2))?;
    read_into(caller, &file, Some(offset), &mut ranges).await
}

/// readv(2).
pub(super) async fn readv(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = open_for_reading(caller, a)?;
    let mut ranges = Ranges::read(caller, a.get(1), a.get(2)).await?;
    read_into(caller, &file, None, &mut ranges).await
}

/// preadv(2).
pub(super) async fn preadv(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let offset = a.offset(3)?;
    has_places(caller, a)?;
    let file = open_for_reading(caller, a)?;
    let mut ranges = Ranges::read(caller, a.get(1), a.get(2)).await?;
    read_into(caller, &file, Some(offset), &mut ranges).await
}

/// preadv2(2). Of its flags, only "do not wait" changes anything: what comes from the I/O node would have to be waited
/// for, so there it is not taken.
pub(super) async fn preadv2(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const RWF_NOWAIT: u32 = 8;
    const RWF_ALL: u32 = 31;
    let offset = offset_or_own(caller, a)?;
    let file = open_for_reading(caller, a)?;
    let mut ranges = Ranges::read(caller, a.get(1), a.get(2)).await?;
    check_end(&file, offset, ranges.left())?;
    let at_once = a.uint(5) & RWF_NOWAIT != 0;
    let may_wait = !matches!(file.object, Object::Shared(_)) && file.as_stream().is_none();
    if ranges.left() > 0 && (a.uint(5) & !RWF_ALL != 0 || at_once && may_wait) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if let Some(stream) = file.as_stream().filter(|_| at_once && offset.is_none() && ranges.left() > 0) {
        let how = How { deadline_ns: 0, ..How::reading(caller, &file) };
        return read_stream(caller, &file, stream, &mut ranges, how).await.map(|taken| taken.copied as u64);
    }
    read_into(caller, &file, offset, &mut ranges).await
}

/// Looks whether what the first argument stands for has places to read from or write to: that comes before whether it
/// may be read or written.
///
/// # Errors
/// `ESPIPE`, and `EBADF`: it stands for nothing.
pub(super) fn has_places(caller: Caller<'_>, a: &Arguments) -> Result<(), Errno> {
    let file = caller.process.files.lock().get(a.int(0))?;
    if !file.is_path() && file.has_no_offsets() { Err(Errno::ESPIPE) } else { Ok(()) }
}

/// Where preadv2(2) and pwritev2(2) begin; `None`: where the file was left.
pub(super) fn offset_or_own(caller: Caller<'_>, a: &Arguments) -> Result<Option<u64>, Errno> {
    if a.get(3) == u64::MAX {
        return Ok(None);
    }
    let offset = a.offset(3)?;
    has_places(caller, a)?;
    Ok(Some(offset))
}

fn open_for_reading(caller: Caller<'_>, a: &Arguments) -> Result<Arc<OpenFile>, Errno> {
    let file = caller.file(a.int(0))?;
    if !file.is_readable() {
        return Err(Errno::EBADF);
    }
    if file.is_directory() { Err(Errno::EISDIR) } else { Ok(file) }
}

/// Whether so many bytes, at `at` or where the file was left, end where a file can.
///
/// # Errors
/// `EINVAL`: they do not.
pub(super) fn check_end(file: &OpenFile, at: Option<u64>, length: u64) -> Result<(), Errno> {
    let start = at.unwrap_or_else(|| file.offset());
    let is_possible = start.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok());
    if is_possible || file.has_no_offsets() { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Reads into the ranges, at `at` or at the file's own offset, which then moves.
async fn read_into(caller: Caller<'_>, file: &OpenFile, at: Option<u64>, ranges: &mut Ranges) -> Awaited {
    if at.is_some() && file.has_no_offsets() {
        return Err(Errno::ESPIPE.into());
    }
    if ranges.left() == 0 {
        return Ok(0);
    }
    check_end(file, at, ranges.left())?;
    if let Some(stream) = file.as_stream() {
        return read_stream(caller, file, stream, ranges, How::reading(caller, file))
            .await
            .map(|taken| taken.copied as u64);
    }
    match &file.object {
        Object::Standard(Standard::Input(input)) => read_input(caller, file, input, ranges).await,
        Object::Standard(_) => Err(Errno::EBADF.into()),
        Object::Signals(signals) => signal_file::read(caller, file, signals, ranges).await,
        Object::Device(device) => read_device(caller, *device, ranges).await,
        Object::Special(_) => Err(Errno::EISDIR.into()),
        Object::Pipe(_)
        | Object::Pair(_)
        | Object::Socket(_)
        | Object::Netlink(_)
        | Object::Event(_)
        | Object::Timer(_)
        | Object::Poller(_)
        | Object::Service(_) => Err(Errno::EINVAL.into()),
        Object::Shipped(_)
        | Object::Text(..)
        | Object::Asks(..)
        | Object::Counters(..)
        | Object::Program(_)
        | Object::Shared(_) => {
            let _turn = if at.is_none() { Some(file.turn().await) } else { None };
            let from = at.unwrap_or_else(|| file.offset());
            let mut progress = Progress { caller, file, moves: at.is_none(), from, done: 0 };
            let result = read_file(caller, file, ranges, &mut progress).await;
            progress.finish(result)
        }
    }
}

/// How far a transfer is.
pub(super) struct Progress<'a> {
    pub(super) caller: Caller<'a>,
    pub(super) file: &'a OpenFile,
    /// The file's own offset moves with it.
    pub(super) moves: bool,
    /// Offset it began at, bytes.
    pub(super) from: u64,
    /// Bytes done.
    pub(super) done: u64,
}

impl Progress<'_> {
    /// That many bytes more are done.
    pub(super) fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if self.moves {
            self.file.set_offset(self.from + self.done);
        }
        self.caller.completed(self.done);
    }

    /// The call's result: an error counts only if nothing was done before.
    pub(super) fn finish(&self, result: Awaited<()>) -> Awaited {
        match result {
            Err(Failure::Errno(_)) if self.done > 0 => Ok(self.done),
            Err(failure) => Err(failure),
            Ok(()) => Ok(self.done),
        }
    }
}

async fn read_file(
    caller: Caller<'_>,
    file: &OpenFile,
    ranges: &mut Ranges,
    progress: &mut Progress<'_>,
) -> Awaited<()> {
    if let Some(shipped) = file.as_shipped()
        && cached::read(caller, shipped, ranges, progress).await? == Ended::Done
    {
        return Ok(());
    }
    read_parts(caller, file, ranges, progress).await
}

async fn read_parts(
    caller: Caller<'_>,
    file: &OpenFile,
    ranges: &mut Ranges,
    progress: &mut Progress<'_>,
) -> Awaited<()> {
    let from = progress.from + progress.done;
    let end = from.saturating_add(ranges.left()).min(OFFSET_MAX);
    let mut asked = from;
    let mut lengths = alloc::collections::VecDeque::new();
    let mut parts = Pipeline::new();
    loop {
        while asked < end && parts.len() < PARTS_UNDER_WAY {
            let length = usize::try_from(end - asked).map_or(BULK_BYTES_MAX, |left| left.min(BULK_BYTES_MAX));
            let at = asked;
            let (length, charge) = part(caller, length);
            if charge.is_none() && parts.len() > 0 {
                break;
            }
            parts.push(async move {
                let bytes = file.read_at(caller.process, at, length).await?;
                Ok((Reply::Data, bytes))
            });
            lengths.push_back((length, charge));
            asked += length as u64;
        }
        let Some((length, _charge)) = lengths.pop_front() else { return Ok(()) };
        let (_, bytes) = parts.next().await?;
        let (copied, result) = ranges.scatter(caller, &bytes).await;
        if file.as_shipped().is_some() {
            caller.process.account.bytes_read.fetch_add(copied, Ordering::Relaxed);
        }
        progress.add(copied);
        result?;
        if bytes.len() < length {
            return Ok(());
        }
    }
}

/// Standard input gives what there is, however little.
async fn read_input(caller: Caller<'_>, file: &OpenFile, input: &Input, ranges: &mut Ranges) -> Awaited {
    let length = usize::try_from(ranges.left()).map_or(BULK_BYTES_MAX, |left| left.min(BULK_BYTES_MAX));
    let (length, _charge) = part(caller, length);
    let length = length as u32;
    let waits = !file.is_nonblocking();
    // One thread asks for all that wait.
    let _turn =
        if waits { Some(caller.interruptible(Phase::Input, Patience::Endless, input.turn()).await?) } else { None };
    let mut bytes = loop {
        let count = input.bell().count();
        input.forget();
        // What comes is taken from the input whoever waits for it, so signals interrupt only the wait behind this.
        caller.thread.waits_for(Phase::Input);
        let asked = caller.ask(Call::Input { length }).await;
        caller.thread.waits_for(Phase::File);
        // What another thread was told meanwhile may have been about these bytes.
        input.forget();
        match asked? {
            (Reply::Later, _) if waits => {
                caller.interruptible(Phase::Input, Patience::Endless, input.bell().rung_since(count)).await?;
            }
            (Reply::Later, _) => return Err(Errno::EAGAIN.into()),
            (_, bytes) => break bytes,
        }
    };
    bytes.truncate(length as usize);
    caller.process.account.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let (copied, result) = ranges.scatter(caller, &bytes).await;
    match result {
        Err(Failure::Errno(_)) if copied > 0 => Ok(copied),
        Err(failure) => Err(failure),
        Ok(()) => Ok(copied),
    }
}

/// Devices give as much as is asked for, in parts, with the core free for others in between.
async fn read_device(caller: Caller<'_>, device: Device, ranges: &mut Ranges) -> Awaited {
    const PART_BYTES: usize = 64 * 1024;
    let mut done = 0;
    let length = usize::try_from(ranges.left()).map_or(PART_BYTES, |left| left.min(PART_BYTES));
    let (length, _charge) = part(caller, length);
    let mut part = buffer(length)?;
    while ranges.left() > 0 {
        let length = usize::try_from(ranges.left()).map_or(part.len(), |left| left.min(part.len()));
        let given = device.read(&mut part[..length]);
        if given == 0 {
            break;
        }
        let (copied, result) = ranges.scatter(caller, &part[..given]).await;
        done += copied;
        caller.completed(done);
        match result {
            Ok(()) => {}
            Err(Failure::Errno(_)) if done > 0 => break,
            Err(failure) => return Err(failure),
        }
        if ranges.left() > 0 {
            executor::yield_now().await;
        }
    }
    Ok(done)
}
