//! Resource limits: getrlimit(2), setrlimit(2), prlimit64(2), of the caller's own process.

use coppice_hal::paging::Access;

use super::Arguments;
use super::thread::only_self;
use crate::abi::system::{RLIMIT_BYTES, rlimit};
use crate::abi::u64_at;
use crate::errno::Errno;
use crate::process::resources::Limit;
use crate::process::{Caller, Immediate};

fn put(caller: Caller<'_>, address: u64, limit: Limit) -> Immediate<()> {
    caller.put(address, rlimit(limit.soft, limit.hard).bytes())
}

fn get(caller: Caller<'_>, address: u64) -> Immediate<Limit> {
    let bytes: [u8; RLIMIT_BYTES] = caller.get(address)?;
    Ok(Limit { soft: u64_at(&bytes, 0), hard: u64_at(&bytes, 8) })
}

/// getrlimit(2).
pub(super) fn getrlimit(caller: Caller<'_>, a: &Arguments) -> Immediate {
    put(caller, a.get(1), caller.process.limits.get(a.uint(0))?)?;
    Ok(0)
}

/// setrlimit(2).
pub(super) fn setrlimit(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let new = get(caller, a.get(1))?;
    caller.process.set_limit(a.uint(0), new)?;
    Ok(0)
}

/// prlimit64(2).
pub(super) fn prlimit64(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let new = if a.get(2) == 0 { None } else { Some(get(caller, a.get(2))?) };
    only_self(caller, a.int(0)).map_err(|_| Errno::ESRCH)?;
    let old = caller.process.limits.get(a.uint(1))?;
    if a.get(3) != 0 {
        // Before anything changes, as the call may be made again.
        caller.process.space.lock().touch(a.get(3), RLIMIT_BYTES, Access::WRITE)?;
    }
    if let Some(new) = new {
        caller.process.set_limit(a.uint(1), new)?;
    }
    if a.get(3) != 0 {
        put(caller, a.get(3), old)?;
    }
    Ok(0)
}
