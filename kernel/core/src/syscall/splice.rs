//! Through pipes without the program's memory: splice(2), tee(2), vmsplice(2). Nothing is shared: bytes are copied,
//! once between what the kernel has, and what comes from or goes to the I/O node as other bytes do.
//!
//! What goes to a file stays in the pipe until it is written, so a call that is dropped meanwhile loses nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::limits::BULK_BYTES_MAX;

use super::Arguments;
use super::activity::{count_received, count_sent};
use super::ranges::{Ranges, TRANSFER_BYTES_MAX, part};
use super::read::{OFFSET_MAX, check_end};
use super::stream::{How, broken, put, take, wait};
use super::write::write_once;
use crate::errno::Errno;
use crate::executor;
use crate::files::pipe::PipeEnd;
use crate::files::stream::{Shape, Stream, Taken, copy_from};
use crate::files::{Object, OpenFile, Ready};
use crate::limits::{CHANNEL_BYTES_MIN, PIPE_BYTES_MAX};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure};

/// `SPLICE_F_*`.
mod flag {
    /// Do not wait for a pipe.
    pub(super) const NONBLOCK: u32 = 2;
    /// Hints about pages and about what follows, which change nothing, and that.
    pub(super) const ALL: u32 = 15;
}

/// Bytes that a file gives or takes at once.
const PART_BYTES: usize = if PIPE_BYTES_MAX < BULK_BYTES_MAX { PIPE_BYTES_MAX } else { BULK_BYTES_MAX };

/// The pipe's end behind an open file, if it is one.
fn pipe_of(file: &OpenFile) -> Option<&PipeEnd> {
    match &file.object {
        Object::Pipe(end) => Some(end),
        _ => None,
    }
}

/// How long a call waits for a file, if it may wait for it at all.
fn how(caller: Caller<'_>, file: &OpenFile, flags: u32) -> How {
    let how = How::reading(caller, file);
    if flags & flag::NONBLOCK != 0 { How { deadline_ns: 0, ..how } } else { how }
}

/// The open files of two arguments.
///
/// # Errors
/// `EBADF`, also for what is only a place.
pub(super) fn two(caller: Caller<'_>, from: i32, to: i32) -> Result<(Arc<OpenFile>, Arc<OpenFile>), Errno> {
    let (input, output) = (caller.file(from)?, caller.file(to)?);
    if input.is_path() || output.is_path() { Err(Errno::EBADF) } else { Ok((input, output)) }
}

/// Whether the one can be read and the other be written.
fn check_modes(input: &OpenFile, output: &OpenFile) -> Result<(), Errno> {
    if input.is_readable() && output.is_writable() { Ok(()) } else { Err(Errno::EBADF) }
}

/// splice(2).
pub(super) async fn splice(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(5);
    let length = usize::try_from(a.get(4).min(TRANSFER_BYTES_MAX)).unwrap_or(usize::MAX);
    if length == 0 {
        return Ok(0);
    }
    if flags & !flag::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (input, output) = two(caller, a.int(0), a.int(2))?;
    for (file, offset_at) in [(&input, a.get(1)), (&output, a.get(3))].into_iter().filter(|(_, at)| *at != 0) {
        if pipe_of(file).is_some() {
            return Err(Errno::ESPIPE.into());
        }
        caller.read_array::<8>(offset_at).await?;
    }
    check_modes(&input, &output)?;
    match (pipe_of(&input), pipe_of(&output)) {
        (Some(from), Some(to)) => {
            let wanted = if from.serial == to.serial { Err(Errno::EINVAL) } else { Ok(()) };
            wanted?;
            between(caller, (&input, from), (&output, to), length, flags, false).await
        }
        (Some(from), None) => out_of_pipe(caller, (&input, from), &output, a.get(3), length, flags).await,
        (None, Some(to)) => into_pipe(caller, &input, a.get(1), (&output, to), length, flags).await,
        (None, None) => Err(Errno::EINVAL.into()),
    }
}

