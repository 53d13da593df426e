//! Writing: write(2), pwrite64(2), writev(2), pwritev(2), pwritev2(2).
//!
//! A long write to a file is made in parts of [`BULK_BYTES_MAX`], several of which are under way at once unless it
//! appends. After a short part or an error the call waits for the parts behind it, counts none of them, and the offset
//! moves by what was written without a gap. (Bytes behind that may have been written; a program that writes on at its
//! offset writes over them.)

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::{Call, Reply, Stream};

use super::cached::{self, Ended};
use super::file_length::may_write;
use super::ranges::Ranges;
use super::read::{OFFSET_MAX, PARTS_UNDER_WAY, Progress, check_end, has_places, offset_or_own};
use super::stream::{How, write_bytes, write_stream};
use super::{Arguments, thread};
use crate::errno::Errno;
use crate::executor::{self, Phase};
use crate::files::counters::WRITE_BYTES_MAX;
use crate::files::pipeline::Pipeline;
use crate::files::special::Text;
use crate::files::stream::Shape;
use crate::files::{Object, OpenFile, Shipped, Standard};
use crate::memory::FileChange;
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure};
use crate::ship::Printing;

/// Longest name of a thread, bytes, as on Linux: what is behind is not looked at.
const THREAD_NAME_BYTES_MAX: usize = 15;

const RWF_HIPRI: u32 = 1;
const RWF_DSYNC: u32 = 2;
const RWF_SYNC: u32 = 4;
const RWF_APPEND: u32 = 16;

/// write(2).
pub(super) async fn write(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = open_for_writing(caller, a)?;
    let mut ranges = Ranges::one(a.get(1), a.get(2))?;
    if ranges.left() == 0
        && !matches!(file.object, Object::Pipe(_))
        && let Some(stream) = file.as_stream()
    {
        // An empty message is one, and nothing is no number. No bytes at all are none, but may be refused.
        let how = How { deadline_ns: 0, ..How::writing(caller, &file) };
        return match write_stream(caller, &file, stream, &mut ranges, how).await {
            Err(Failure::Errno(Errno::EAGAIN)) if stream.shape() == Shape::Bytes => Ok(0),
            other => other,
        };
    }
    write_from(caller, &file, None, &mut ranges).await
}

/// pwrite64(2). As on Linux, an appending file's write goes to its end all the same.
pub(super) async fn pwrite64(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let offset = a.offset(3)?;
    has_places(caller, a)?;
    let file = open_for_writing(caller, a)?;
    let mut ranges = Ranges::one(a.get(1), a.get(2))?;
    write_from(caller, &file, Some(offset), &mut ranges).await
}

/// writev(2).
pub(super) async fn writev(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = open_for_writing(caller, a)?;
    let mut ranges = Ranges::read(caller, a.get(1), a.get(2)).await?;
    write_from(caller, &file, None, &mut ranges).await
}

/// pwritev(2).
pub(super) async fn pwritev(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let offset = a.offset(3)?;
    has_places(caller, a)?;
    let file = open_for_writing(caller, a)?;
    let mut ranges = Ranges::read(caller, a.get(1), a.get(2)).await?;
    write_from(caller, &file, Some(offset), &mut ranges).await
}

/// pwritev2(2): with "append" and "wait for the disk"; not with "do not wait".
pub(super) async fn pwritev2(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let offset = offset_or_own(caller, a)?;
    let file = open_for_writing(caller, a)?;
    let flags = a.uint(5);
    let mut ranges = Ranges::read(caller, a.get(1), a.get(2)).await?;
    if ranges.left() == 0 {
        return Ok(0);
    }
    check_end(&file, offset, ranges.left())?;
    if flags & !(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND) != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let written = if flags & RWF_APPEND != 0 && file.is_regular() {
        append(caller, &file, offset.is_none(), &mut ranges).await?
    } else {
        write_from(caller, &file, offset, &mut ranges).await?
    };
    if flags & (RWF_DSYNC | RWF_SYNC) != 0
        && let Some(shipped) = file.as_shipped()
    {
        let data_only = flags & RWF_SYNC == 0;
        caller.ship(Call::Synchronise { file: shipped.handle, data_only }).await?;
    }
    Ok(written)
}

