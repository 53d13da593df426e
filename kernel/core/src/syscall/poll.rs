//! poll(2), ppoll(2): files and outputs are always ready; standard input is asked for at the I/O node.

use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::ship::{Call, Reply};

use super::Arguments;
use super::abi::io::{POLLFD_BYTES, PollEntry};
use super::abi::time::{parse_timespec, timespec};
use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::files::{DESCRIPTORS_MAX, Object, Standard};
use crate::process::{Awaited, Caller};

const POLLIN: u16 = 0x001;
const POLLOUT: u16 = 0x004;
const POLLNVAL: u16 = 0x020;
const POLLRDNORM: u16 = 0x040;
const POLLWRNORM: u16 = 0x100;
const READABLE: u16 = POLLIN | POLLRDNORM;
const WRITABLE: u16 = POLLOUT | POLLWRNORM;

/// How long one question to the I/O node waits for input, ms. Longer waits ask again.
const QUESTION_MS: u64 = 10_000;

/// Whether something can be read from or written to a descriptor without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// No such descriptor (or one that stands for a place only).
    Invalid,
    /// Both: files never wait.
    Always,
    /// It can be written.
    Writable,
    /// It can be read when there is input.
    Input,
}

/// What can be said of a descriptor without asking.
pub(super) fn readiness(caller: Caller<'_>, number: i32) -> Readiness {
    match caller.process.files.lock().get(number) {
        Ok(file) if file.is_path() => Readiness::Invalid,
        Ok(file) => match file.object {
            Object::Stream(Standard::Input) => Readiness::Input,
            Object::Stream(_) => Readiness::Writable,
            _ => Readiness::Always,
        },
        Err(_) => Readiness::Invalid,
    }
}

/// Waits until there is input (`true`) or the deadline has passed. Asks at least once.
pub(super) async fn input_until(caller: Caller<'_>, deadline_ns: u64) -> Result<bool, Errno> {
    loop {
        let left_ms = deadline_ns.saturating_sub(clock::monotonic_ns()).div_ceil(1_000_000);
        let wait_ms = left_ms.min(QUESTION_MS) as u32;
        match caller.ask(Call::InputReady { wait_ms }).await? {
            (Reply::Count(0), _) => {}
            (Reply::Count(_), _) => return Ok(true),
            _ => return Err(Errno::EIO),
        }
        if clock::monotonic_ns() >= deadline_ns {
            return Ok(false);
        }
    }
}

/// poll(2).
pub(super) async fn poll(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let now_ns = clock::monotonic_ns();
    let deadline_ns = match u64::try_from(a.int(2)) {
        Ok(timeout_ms) => now_ns.saturating_add(timeout_ms * 1_000_000),
        Err(_) => u64::MAX,
    };
    poll_until(caller, a.get(0), a.uint(1), deadline_ns).await
}

/// ppoll(2). Nothing is sent to a process that waits, so its signal mask does not matter. The time left is written
/// back, as Linux does.
pub(super) async fn ppoll(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = match a.get(2) {
        0 => u64::MAX,
        address => {
            let timeout_ns = parse_timespec(&caller.read_array(address).await?)?;
            clock::monotonic_ns().saturating_add(timeout_ns)
        }
    };
    let ready = poll_until(caller, a.get(0), a.uint(1), deadline_ns).await?;
    if a.get(2) != 0 {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        // Linux, too, does not mind if this cannot be written.
        let _ = caller.write(a.get(2), timespec(left_ns).bytes()).await;
    }
    Ok(ready)
}

async fn poll_until(caller: Caller<'_>, address: u64, count: u32, deadline_ns: u64) -> Awaited {
    let count = usize::try_from(count).ok().filter(|count| *count <= DESCRIPTORS_MAX).ok_or(Errno::EINVAL)?;
    let mut bytes = vec![0; count * POLLFD_BYTES];
    caller.read(address, &mut bytes).await?;
    let mut entries: Vec<PollEntry> = bytes.chunks_exact(POLLFD_BYTES).map(PollEntry::parse).collect();
    let mut ready = 0;
    let mut waits_for_input = false;
    for entry in &mut entries {
        entry.happened = 0;
        if entry.descriptor < 0 {
            continue;
        }
        entry.happened = match readiness(caller, entry.descriptor) {
            Readiness::Invalid => POLLNVAL,
            Readiness::Always => entry.events & (READABLE | WRITABLE),
            Readiness::Writable => entry.events & WRITABLE,
            Readiness::Input => {
                waits_for_input |= entry.events & READABLE != 0;
                0
            }
        };
        ready += u64::from(entry.happened != 0);
    }
    if waits_for_input {
        let deadline_ns = if ready > 0 { 0 } else { deadline_ns };
        if input_until(caller, deadline_ns).await? {
            for entry in &mut entries {
                if entry.descriptor >= 0 && readiness(caller, entry.descriptor) == Readiness::Input {
                    entry.happened = entry.events & READABLE;
                    ready += u64::from(entry.happened != 0);
                }
            }
        }
    } else if ready == 0 {
        executor::sleep_until(deadline_ns).await;
    }
    for (entry, bytes) in entries.iter().zip(bytes.chunks_exact_mut(POLLFD_BYTES)) {
        bytes.copy_from_slice(entry.record().bytes());
    }
    caller.write(address, &bytes).await?;
    Ok(ready)
}
