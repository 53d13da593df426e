//! Copying between files without the program's memory: sendfile(2), copy_file_range(2). The bytes come to the node and
//! go back: reads are several at once, writes one after the other.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::Reply;

use super::Arguments;
use super::file_length::may_write;
use super::ranges::{TRANSFER_BYTES_MAX, part};
use super::read::{OFFSET_MAX, PARTS_UNDER_WAY};
use super::write::write_once;
use crate::errno::Errno;
use crate::files::pipeline::Pipeline;
use crate::files::{Object, OpenFile, Turn};
use crate::process::{Awaited, Caller, Failure};

/// sendfile(2).
pub(super) async fn sendfile(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let at = read_offset(caller, a.get(2)).await?;
    let input = caller.file(a.int(1))?;
    if !input.is_readable() {
        return Err(Errno::EBADF.into());
    }
    if input.has_no_offsets() && at.is_some() {
        return Err(Errno::ESPIPE.into());
    }
    let at = at.map(|at| u64::try_from(at).map_err(|_| Errno::EINVAL)).transpose()?;
    // Where it goes comes after where it comes from, and before what that is.
    let output = caller.file(a.int(0))?;
    if !output.is_writable() {
        return Err(Errno::EBADF.into());
    }
    if !input.is_regular() || output.appends() {
        return Err(Errno::EINVAL.into());
    }
    let length = a.get(3).min(TRANSFER_BYTES_MAX);
    // Whoever reads what others wait to be written must not keep them from it.
    let _turns = if output.is_regular() { Some(both_turns(&input, &output).await) } else { None };
    let start = input.offset();
    let copied = copy(caller, (&input, at), (&output, None), length).await?;
    move_on(caller, (&input, start), at, a.get(2), copied).await?;
    Ok(copied)
}

/// copy_file_range(2).
pub(super) async fn copy_file_range(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (input, output) = super::splice::two(caller, a.int(0), a.int(2))?;
    if a.uint(5) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if input.is_directory() || output.is_directory() {
        return Err(Errno::EISDIR.into());
    }
    if !input.is_regular() || !output.is_regular() {
        return Err(Errno::EINVAL.into());
    }
    if !input.is_readable() || !output.is_writable() || output.appends() {
        return Err(Errno::EBADF.into());
    }
    let (from, to) = (read_offset(caller, a.get(1)).await?, read_offset(caller, a.get(3)).await?);
    if is_across(&input, &output) {
        return Err(Errno::EXDEV.into());
    }
    let length = a.get(4).min(TRANSFER_BYTES_MAX);
    let _turns = both_turns(&input, &output).await;
    let start = from.unwrap_or_else(|| input.offset().cast_signed());
    let target = to.unwrap_or_else(|| output.offset().cast_signed());
    let overflows = |at: i64| at.cast_unsigned().checked_add(length).is_none();
    if overflows(start) || overflows(target) {
        return Err(Errno::EOVERFLOW.into());
    }
    let left = input.size(caller.process).await?.saturating_sub(start.max(0).cast_unsigned());
    let length = if start < 0 { length } else { length.min(left) };
    if target == i64::MAX && length > 0 {
        return Err(Errno::EFBIG.into());
    }
    if is_same(&input, &output) && start.abs_diff(target) < length {
        return Err(Errno::EINVAL.into());
    }
    if start < 0 || target < 0 {
        return Err(Errno::EINVAL.into());
    }
    let (from, to) = (from.map(i64::cast_unsigned), to.map(i64::cast_unsigned));
    let copied = copy(caller, (&input, from), (&output, to), length).await?;
    move_on(caller, (&input, start.cast_unsigned()), from, a.get(1), copied).await?;
    if let Some(to) = to {
        caller.write(a.get(3), &(to + copied).to_le_bytes()).await?;
    }
    Ok(copied)
}

/// Waits for one's turn at two files, in an order that is the same for all.
async fn both_turns<'a>(one: &'a Arc<OpenFile>, other: &'a Arc<OpenFile>) -> (Turn<'a>, Option<Turn<'a>>) {
    if Arc::ptr_eq(one, other) {
        return (one.turn().await, None);
    }
    let (first, second) = if Arc::as_ptr(one) < Arc::as_ptr(other) { (one, other) } else { (other, one) };
    let turn = first.turn().await;
    (turn, Some(second.turn().await))
}

