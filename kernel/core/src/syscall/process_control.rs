//! prctl(2), capabilities, personality(2): what a program asks about itself, and may set as far as that changes
//! nothing. No process has capabilities, whoever its user is: nobody on a node has rights beyond a user's.

use core::sync::atomic::{AtomicU32, Ordering};

use super::Arguments;
use super::thread::only_self;
use crate::abi::signal_set::SIGNAL_MAX;
use crate::abi::{Record, u32_at};
use crate::errno::Errno;
use crate::process::remembered::SLACK_NS_DEFAULT;
use crate::process::{Caller, Immediate};

/// Highest capability that Linux 6.1 has.
const CAPABILITY_MAX: u64 = 40;

/// `PR_*` of prctl(2).
mod option {
    pub(super) const SET_PDEATHSIG: i32 = 1;
    pub(super) const GET_PDEATHSIG: i32 = 2;
    pub(super) const GET_DUMPABLE: i32 = 3;
    pub(super) const SET_DUMPABLE: i32 = 4;
    pub(super) const GET_KEEPCAPS: i32 = 7;
    pub(super) const SET_KEEPCAPS: i32 = 8;
    pub(super) const GET_TIMING: i32 = 13;
    pub(super) const SET_TIMING: i32 = 14;
    pub(super) const SET_NAME: i32 = 15;
    pub(super) const GET_NAME: i32 = 16;
    pub(super) const GET_SECCOMP: i32 = 21;
    pub(super) const CAPBSET_READ: i32 = 23;
    pub(super) const CAPBSET_DROP: i32 = 24;
    pub(super) const GET_TSC: i32 = 25;
    pub(super) const SET_TSC: i32 = 26;
    pub(super) const GET_SECUREBITS: i32 = 27;
    pub(super) const SET_SECUREBITS: i32 = 28;
    pub(super) const SET_TIMERSLACK: i32 = 29;
    pub(super) const GET_TIMERSLACK: i32 = 30;
    pub(super) const TASK_PERF_DISABLE: i32 = 31;
    pub(super) const TASK_PERF_ENABLE: i32 = 32;
    pub(super) const SET_MM: i32 = 35;
    pub(super) const SET_CHILD_SUBREAPER: i32 = 36;
    pub(super) const GET_CHILD_SUBREAPER: i32 = 37;
    pub(super) const SET_NO_NEW_PRIVS: i32 = 38;
    pub(super) const GET_NO_NEW_PRIVS: i32 = 39;
    pub(super) const GET_TID_ADDRESS: i32 = 40;
    pub(super) const SET_THP_DISABLE: i32 = 41;
    pub(super) const GET_THP_DISABLE: i32 = 42;
    pub(super) const CAP_AMBIENT: i32 = 47;
}

/// prctl(2). What it does not know is `EINVAL`, as on a Linux without that feature.
pub(super) fn prctl(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (of_thread, of_process) = (&caller.thread.remembered, &caller.process.remembered);
    let rest_is_zero = a.get(2) | a.get(3) | a.get(4) == 0;
    let tell = |value: &AtomicU32| caller.put(a.get(1), &value.load(Ordering::Relaxed).to_le_bytes()).map(|()| 0);
    match a.int(0) {
        option::SET_PDEATHSIG if a.get(1) <= u64::from(SIGNAL_MAX) => set(&of_thread.death_signal, a.uint(1)),
        option::GET_PDEATHSIG => tell(&of_thread.death_signal),
        option::GET_DUMPABLE => Ok(of_process.dumpable.load(Ordering::Relaxed).into()),
        option::SET_DUMPABLE if a.get(1) <= 1 => set(&of_process.dumpable, a.uint(1)),
        option::GET_KEEPCAPS => Ok(of_process.keeps_capabilities.load(Ordering::Relaxed).into()),
        option::SET_KEEPCAPS if a.get(1) <= 1 => set(&of_process.keeps_capabilities, a.uint(1)),
        option::GET_TIMING => Ok(0),
        option::SET_TIMING if a.get(1) == 0 => Ok(0),
        option::SET_NAME => {
            let name = read_name(caller, a.get(1))?;
            *caller.thread.name.lock() = name;
            Ok(0)
        }
        option::GET_NAME => {
            let name = *caller.thread.name.lock();
            caller.put(a.get(1), &name)?;
            Ok(0)
        }
        option::GET_SECCOMP | option::GET_SECUREBITS => Ok(0),
        option::CAPBSET_READ if a.get(1) <= CAPABILITY_MAX => Ok(0),
        option::CAPBSET_DROP | option::SET_SECUREBITS | option::SET_MM => Err(Errno::EPERM.into()),
        // The time-stamp counter can be read.
        option::GET_TSC => caller.put(a.get(1), &1_u32.to_le_bytes()).map(|()| 0),
        option::SET_TSC if a.get(1) == 1 => Ok(0),
        option::SET_TIMERSLACK => {
            let slack_ns = if a.get(1).cast_signed() <= 0 { SLACK_NS_DEFAULT } else { a.get(1) };
            of_thread.slack_ns.store(slack_ns, Ordering::Relaxed);
            Ok(0)
        }
        option::GET_TIMERSLACK => Ok(of_thread.slack_ns.load(Ordering::Relaxed)),
        option::TASK_PERF_DISABLE | option::TASK_PERF_ENABLE => Ok(0),
        option::SET_CHILD_SUBREAPER => set(&of_process.reaps, u32::from(a.get(1) != 0)),
        option::GET_CHILD_SUBREAPER => tell(&of_process.reaps),
        option::SET_NO_NEW_PRIVS if a.get(1) == 1 && rest_is_zero => set(&of_process.no_new_privileges, 1),
        option::GET_NO_NEW_PRIVS if a.get(1) == 0 && rest_is_zero => {
            Ok(of_process.no_new_privileges.load(Ordering::Relaxed).into())
        }
        option::GET_TID_ADDRESS => {
            let address = caller.thread.clear_tid.load(Ordering::Relaxed);
            caller.put(a.get(1), &address.to_le_bytes()).map(|()| 0)
        }
        option::SET_THP_DISABLE if rest_is_zero => set(&of_process.no_huge_pages, u32::from(a.get(1) != 0)),
        option::GET_THP_DISABLE if a.get(1) == 0 && rest_is_zero => {
            Ok(of_process.no_huge_pages.load(Ordering::Relaxed).into())
        }
        option::CAP_AMBIENT => ambient(a),
        _ => Err(Errno::EINVAL.into()),
    }
}

