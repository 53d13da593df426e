//! Reading and writing what has no offsets and may make the caller wait: pipes, pairs, counters, sockets.
//!
//! Bytes are copied between the object and the program's memory in one step, when there are some and nothing else must
//! be waited for. A page that is not there ends the step before anything of it counts; it is fetched, and the step is
//! made again. So a call that is dropped while it waits has neither taken nor put anything but what it says it has
//! done.

use super::activity::{count_received, count_sent, phase_of};
use super::ranges::Ranges;
use crate::clock;
use crate::errno::Errno;
use crate::files::readiness::until_or;
use crate::files::socket_options::Options;
use crate::files::stream::{Shape, Stream, Taken, copy_from};
use crate::files::{Object, OpenFile};
use crate::memory::Fetch;
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure, Trouble};

/// How something is read or written.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Until when it may wait, ns of the monotonic clock; 0: not at all.
    pub(super) deadline_ns: u64,
    /// What is read stays there.
    pub(super) peek: bool,
    /// A read goes on until it has all it wanted.
    pub(super) all: bool,
    /// A reader that is gone is no reason for a signal.
    pub(super) quiet: bool,
}

impl How {
    /// As read(2) does.
    pub(super) fn reading(caller: Caller<'_>, file: &OpenFile) -> Self {
        Self::until(deadline_ns(caller, file, |options| options.receive_timeout_ns))
    }

    /// As write(2) does.
    pub(super) fn writing(caller: Caller<'_>, file: &OpenFile) -> Self {
        Self::until(deadline_ns(caller, file, |options| options.send_timeout_ns))
    }

    fn until(deadline_ns: u64) -> Self {
        Self { deadline_ns, peek: false, all: false, quiet: false }
    }
}

/// Until when a call on a file may wait, ns of the monotonic clock; 0: not at all. Of what was asked of a socket,
/// `timeout_ns` says how long, 0 being no limit.
pub(super) fn deadline_ns(caller: Caller<'_>, file: &OpenFile, timeout_ns: impl Fn(&Options) -> u64) -> u64 {
    match &file.object {
        _ if file.is_nonblocking() => 0,
        Object::Socket(socket) => within(caller, timeout_ns(&socket.options())),
        Object::Netlink(netlink) => within(caller, timeout_ns(&netlink.options())),
        _ => u64::MAX,
    }
}

/// Until when that is; 0 is no limit.
fn within(caller: Caller<'_>, timeout_ns: u64) -> u64 {
    match timeout_ns {
        0 => u64::MAX,
        timeout_ns => caller.deadline_ns(|| clock::monotonic_ns().saturating_add(timeout_ns)),
    }
}