/// The offset a call names, if it does.
async fn read_offset(caller: Caller<'_>, address: u64) -> Awaited<Option<i64>> {
    if address == 0 {
        return Ok(None);
    }
    Ok(Some(i64::from_le_bytes(caller.read_array(address).await?)))
}

/// Moves the input's offset on: the one in the program's memory, or the file's own, which was `start`.
async fn move_on(
    caller: Caller<'_>,
    (input, start): (&OpenFile, u64),
    at: Option<u64>,
    address: u64,
    copied: u64,
) -> Awaited<()> {
    match at {
        Some(at) => caller.write(address, &(at + copied).to_le_bytes()).await,
        None => {
            input.set_offset(start + copied);
            Ok(())
        }
    }
}

fn is_same(one: &Arc<OpenFile>, other: &Arc<OpenFile>) -> bool {
    match (one.as_shipped(), other.as_shipped()) {
        (Some(one), Some(other)) => (one.status.device, one.status.inode) == (other.status.device, other.status.inode),
        _ => match (&one.object, &other.object) {
            (Object::Shared(one), Object::Shared(other)) => Arc::ptr_eq(one, other),
            _ => Arc::ptr_eq(one, other),
        },
    }
}

/// Whether two files are of different file systems, between which Linux copies nothing here since 5.19.
fn is_across(one: &OpenFile, other: &OpenFile) -> bool {
    match (&one.object, &other.object) {
        (Object::Shipped(one), Object::Shipped(other)) => one.status.device != other.status.device,
        (Object::Shared(_), Object::Shared(_)) => false,
        (one, other) => matches!(one, Object::Shared(_)) || matches!(other, Object::Shared(_)),
    }
}

/// Copies up to `length` bytes. The output's own offset moves if none is named; the input's does not.
async fn copy(
    caller: Caller<'_>,
    (input, from): (&OpenFile, Option<u64>),
    (output, to): (&OpenFile, Option<u64>),
    length: u64,
) -> Awaited {
    let start = from.unwrap_or_else(|| input.offset());
    // What was done before the thread was held has moved the output's own offset already.
    let mut done = caller.done_before();
    let target = to.unwrap_or_else(|| output.offset().saturating_sub(done));
    let length = may_write(caller, output, Some(target), length).await?;
    let end = start.saturating_add(length).min(OFFSET_MAX);
    let mut asked = start.saturating_add(done);
    let mut parts = Pipeline::new();
    let mut charges = VecDeque::new();
    while start + done < end {
        while asked < end && parts.len() < PARTS_UNDER_WAY {
            let at = asked;
            let count = usize::try_from(end - asked).map_or(BULK_BYTES_MAX, |left| left.min(BULK_BYTES_MAX));
            let (count, charge) = part(caller, count);
            if charge.is_none() && parts.len() > 0 {
                break;
            }
            charges.push_back(charge);
            parts.push(async move { Ok((Reply::Data, input.read_at(caller.process, at, count).await?)) });
            asked += count as u64;
        }
        let step = async {
            let (_, bytes) = parts.next().await?;
            let _charge = charges.pop_front();
            if bytes.is_empty() {
                return Ok((0, 0));
            }
            let read = bytes.len() as u64;
            if target.saturating_add(done) > OFFSET_MAX {
                return Err(Failure::Errno(Errno::EFBIG));
            }
            let (written, _) = write_once(caller, output, Some(target + done), bytes).await?;
            Ok((read, written))
        };
        let (read, written) = match step.await {
            Ok(moved) => moved,
            Err(failure) if done > 0 && failure.leaves_part() => break,
            Err(failure) => return Err(failure),
        };
        if input.as_shipped().is_some() {
            caller.process.account.bytes_read.fetch_add(read, Ordering::Relaxed);
        }
        done += written;
        if to.is_none() {
            output.set_offset(target + done);
        }
        caller.completed(done);
        if written < read && caller.process.threads.hold.is_asked_of(caller.thread.tid) {
            return Err(Failure::Held);
        }
        let wanted = BULK_BYTES_MAX as u64;
        if written < read || read < wanted.min(end - start - (done - written)) {
            break;
        }
    }
    Ok(done)
}