/// tee(2).
pub(super) async fn tee(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(3);
    if flags & !flag::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    let length = usize::try_from(a.get(2).min(TRANSFER_BYTES_MAX)).unwrap_or(usize::MAX);
    if length == 0 {
        return Ok(0);
    }
    let (input, output) = two(caller, a.int(0), a.int(1))?;
    check_modes(&input, &output)?;
    match (pipe_of(&input), pipe_of(&output)) {
        (Some(from), Some(to)) if from.serial != to.serial => {
            between(caller, (&input, from), (&output, to), length, flags, true).await
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// vmsplice(2): a write to a pipe, as far as there is room, or a read. What is changed in memory later is not seen.
pub(super) async fn vmsplice(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(3);
    if flags & !flag::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    let file = caller.file(a.int(0))?;
    let Some(end) = pipe_of(&file) else { return Err(Errno::EBADF.into()) };
    let mut ranges = Ranges::read(caller, a.get(1), a.get(2)).await?;
    if ranges.left() == 0 {
        return Ok(0);
    }
    let how = how(caller, &file, flags);
    if file.is_writable() {
        match put(caller, &file, end, &mut ranges, how).await {
            Err(Failure::Errno(Errno::EPIPE)) => Err(broken(caller, how)),
            written => Ok(written? as u64),
        }
    } else {
        Ok(take(caller, &file, end, &mut ranges, how).await?.copied as u64)
    }
}

/// From one pipe to another: once there is something and there is room.
async fn between(
    caller: Caller<'_>,
    (input, from): (&OpenFile, &PipeEnd),
    (output, to): (&OpenFile, &PipeEnd),
    length: usize,
    flags: u32,
    keeps: bool,
) -> Awaited {
    let hows = (how(caller, input, flags), how(caller, output, flags));
    loop {
        match from.channel().transfer(to.channel(), length, keeps) {
            Ok(moved) => return Ok(moved as u64),
            Err(Errno::EPIPE) => return Err(broken(caller, hows.1)),
            Err(Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        both_ready(caller, (input, hows.0), (output, hows.1)).await?;
    }
}

/// Waits for whichever is not ready. Others may be quicker; then it is waited again, with the core free in between.
async fn both_ready(
    caller: Caller<'_>,
    (input, reading): (&OpenFile, How),
    (output, writing): (&OpenFile, How),
) -> Awaited<()> {
    let is_ready = |file: &OpenFile, wanted: Ready| {
        if file.ready().intersects(wanted | Ready::ALWAYS_TOLD) { Ok(()) } else { Err(Errno::EAGAIN) }
    };
    wait(caller, input, reading.deadline_ns, || is_ready(input, Ready::READ)).await?;
    wait(caller, output, writing.deadline_ns, || is_ready(output, Ready::WRITE)).await?;
    executor::yield_now().await;
    caller.unless_interrupted(Patience::Endless).await
}

/// Something that has no offsets and takes bytes while a channel is looked at.
fn taker(file: &OpenFile) -> Option<&dyn Stream> {
    match &file.object {
        Object::Socket(socket) if socket.shape() == Shape::Bytes => Some(socket),
        _ => None,
    }
}

async fn out_of_pipe(
    caller: Caller<'_>,
    (input, from): (&OpenFile, &PipeEnd),
    output: &OpenFile,
    offset_at: u64,
    length: usize,
    flags: u32,
) -> Awaited {
    if output.appends() || output.is_directory() {
        return Err(Errno::EINVAL.into());
    }
    if output.has_no_offsets() && offset_at != 0 {
        return Err(Errno::EINVAL.into());
    }
    if !output.has_no_offsets() {
        check_end(output, Some(offset(caller, output, offset_at).await?), length as u64)?;
    }
    let (reading, writing) = (how(caller, input, flags), How::writing(caller, output));
    if let Object::Pair(pair) = &output.object {
        if pair.outgoing().keeps_apart() {
            return Err(Errno::EINVAL.into());
        }
        loop {
            match from.channel().transfer(pair.outgoing(), length, false) {
                Ok(moved) => return Ok(moved as u64),
                Err(Errno::EPIPE) => return Err(broken(caller, writing)),
                Err(Errno::EAGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
            both_ready(caller, (input, reading), (output, writing)).await?;
        }
    }
    // Others that splice the same pipe come afterwards.
    let _turn = input.turn().await;
    let any = || from.take(1, true, &mut |_| 1);
    if wait(caller, input, reading.deadline_ns, any).await?.length == 0 {
        return Ok(0);
    }
    if let Some(stream) = taker(output) {
        let mut problem = None;
        let mut attempt = || {
            problem = None;
            let taken = from.take(length, false, &mut |bytes| {
                stream.put(bytes.len(), &mut copy_from(bytes)).unwrap_or_else(|errno| {
                    problem = Some(errno);
                    0
                })
            })?;
            match problem {
                Some(errno) if taken.copied == 0 => Err(errno),
                _ => {
                    count_sent(caller, stream, taken.copied);
                    Ok(taken.copied)
                }
            }
        };
        loop {
            match attempt() {
                Err(Errno::EPIPE) => return Err(broken(caller, writing)),
                Err(Errno::EAGAIN) => both_ready(caller, (input, reading), (output, writing)).await?,
                moved => return Ok(moved? as u64),
            }
        }
    }
    if !(output.is_regular() || matches!(output.object, Object::Device(_) | Object::Standard(_))) {
        return Err(Errno::EINVAL.into());
    }
    let _their_turn = if offset_at == 0 { Some(output.turn().await) } else { None };
    let start = offset(caller, output, offset_at).await?;
    let (length, _charge) = part(caller, length.min(PART_BYTES).min(from.held()).max(1));
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
    from.take(length, true, &mut |part| {
        bytes.extend_from_slice(part);
        part.len()
    })?;
    let at = if output.has_no_offsets() { None } else { Some(start) };
    let (written, _) = write_once(caller, output, at, bytes).await?;
    from.channel().forget(written as usize);
    move_on(caller, output, offset_at, start + written).await?;
    Ok(written)
}

async fn into_pipe(
    caller: Caller<'_>,
    input: &OpenFile,
    offset_at: u64,
    (output, to): (&OpenFile, &PipeEnd),
    length: usize,
    flags: u32,
) -> Awaited {
    if input.has_no_offsets() && offset_at != 0 {
        return Err(Errno::EINVAL.into());
    }
    if !input.has_no_offsets() {
        check_end(input, Some(offset(caller, input, offset_at).await?), length as u64)?;
    }
    let (reading, writing) = (How::reading(caller, input), how(caller, output, flags));
    // A pipe that nobody reads is broken, whatever there is to be put into it.
    if output.ready().contains(Ready::ERROR) {
        return Err(broken(caller, writing));
    }
    let room =
        || if output.ready().intersects(Ready::WRITE | Ready::ALWAYS_TOLD) { Ok(()) } else { Err(Errno::EAGAIN) };
    if let Object::Pair(pair) = &input.object {
        loop {
            match pair.incoming().transfer(to.channel(), length, false) {
                Ok(moved) => return Ok(moved as u64),
                Err(Errno::EPIPE) => return Err(broken(caller, writing)),
                Err(Errno::EAGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
            both_ready(caller, (input, reading), (output, writing)).await?;
        }
    }
    wait(caller, output, writing.deadline_ns, room).await?;
    if let Some(stream) = taker(input) {
        // What was taken and did not fill a packet would be lost.
        if to.keeps_apart() {
            return Err(Errno::EINVAL.into());
        }
        // Longer than what a pipe takes in one piece, so that it takes what there is.
        let most = length.max(CHANNEL_BYTES_MIN + 1);
        let mut left = length;
        let mut answer = Ok(Taken { copied: 0, length: 0 });
        let mut attempt = || {
            left = length;
            let moved = to.put(most, &mut |slot| {
                let wanted = slot.len().min(left);
                let mut done = 0;
                answer = stream.take(wanted, false, &mut |bytes| {
                    slot[done..done + bytes.len()].copy_from_slice(bytes);
                    done += bytes.len();
                    bytes.len()
                });
                left -= done;
                done
            })?;
            count_received(caller, stream, moved);
            if moved > 0 { Ok(moved) } else { answer.map(|_| 0) }
        };
        loop {
            match attempt() {
                Err(Errno::EPIPE) => return Err(broken(caller, writing)),
                Err(Errno::EAGAIN) => both_ready(caller, (input, reading), (output, writing)).await?,
                moved => return Ok(moved? as u64),
            }
        }
    }
    if !(input.is_regular() || matches!(input.object, Object::Device(_))) {
        return Err(Errno::EINVAL.into());
    }
    let _turn = if offset_at == 0 { Some(input.turn().await) } else { None };
    let start = offset(caller, input, offset_at).await?;
    let end = start.saturating_add(length as u64).min(OFFSET_MAX);
    let space = PIPE_BYTES_MAX.saturating_sub(to.held()).clamp(1, PART_BYTES);
    let wanted = usize::try_from(end - start).unwrap_or(usize::MAX).min(space);
    let (wanted, _charge) = part(caller, wanted);
    let bytes = input.read_at(caller.process, start, wanted).await?;
    if bytes.is_empty() {
        return Ok(0);
    }
    // Another writer may have been quicker; a pipe with any room takes some of more than a page.
    let least = if to.keeps_apart() { 0 } else { CHANNEL_BYTES_MIN + 1 };
    let put = || to.put(bytes.len().max(least), &mut copy_from(&bytes));
    let moved = match wait(caller, output, writing.deadline_ns, put).await {
        Err(Failure::Errno(Errno::EPIPE)) => return Err(broken(caller, writing)),
        moved => moved? as u64,
    };
    move_on(caller, input, offset_at, start + moved).await?;
    Ok(moved)
}

/// Where a file is read or written: as the call says, or where it was left.
async fn offset(caller: Caller<'_>, file: &OpenFile, offset_at: u64) -> Awaited {
    match offset_at {
        0 => Ok(file.offset()),
        at => {
            let offset = i64::from_le_bytes(caller.read_array(at).await?);
            Ok(u64::try_from(offset).map_err(|_| Errno::EINVAL)?)
        }
    }
}

async fn move_on(caller: Caller<'_>, file: &OpenFile, offset_at: u64, offset: u64) -> Awaited<()> {
    match offset_at {
        0 => {
            file.set_offset(offset);
            Ok(())
        }
        at => caller.write(at, &offset.to_le_bytes()).await,
    }
}
