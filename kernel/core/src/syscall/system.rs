//! The machine: uname(2), sysinfo(2), getrusage(2), getrandom(2).

use coppice_hal::addr::PAGE_BYTES;

use super::Arguments;
use super::ranges;
use crate::abi::system::{self as abi, RELEASE, SYSTEM, SystemInformation, Usage, VERSION};
use crate::clock;
use crate::errno::Errno;
use crate::files::buffer;
use crate::memory::AddressSpace;
use crate::process::special::hosts;
use crate::process::{Awaited, Caller, Immediate};
use crate::random;
use core::sync::atomic::Ordering;

/// Bytes that getrandom(2) gives without letting others have the core in between.
const RANDOM_AT_ONCE_BYTES: usize = 256;
/// Bytes it gives between two looks at what else there is to do.
const RANDOM_PART_BYTES: usize = 64 * 1024;
/// Bytes it gives at most, as Linux.
const RANDOM_BYTES_MAX: u64 = i32::MAX as u64;

/// uname(2).
pub(super) fn uname(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let name = hosts::node_name(caller.process.job.node);
    let names = [SYSTEM, &name, RELEASE, VERSION, "x86_64", "(none)"];
    caller.put(a.get(0), abi::utsname(names).bytes())?;
    Ok(0)
}

/// sysinfo(2).
pub(super) fn sysinfo(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let frames = caller.process.node.frames;
    let bytes = |count: u32| u64::from(count) * PAGE_BYTES as u64;
    let information = SystemInformation {
        uptime_seconds: clock::monotonic_ns() / 1_000_000_000,
        total_bytes: bytes(frames.total_frames()),
        free_bytes: bytes(frames.free_frames()),
        // Used until somebody wants the memory, as Linux's buffers are.
        buffer_bytes: caller.process.node.retention.bytes(),
        processes: 1,
    };
    caller.put(a.get(0), abi::sysinfo(&information).bytes())?;
    Ok(0)
}

/// getrusage(2).
pub(super) fn getrusage(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const RUSAGE_SELF: i32 = 0;
    const RUSAGE_CHILDREN: i32 = -1;
    const RUSAGE_THREAD: i32 = 1;
    let usage = match a.int(0) {
        who @ (RUSAGE_SELF | RUSAGE_THREAD) => {
            let memory = caller.process.space.lock().stats();
            let major_faults = caller.process.account.major_faults.load(Ordering::Relaxed);
            Usage {
                cpu_ns: if who == RUSAGE_THREAD { caller.thread.clock.ns() } else { caller.process.threads.cpu_ns() },
                resident_kib_max: memory.pages_peak * (PAGE_BYTES as u64 / 1024),
                minor_faults: memory.faults.saturating_sub(major_faults),
                major_faults,
            }
        }
        RUSAGE_CHILDREN => Usage::default(),
        _ => return Err(Errno::EINVAL.into()),
    };
    caller.put(a.get(1), abi::rusage(&usage).bytes())?;
    Ok(0)
}

/// Whether getrandom(2) knows these flags.
fn check_random(a: &Arguments) -> Result<(), Errno> {
    const GRND_NONBLOCK: u32 = 1;
    const GRND_RANDOM: u32 = 2;
    const GRND_INSECURE: u32 = 4;
    let flags = a.uint(2);
    let known = flags & !(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE) == 0;
    if known && flags & (GRND_RANDOM | GRND_INSECURE) != GRND_RANDOM | GRND_INSECURE {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// getrandom(2) of a few bytes; `None` if there are too many to give them at once.
pub(super) fn getrandom(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let length = usize::try_from(a.get(1)).ok().filter(|length| *length <= RANDOM_AT_ONCE_BYTES)?;
    let give = || {
        check_random(a)?;
        if !AddressSpace::is_user_range(a.get(0), a.get(1)) {
            return Err(Errno::EFAULT.into());
        }
        let mut bytes = [0; RANDOM_AT_ONCE_BYTES];
        let bytes = &mut bytes[..length];
        random::fill(bytes);
        caller.put(a.get(0), bytes)?;
        Ok(length as u64)
    };
    Some(give())
}

/// getrandom(2) of many bytes.
pub(super) async fn getrandom_long(caller: Caller<'_>, a: &Arguments) -> Awaited {
    check_random(a)?;
    let length = a.get(1).min(RANDOM_BYTES_MAX);
    let (length_of_part, _charge) =
        ranges::part(caller, usize::try_from(length).unwrap_or(usize::MAX).min(RANDOM_PART_BYTES));
    let mut part = buffer(length_of_part)?;
    let mut done = 0;
    while done < length {
        let count = part.len().min(usize::try_from(length - done).unwrap_or(usize::MAX));
        random::fill(&mut part[..count]);
        let copied = caller.write_part(a.get(0).wrapping_add(done), &part[..count]).await;
        done += copied.bytes as u64;
        match copied.result {
            Ok(()) => {}
            Err(crate::process::Failure::Errno(_)) if done > 0 => break,
            Err(failure) => return Err(failure),
        }
        caller.completed(done);
        crate::executor::yield_now().await;
    }
    Ok(done)
}
