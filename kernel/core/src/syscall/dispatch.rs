//! From a call's number to what makes it. All of it follows from the one table of calls
//! ([`coppice_protocol::syscalls`]): where a call is made, and its name, under which [`at_once`] or [`waits`] has it.

use coppice_hal::user::Registers;
use coppice_protocol::for_each_call;

use super::memory::{self, Memory};
use super::{Arguments, advise, at_once, waits};
use crate::errno::Errno;
use crate::process::{Awaited, Caller, Failure, Identity, Immediate};

/// Facts about callers.
mod facts {
    use super::{Caller, Identity};

    #[inline]
    pub(super) fn getpid(caller: Caller<'_>) -> u32 {
        caller.process.identity.pid
    }

    #[inline]
    pub(super) fn gettid(caller: Caller<'_>) -> u32 {
        caller.thread.tid
    }

    #[inline]
    pub(super) fn getppid(_: Caller<'_>) -> u32 {
        Identity::PARENT
    }

    #[inline]
    pub(super) fn getuid(caller: Caller<'_>) -> u32 {
        caller.process.identity.user
    }

    #[inline]
    pub(super) fn getgid(caller: Caller<'_>) -> u32 {
        caller.process.identity.group
    }

    pub(super) use self::getgid as getegid;
    pub(super) use self::getuid as geteuid;
}

macro_rules! fact_of {
    (Fact $name:ident $caller:ident) => {
        facts::$name($caller)
    };
    ($place:ident $(($errno:ident))? $name:ident $caller:ident) => {
        return None
    };
}

macro_rules! memory_of {
    (Memory $name:ident $caller:ident $a:ident) => {
        memory::$name($caller, $a)
    };
    ($place:ident $(($errno:ident))? $name:ident $caller:ident $a:ident) => {
        Err(Errno::ENOSYS.into())
    };
}

macro_rules! immediate_of {
    (AtOnce $name:ident $caller:ident $a:ident $registers:ident) => {
        at_once::$name($caller, $a)
    };
    (Registers $name:ident $caller:ident $a:ident $registers:ident) => {
        at_once::registers::$name($caller, $registers)
    };
    (Tried $name:ident $caller:ident $a:ident $registers:ident) => {
        at_once::tried::$name($caller, $a)?
    };
    (Refused($errno:ident) $name:ident $caller:ident $a:ident $registers:ident) => {
        Err(Errno::$errno.into())
    };
    ($place:ident $name:ident $caller:ident $a:ident $registers:ident) => {
        return None
    };
}

macro_rules! awaited_of {
    (Tried $name:ident $caller:ident $a:ident) => {
        waits::$name($caller, $a).await
    };
    (Node $name:ident $caller:ident $a:ident) => {
        waits::$name($caller, $a).await
    };
    (Shipped $name:ident $caller:ident $a:ident) => {
        waits::$name($caller, $a).await
    };
    ($place:ident $(($errno:ident))? $name:ident $caller:ident $a:ident) => {
        Err(Failure::Unknown)
    };
}

macro_rules! dispatch {
    ([] $(
        $number:literal $constant:ident $name:ident($($kind:expr),*) $returns:ident,
        $place:ident $(($errno:ident))?, $interruption:ident $($how:literal)?;
    )*) => {
        /// Answers calls that cannot fail and touch nothing: facts about the caller.
        #[inline]
        pub(crate) fn fact(caller: Caller<'_>, number: u64) -> Option<u64> {
            // Linux looks at all 64 bits of a number, and has none beyond 32.
            let fact = match u32::try_from(number).ok()? {
                $($number => fact_of!($place $(($errno))? $name caller),)*
                _ => return None,
            };
            Some(fact.into())
        }

        /// Makes a call that changes what is mapped; its pages may take longer.
        pub(crate) fn change_memory(caller: Caller<'_>, number: u64, a: &Arguments) -> Immediate<Memory> {
            match u32::try_from(number).unwrap_or(u32::MAX) {
                $($number => memory_of!($place $(($errno))? $name caller a),)*
                _ => Err(Errno::ENOSYS.into()),
            }
        }

        /// Makes the call if it is an immediate one, and no [`fact`].
        // Large, and to be no part of the way that every call goes, wherever the compiler finds the two.
        #[inline(never)]
        pub(crate) fn immediate(caller: Caller<'_>, number: u64, registers: &mut Registers) -> Option<Immediate> {
            let number = u32::try_from(number).ok()?;
            let a = &Arguments::of(registers);
            Some(match number {
                $($number => immediate_of!($place $(($errno))? $name caller a registers),)*
                _ => return None,
            })
        }

        /// Makes a call that may wait. May be dropped wherever it waits; see [`crate::process`].
        pub(crate) async fn awaited(caller: Caller<'_>, number: u64, a: &Arguments) -> Awaited {
            match u32::try_from(number).unwrap_or(u32::MAX) {
                // One that brings pages changes nothing of what is mapped.
                coppice_protocol::syscalls::MADVISE => advise::madvise(caller, a).await,
                $($number => awaited_of!($place $(($errno))? $name caller a),)*
                _ => Err(Failure::Unknown),
            }
        }
    };
}

for_each_call!(dispatch);