/// Makes attempts until one says something else than `EAGAIN`, or it is time to give up, which is `EAGAIN`. A signal
/// ends it, too; a call with a time limit is not made again then.
pub(super) async fn wait<T>(
    caller: Caller<'_>,
    file: &OpenFile,
    deadline_ns: u64,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Awaited<T> {
    if deadline_ns == 0 {
        return Ok(attempt()?);
    }
    let attempt = || match attempt() {
        Err(Errno::EAGAIN) => None,
        other => Some(other),
    };
    let waiting = until_or(deadline_ns, |waker| file.watch(waker), attempt);
    let waiting = caller.interruptible(phase_of(file), Patience::until(deadline_ns), waiting);
    Ok(waiting.await?.unwrap_or(Err(Errno::EAGAIN))??)
}

/// Reads into the ranges. Gives how many bytes the program got, and there were of the message, if it was one.
pub(super) async fn read_stream(
    caller: Caller<'_>,
    file: &OpenFile,
    stream: &dyn Stream,
    ranges: &mut Ranges,
    how: How,
) -> Awaited<Taken> {
    let mut done = ranges.skip(caller.done_before()) as usize;
    loop {
        match take(caller, file, stream, ranges, how).await {
            Ok(taken) => {
                done += taken.copied;
                caller.completed(done as u64);
                let ends = taken.length == 0 || ranges.left() == 0 || how.peek || !how.all;
                if ends || stream.shape() != Shape::Bytes {
                    return Ok(Taken { copied: done, ..taken });
                }
            }
            Err(failure) if done > 0 && failure.leaves_part() => return Ok(Taken { copied: done, length: done }),
            Err(failure) => return Err(failure),
        }
    }
}

/// Forgets up to `limit` bytes that could be read. Gives how many.
pub(super) async fn discard(caller: Caller<'_>, file: &OpenFile, stream: &dyn Stream, limit: u64, how: How) -> Awaited {
    let mut done = caller.done_before();
    let mut left = usize::try_from(limit.saturating_sub(done)).unwrap_or(usize::MAX);
    loop {
        match wait(caller, file, how.deadline_ns, || stream.take(left, false, &mut |bytes| bytes.len())).await {
            Ok(taken) => {
                count_received(caller, stream, taken.copied);
                done += taken.copied as u64;
                left -= taken.copied;
                caller.completed(done);
                if taken.copied == 0 || left == 0 || !how.all {
                    return Ok(done);
                }
            }
            Err(failure) if done > 0 && failure.leaves_part() => return Ok(done),
            Err(failure) => return Err(failure),
        }
    }
}

/// Reads what there is, once there is something.
pub(super) async fn take(
    caller: Caller<'_>,
    file: &OpenFile,
    stream: &dyn Stream,
    ranges: &mut Ranges,
    how: How,
) -> Awaited<Taken> {
    let limit = usize::try_from(ranges.left()).unwrap_or(usize::MAX);
    loop {
        let mark = ranges.mark();
        let mut trouble = None;
        let mut sink = |bytes: &[u8]| {
            let (copied, result) = ranges.put(caller, bytes);
            trouble = result.err();
            copied
        };
        let taken = wait(caller, file, how.deadline_ns, || stream.take(limit, how.peek, &mut sink)).await?;
        // Part of a stream is a result; part of a message is none.
        let counts = taken.copied > 0 && stream.shape() == Shape::Bytes;
        match trouble {
            Some(trouble) if !counts => {
                ranges.reset(mark);
                let fetch = missing(trouble)?;
                caller.fetch_for_copy(&fetch).await?;
            }
            _ => {
                if !how.peek {
                    count_received(caller, stream, taken.copied);
                }
                return Ok(taken);
            }
        }
    }
}

/// The page that is missing, if it is that.
fn missing(trouble: Trouble) -> Awaited<Fetch> {
    match trouble {
        Trouble::Fetch(fetch) => Ok(fetch),
        trouble => Err(trouble.into()),
    }
}

/// Writes the ranges. A reader that is gone means `SIGPIPE`, then `EPIPE`.
pub(super) async fn write_stream(
    caller: Caller<'_>,
    file: &OpenFile,
    stream: &dyn Stream,
    ranges: &mut Ranges,
    how: How,
) -> Awaited {
    let mut done = ranges.skip(caller.done_before());
    loop {
        match put(caller, file, stream, ranges, how).await {
            Ok(count) => {
                done += count as u64;
                caller.completed(done);
                if ranges.left() == 0 || stream.shape() != Shape::Bytes {
                    return Ok(done);
                }
            }
            Err(failure) if done > 0 && failure.leaves_part() => return Ok(done),
            Err(Failure::Errno(Errno::EPIPE)) => return Err(broken_stream(caller, stream, how)),
            Err(failure) => return Err(failure),
        }
    }
}

/// Writes what there is room for, once there is some.
pub(super) async fn put(
    caller: Caller<'_>,
    file: &OpenFile,
    stream: &dyn Stream,
    ranges: &mut Ranges,
    how: How,
) -> Awaited<usize> {
    let length = usize::try_from(ranges.left()).unwrap_or(usize::MAX);
    loop {
        let mark = ranges.mark();
        let mut trouble = None;
        let mut source = |slot: &mut [u8]| {
            let (copied, result) = ranges.get(caller, slot);
            trouble = result.err();
            copied
        };
        let written = wait(caller, file, how.deadline_ns, || stream.put(length, &mut source)).await?;
        match trouble {
            Some(trouble) if written == 0 => {
                ranges.reset(mark);
                let fetch = missing(trouble)?;
                caller.fetch_for_copy(&fetch).await?;
            }
            _ => {
                count_sent(caller, stream, written);
                return Ok(written);
            }
        }
    }
}

/// Writes bytes of the kernel's. Gives how many; fewer only if it must not wait any longer or cannot go on, or the
/// thread is held.
pub(super) async fn write_bytes(
    caller: Caller<'_>,
    file: &OpenFile,
    stream: &dyn Stream,
    bytes: &[u8],
    how: How,
) -> Awaited {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let put = wait(caller, file, how.deadline_ns, || stream.put(rest.len(), &mut copy_from(rest))).await;
        if let Ok(count) = &put {
            count_sent(caller, stream, *count);
        }
        match put {
            Ok(count) if stream.shape() != Shape::Bytes => return Ok(count as u64),
            Ok(count) => done += count,
            Err(failure) if done > 0 && (failure.leaves_part() || matches!(failure, Failure::Held)) => break,
            Err(Failure::Errno(Errno::EPIPE)) => return Err(broken_stream(caller, stream, how)),
            Err(failure) => return Err(failure),
        }
    }
    Ok(done as u64)
}

/// As [`broken`], but only who writes bytes gets a signal for it, as on Linux.
fn broken_stream(caller: Caller<'_>, stream: &dyn Stream, how: How) -> Failure {
    broken(caller, How { quiet: how.quiet || stream.shape() != Shape::Bytes, ..how })
}

/// Nobody reads what was to be written.
pub(super) fn broken(caller: Caller<'_>, how: How) -> Failure {
    if !how.quiet
        && let Err(end) = caller.raise_broken_pipe()
    {
        return end;
    }
    Errno::EPIPE.into()
}