fn set(place: &AtomicU32, value: u32) -> Immediate {
    place.store(value, Ordering::Relaxed);
    Ok(0)
}

/// The ambient capabilities, of which there are none.
fn ambient(a: &Arguments) -> Immediate {
    const IS_SET: u64 = 1;
    const RAISE: u64 = 2;
    const LOWER: u64 = 3;
    const CLEAR_ALL: u64 = 4;
    match a.get(1) {
        CLEAR_ALL if a.get(2) | a.get(3) | a.get(4) == 0 => Ok(0),
        IS_SET | LOWER if a.get(2) <= CAPABILITY_MAX && a.get(3) | a.get(4) == 0 => Ok(0),
        RAISE if a.get(2) <= CAPABILITY_MAX && a.get(3) | a.get(4) == 0 => Err(Errno::EPERM.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Up to 15 bytes before a zero; what lies behind the zero need not be mapped.
fn read_name(caller: Caller<'_>, address: u64) -> Immediate<[u8; 16]> {
    let mut name = [0; 16];
    for (index, byte) in name.iter_mut().take(15).enumerate() {
        let at = address.checked_add(index as u64).ok_or(Errno::EFAULT)?;
        let [read] = caller.get::<1>(at)?;
        if read == 0 {
            break;
        }
        *byte = read;
    }
    Ok(name)
}

/// Length of the header of capget(2), bytes.
const CAPABILITY_HEADER_BYTES: usize = 8;

/// How many words of each set a version has; one that is not known is told the one that is.
fn capability_words(caller: Caller<'_>, a: &Arguments) -> Immediate<Option<(usize, i32)>> {
    const VERSION_1: u32 = 0x1998_0330;
    const VERSION_2: u32 = 0x2007_1026;
    const VERSION_3: u32 = 0x2008_0522;
    let header = caller.get::<CAPABILITY_HEADER_BYTES>(a.get(0))?;
    let pid = u32_at(&header, 4).cast_signed();
    match u32_at(&header, 0) {
        VERSION_1 => Ok(Some((1, pid))),
        VERSION_2 | VERSION_3 => Ok(Some((2, pid))),
        _ => caller.put(a.get(0), &VERSION_3.to_le_bytes()).map(|()| None),
    }
}

/// Bytes that a word of each of the three sets takes.
const CAPABILITY_BYTES: usize = 12;

/// capget(2): none.
pub(super) fn capget(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let Some((words, pid)) = capability_words(caller, a)? else {
        return if a.get(1) == 0 { Ok(0) } else { Err(Errno::EINVAL.into()) };
    };
    only_self(caller, pid)?;
    if a.get(1) != 0 {
        let none = Record::<{ 2 * CAPABILITY_BYTES }>::new();
        caller.put(a.get(1), &none.bytes()[..words * CAPABILITY_BYTES])?;
    }
    Ok(0)
}

/// capset(2): none.
pub(super) fn capset(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let Some((words, pid)) = capability_words(caller, a)? else { return Err(Errno::EINVAL.into()) };
    only_self(caller, pid).map_err(|_| Errno::EPERM)?;
    for word in 0..words as u64 {
        let sets: [u8; CAPABILITY_BYTES] = caller.get(a.get(1).wrapping_add(word * CAPABILITY_BYTES as u64))?;
        if sets != [0; CAPABILITY_BYTES] {
            return Err(Errno::EPERM.into());
        }
    }
    Ok(0)
}

/// personality(2): what is set is told again.
pub(super) fn personality(caller: Caller<'_>, a: &Arguments) -> u64 {
    const ASK: u32 = u32::MAX;
    let place = &caller.process.remembered.personality;
    match a.uint(0) {
        ASK => place.load(Ordering::Relaxed).into(),
        new => place.swap(new, Ordering::Relaxed).into(),
    }
}