fn open_for_writing(caller: Caller<'_>, a: &Arguments) -> Result<Arc<OpenFile>, Errno> {
    let file = caller.file(a.int(0))?;
    match file.object {
        _ if !file.is_writable() => Err(Errno::EBADF),
        // There is nothing to be written to them, not even nothing.
        Object::Timer(_) | Object::Signals(_) | Object::Poller(_) => Err(Errno::EINVAL),
        _ => Ok(file),
    }
}

/// Writes the ranges, at `at` or at the file's own offset, which then moves.
async fn write_from(caller: Caller<'_>, file: &OpenFile, at: Option<u64>, ranges: &mut Ranges) -> Awaited {
    if at.is_some() && file.has_no_offsets() {
        return Err(Errno::ESPIPE.into());
    }
    if ranges.left() == 0 {
        return Ok(0);
    }
    if let Some(stream) = file.as_stream() {
        return write_stream(caller, file, stream, ranges, How::writing(caller, file)).await;
    }
    check_end(file, at, ranges.left())?;
    match &file.object {
        Object::Shipped(shipped) if !file.appends() => {
            let _turn = if at.is_none() { Some(file.turn().await) } else { None };
            let from = at.unwrap_or_else(|| file.offset());
            ranges.cut(may_write(caller, file, Some(from), ranges.left()).await?);
            let mut progress = Progress { caller, file, moves: at.is_none(), from, done: 0 };
            let result = write_file(caller, (file, shipped), ranges, &mut progress).await;
            progress.finish(result)
        }
        Object::Shared(_) if !file.appends() => {
            let _turn = if at.is_none() { Some(file.turn().await) } else { None };
            let from = at.unwrap_or_else(|| file.offset());
            ranges.cut(may_write(caller, file, Some(from), ranges.left()).await?);
            let mut progress = Progress { caller, file, moves: at.is_none(), from, done: 0 };
            let result = write_shared(caller, ranges, &mut progress).await;
            progress.finish(result)
        }
        Object::Shipped(_) | Object::Shared(_) => append(caller, file, at.is_none(), ranges).await,
        Object::Device(device) => {
            device.write()?;
            // What is thrown away need not be looked at, as on Linux.
            Ok(ranges.left())
        }
        Object::Standard(stream) => {
            // What is printed at once comes out in one piece.
            let _turn = file.turn().await;
            let mut done = ranges.skip(caller.done_before());
            let result = print(caller, stream, ranges, &mut done).await;
            match result {
                Err(failure) if done > 0 && failure.leaves_part() => Ok(done),
                Err(failure) => Err(failure),
                Ok(()) => Ok(done),
            }
        }
        Object::Text(Text::Name(thread), _) => {
            let length = ranges.left();
            let (name, _charge) = ranges.gather(caller, THREAD_NAME_BYTES_MAX).await?;
            thread::set_name(caller, *thread, &name)?;
            Ok(length)
        }
        Object::Asks(asks, _) => {
            asks.ask();
            Ok(ranges.left())
        }
        Object::Counters(counters, _) => {
            let _turn = file.turn().await;
            let (bytes, _charge) = ranges.gather(caller, WRITE_BYTES_MAX).await?;
            counters.write(&bytes)?;
            Ok(bytes.len() as u64)
        }
        Object::Text(..) | Object::Program(_) | Object::Special(_) => Err(Errno::EBADF.into()),
        Object::Pipe(_)
        | Object::Pair(_)
        | Object::Socket(_)
        | Object::Netlink(_)
        | Object::Event(_)
        | Object::Timer(_)
        | Object::Signals(_)
        | Object::Poller(_)
        | Object::Service(_) => Err(Errno::EINVAL.into()),
    }
}

async fn write_file(
    caller: Caller<'_>,
    (file, shipped): (&OpenFile, &Shipped),
    ranges: &mut Ranges,
    progress: &mut Progress<'_>,
) -> Awaited<()> {
    let Some(cached) = shipped.cached() else { return write_parts(caller, shipped, ranges, progress).await };
    let _turn = cached.turn().await;
    if cached::write(caller, (file, shipped, cached), ranges, (progress, false)).await? == Ended::Done {
        return Ok(());
    }
    cached.settle().await;
    write_parts(caller, shipped, ranges, progress).await
}

async fn write_parts(
    caller: Caller<'_>,
    shipped: &Shipped,
    ranges: &mut Ranges,
    progress: &mut Progress<'_>,
) -> Awaited<()> {
    let start = progress.from + progress.done;
    let end = start.saturating_add(ranges.left());
    let changing = caller.process.changing(shipped, FileChange::Written(start..end));
    let result = send_parts(caller, shipped, ranges, progress).await;
    // Behind a gap there may be more.
    if result.is_ok() && progress.from + progress.done == end {
        changing.is(Some(&FileChange::Written(start..end)));
    }
    result
}

