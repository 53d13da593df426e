//! Who a process is: process groups, user and group ids. None of them can change.

use coppice_protocol::syscalls as nr;

use super::Arguments;
use super::thread::only_self;
use crate::errno::Errno;
use crate::process::{Caller, Immediate};

/// getpgid(2), getsid(2): a process leads its own group and session.
pub(super) fn group_of(caller: Caller<'_>, a: &Arguments) -> Immediate {
    only_self(caller, a.int(0)).map_err(|_| Errno::ESRCH)?;
    Ok(caller.process.identity.pid.into())
}

/// setpgid(2): a session's leader stays in its group.
pub(super) fn setpgid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    only_self(caller, a.int(0))?;
    if a.int(1) < 0 { Err(Errno::EINVAL.into()) } else { Err(Errno::EPERM.into()) }
}

/// The id a call is about: the group's or the user's.
fn own(caller: Caller<'_>, number: u32) -> u32 {
    match number {
        nr::SETGID | nr::SETREGID | nr::SETRESGID | nr::GETRESGID => caller.process.identity.group,
        _ => caller.process.identity.user,
    }
}

/// "Leave it" for the calls that set several ids.
const KEEP: u32 = u32::MAX;

/// setuid(2), setgid(2): only to what it is.
pub(super) fn set_one(caller: Caller<'_>, number: u32, a: &Arguments) -> Immediate {
    match a.uint(0) {
        KEEP => Err(Errno::EINVAL.into()),
        id if id == own(caller, number) => Ok(0),
        _ => Err(Errno::EPERM.into()),
    }
}

/// setreuid(2), setresuid(2) and those of groups.
pub(super) fn set_several(caller: Caller<'_>, number: u32, a: &Arguments) -> Immediate {
    let count = if matches!(number, nr::SETREUID | nr::SETREGID) { 2 } else { 3 };
    let own = own(caller, number);
    let allowed = (0..count).all(|index| a.uint(index) == KEEP || a.uint(index) == own);
    if allowed { Ok(0) } else { Err(Errno::EPERM.into()) }
}

/// getresuid(2), getresgid(2).
pub(super) fn get_three(caller: Caller<'_>, number: u32, a: &Arguments) -> Immediate {
    let id = own(caller, number).to_le_bytes();
    for index in 0..3 {
        caller.put(a.get(index), &id)?;
    }
    Ok(0)
}

/// getgroups(2): the one group.
pub(super) fn getgroups(caller: Caller<'_>, a: &Arguments) -> Immediate {
    match a.int(0) {
        ..0 => Err(Errno::EINVAL.into()),
        0 => Ok(1),
        _ => {
            caller.put(a.get(1), &caller.process.identity.group.to_le_bytes())?;
            Ok(1)
        }
    }
}
