//! Resource limits: getrlimit(2), setrlimit(2), prlimit64(2). They say what is so; setting one to less is accepted and
//! remembered by nobody, setting one to more is refused.

use alloc::format;
use alloc::string::String;

use super::Arguments;
use super::abi::system::{RLIMIT_BYTES, rlimit};
use super::abi::u64_at;
use super::thread::only_self;
use crate::errno::Errno;
use crate::files::DESCRIPTORS_MAX;
use crate::limits::SIGNALS_QUEUED_MAX;
use crate::memory::limits::STACK_BYTES;
use crate::process::{Caller, Immediate, Process};

const INFINITY: u64 = u64::MAX;

/// Soft and hard limit of a resource.
///
/// # Errors
/// `EINVAL`: no such resource.
fn limit(resource: u32) -> Result<(u64, u64), Errno> {
    const RLIMIT_STACK: u32 = 3;
    const RLIMIT_CORE: u32 = 4;
    const RLIMIT_NPROC: u32 = 6;
    const RLIMIT_NOFILE: u32 = 7;
    const RLIMIT_SIGPENDING: u32 = 11;
    const RLIMIT_MSGQUEUE: u32 = 12;
    const RLIMIT_NICE: u32 = 13;
    const RLIMIT_RTPRIO: u32 = 14;
    const RLIMITS: u32 = 16;
    match resource {
        RLIMIT_STACK => Ok((STACK_BYTES, STACK_BYTES)),
        RLIMIT_NOFILE => Ok((DESCRIPTORS_MAX as u64, DESCRIPTORS_MAX as u64)),
        RLIMIT_NPROC => Ok((1, 1)),
        RLIMIT_SIGPENDING => Ok((SIGNALS_QUEUED_MAX as u64, SIGNALS_QUEUED_MAX as u64)),
        RLIMIT_CORE | RLIMIT_MSGQUEUE | RLIMIT_NICE | RLIMIT_RTPRIO => Ok((0, 0)),
        ..RLIMITS => Ok((INFINITY, INFINITY)),
        _ => Err(Errno::EINVAL),
    }
}

/// `/proc/self/limits`.
pub(crate) fn text(_process: &Process) -> String {
    const ROWS: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let value = |value: u64| if value == INFINITY { String::from("unlimited") } else { format!("{value}") };
    let row = |(resource, (name, unit)): (usize, &(&str, &str))| {
        let (soft, hard) = limit(resource as u32).unwrap_or((0, 0));
        format!("{name:<25} {:<20} {:<20} {unit:<10}\n", value(soft), value(hard))
    };
    let head = format!("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    ROWS.iter().enumerate().map(row).fold(head, |all, row| all + &row)
}

fn get(caller: Caller<'_>, resource: u32, address: u64) -> Immediate<()> {
    let (soft, hard) = limit(resource)?;
    caller.put(address, rlimit(soft, hard).bytes())
}

fn check_new(caller: Caller<'_>, resource: u32, address: u64) -> Immediate<()> {
    let bytes: [u8; RLIMIT_BYTES] = caller.get(address)?;
    let (soft, hard) = (u64_at(&bytes, 0), u64_at(&bytes, 8));
    if soft > hard {
        return Err(Errno::EINVAL.into());
    }
    if hard > limit(resource)?.1 { Err(Errno::EPERM.into()) } else { Ok(()) }
}

/// getrlimit(2).
pub(super) fn getrlimit(caller: Caller<'_>, a: &Arguments) -> Immediate {
    get(caller, a.uint(0), a.get(1))?;
    Ok(0)
}

/// setrlimit(2).
pub(super) fn setrlimit(caller: Caller<'_>, a: &Arguments) -> Immediate {
    limit(a.uint(0))?;
    check_new(caller, a.uint(0), a.get(1))?;
    Ok(0)
}

/// prlimit64(2).
pub(super) fn prlimit64(caller: Caller<'_>, a: &Arguments) -> Immediate {
    only_self(caller, a.int(0)).map_err(|_| Errno::ESRCH)?;
    limit(a.uint(1))?;
    if a.get(2) != 0 {
        check_new(caller, a.uint(1), a.get(2))?;
    }
    if a.get(3) != 0 {
        get(caller, a.uint(1), a.get(3))?;
    }
    Ok(0)
}