async fn send_parts(
    caller: Caller<'_>,
    shipped: &Shipped,
    ranges: &mut Ranges,
    progress: &mut Progress<'_>,
) -> Awaited<()> {
    let file = shipped.handle;
    let mut sent = progress.from + progress.done;
    let mut lengths = VecDeque::new();
    let mut parts = Pipeline::new();
    let mut result = Ok(());
    loop {
        while result.is_ok() && ranges.left() > 0 && parts.len() < PARTS_UNDER_WAY {
            if sent > OFFSET_MAX {
                result = Err(Errno::EFBIG.into());
                break;
            }
            let room = ranges.room(caller, BULK_BYTES_MAX);
            if room.1.is_none() && parts.len() > 0 {
                break;
            }
            match ranges.gather_into(caller, room).await {
                Ok((bytes, charge)) => {
                    lengths.push_back(bytes.len() as u64);
                    let call = Call::Write { file, offset: Some(sent) };
                    sent += bytes.len() as u64;
                    let call = caller.process.client.call(call, bytes);
                    parts.push(async move {
                        let _charge = charge;
                        call.await
                    });
                }
                // Those under way leave some memory.
                Err(Failure::Errno(Errno::ENOMEM)) if parts.len() > 0 => break,
                Err(failure) => result = Err(failure),
            }
        }
        let Some(length) = lengths.pop_front() else { return result };
        match parts.next().await {
            Ok((Reply::Written { bytes, .. }, _)) => {
                let bytes = u64::from(bytes).min(length);
                caller.process.account.bytes_written.fetch_add(bytes, Ordering::Relaxed);
                progress.add(bytes);
                if bytes == length {
                    continue;
                }
            }
            Ok(_) => result = Err(Errno::EIO.into()),
            Err(errno) => result = Err(errno.into()),
        }
        // A gap: what comes behind does not count, but is not under way any more when the call returns.
        while parts.len() > 0 {
            let _ = parts.next().await;
        }
        return result;
    }
}

/// Writes to memory, part after part, with the core free for others in between.
async fn write_shared(caller: Caller<'_>, ranges: &mut Ranges, progress: &mut Progress<'_>) -> Awaited<()> {
    while ranges.left() > 0 {
        let (bytes, _charge) = ranges.gather(caller, BULK_BYTES_MAX).await?;
        let length = bytes.len() as u64;
        let (written, _) = write_once(caller, progress.file, Some(progress.from + progress.done), bytes).await?;
        progress.add(written);
        if written < length {
            break;
        }
        executor::yield_now().await;
    }
    Ok(())
}

/// Writes at the end of the file, part after part, with no other thread's parts in between.
async fn append(caller: Caller<'_>, file: &OpenFile, moves: bool, ranges: &mut Ranges) -> Awaited {
    let _turn = file.turn().await;
    let cached = file.as_shipped().and_then(|shipped| Some((shipped, shipped.cached()?)));
    let _turn_at_file = match cached {
        Some((_, cached)) => cached.turn().await,
        None => None,
    };
    ranges.cut(may_write(caller, file, None, ranges.left()).await?);
    let mut done = 0;
    if let Some((shipped, cached)) = cached {
        let mut progress = Progress { caller, file, moves, from: file.offset(), done: 0 };
        let result = cached::write(caller, (file, shipped, cached), ranges, (&mut progress, true)).await;
        match progress.finish(result.map(|_| ())) {
            Ok(written) => done = written,
            Err(failure) => return Err(failure),
        }
        if ranges.left() > 0 {
            cached.settle().await;
        }
    }
    while ranges.left() > 0 {
        let step = async {
            let (bytes, _charge) = ranges.gather(caller, BULK_BYTES_MAX).await?;
            let length = bytes.len() as u64;
            let (written, end) = write_once(caller, file, None, bytes).await?;
            Ok::<_, Failure>((length, written, end))
        };
        match step.await {
            Ok((length, written, end)) => {
                done += written;
                if moves {
                    file.set_offset(end);
                }
                caller.completed(done);
                if written < length {
                    break;
                }
            }
            Err(failure) if done > 0 && failure.leaves_part() => break,
            Err(failure) => return Err(failure),
        }
    }
    Ok(done)
}

/// Prints the ranges, in order.
async fn print(caller: Caller<'_>, stream: &Standard, ranges: &mut Ranges, done: &mut u64) -> Awaited<()> {
    while ranges.left() > 0 {
        let (bytes, _charge) = ranges.gather(caller, BULK_BYTES_MAX).await?;
        let length = bytes.len() as u64;
        let taken = print_once(caller, stream, bytes).await?;
        *done += taken;
        caller.completed(*done);
        if taken < length {
            break;
        }
    }
    Ok(())
}

/// Prints some bytes, at most [`BULK_BYTES_MAX`]; waits while the user does not take them. A reader that is gone means
/// `SIGPIPE`, then `EPIPE`.
async fn print_once(caller: Caller<'_>, stream: &Standard, bytes: Vec<u8>) -> Awaited {
    let stream = match stream {
        Standard::Input(_) => return Err(Errno::EBADF.into()),
        Standard::Output => Stream::Output,
        Standard::Error => Stream::Error,
    };
    let length = bytes.len() as u64;
    let client = &caller.process.client;
    let mut printing = Printing::new(client, stream, bytes);
    let answer = loop {
        let bell = &client.bells().output;
        let count = bell.count();
        match printing.attempt().await {
            Some(answer) => break answer,
            None => caller.interruptible(Phase::File, Patience::Endless, bell.rung_since(count)).await?,
        }
    };
    match answer {
        Ok((Reply::Written { bytes, .. }, _)) => {
            let bytes = u64::from(bytes).min(length);
            caller.process.account.bytes_written.fetch_add(bytes, Ordering::Relaxed);
            Ok(bytes)
        }
        Ok(_) => Err(Errno::EIO.into()),
        Err(Errno::EPIPE) => {
            caller.raise_broken_pipe()?;
            Err(Errno::EPIPE.into())
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Writes bytes of the kernel's, at most [`BULK_BYTES_MAX`]; `None`: at the file's end. Gives how many, and the offset
/// behind them.
pub(super) async fn write_once(
    caller: Caller<'_>,
    file: &OpenFile,
    offset: Option<u64>,
    bytes: Vec<u8>,
) -> Awaited<(u64, u64)> {
    let length = bytes.len() as u64;
    match &file.object {
        Object::Shipped(shipped) => {
            if let Some(cached) = shipped.cached() {
                cached.settle().await;
            }
            let call = Call::Write { file: shipped.handle, offset };
            // Where it will be, if at the end, the I/O node says.
            let changing = caller.process.changing(shipped, FileChange::Written(offset.unwrap_or(0)..u64::MAX));
            match caller.process.client.call(call, bytes).await {
                Ok((Reply::Written { bytes, end }, _)) => {
                    let bytes = u64::from(bytes).min(length);
                    caller.process.account.bytes_written.fetch_add(bytes, Ordering::Relaxed);
                    changing.became(FileChange::Written(end.saturating_sub(bytes)..end));
                    Ok((bytes, end))
                }
                Ok(_) | Err(Errno::EIO) => Err(Errno::EIO.into()),
                Err(errno) => {
                    // Nothing was.
                    changing.is(None);
                    Err(errno.into())
                }
            }
        }
        Object::Standard(stream) => Ok((print_once(caller, stream, bytes).await?, 0)),
        Object::Shared(shared) => Ok(shared.write(offset, &bytes)?),
        Object::Device(device) => {
            device.write()?;
            Ok((length, 0))
        }
        Object::Asks(asks, _) => {
            asks.ask();
            Ok((length, 0))
        }
        Object::Counters(counters, _) => {
            let taken = bytes.len().min(WRITE_BYTES_MAX);
            counters.write(&bytes[..taken])?;
            Ok((taken as u64, 0))
        }
        Object::Text(..) | Object::Program(_) | Object::Special(_) => Err(Errno::EBADF.into()),
        Object::Pipe(_)
        | Object::Pair(_)
        | Object::Socket(_)
        | Object::Netlink(_)
        | Object::Event(_)
        | Object::Timer(_)
        | Object::Signals(_)
        | Object::Poller(_)
        | Object::Service(_) => {
            let stream = file.as_stream().ok_or(Errno::EINVAL)?;
            Ok((write_bytes(caller, file, stream, &bytes, How::writing(caller, file)).await?, 0))
        }
    }
}
