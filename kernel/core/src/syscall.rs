//! System calls: Linux's ABI, one module per family.
//!
//! A call is either *immediate* (it never waits, and is made without touching anything asynchronous) or *awaited*. An
//! immediate call that touches a page which must be fetched first does nothing and says so; it is made again when the
//! page is there. So immediate calls write the program's memory only when they can write all of it, and change
//! anything else last.
//!
//! Every argument is a number the program chose. Addresses are never followed but copied through the page table,
//! lengths are cut to what the kernel is ready to keep, and what takes long is done in parts.

mod activity;
mod advise;
mod at_once;
mod attributes;
mod cached;
mod descriptors;
mod directories;
mod dispatch;
mod epoll;
mod file_length;
mod futex;
mod identity;
mod interfaces;
mod io_control;
mod limits;
mod lock;
mod locks;
mod lookups;
mod memory;
mod names;
mod open;
mod ownership;
mod pipe;
mod place;
mod poll;
mod process_control;
mod ranges;
mod read;
mod records;
mod schedule;
mod seek;
mod select;
mod send_signal;
mod shared;
mod signal;
mod signal_file;
mod sleep;
mod socket;
mod splice;
mod stat;
mod stream;
mod system;
#[cfg(test)]
mod tests;
mod thread;
mod time;
mod timer_file;
mod timers;
mod transfer;
mod wait_signal;
mod waits;
mod whereabouts;
mod write;

use coppice_hal::user::Registers;
use coppice_protocol::syscalls as nr;

pub(crate) use self::advise::brings_pages;
pub(crate) use self::dispatch::{awaited, change_memory, fact, immediate};
pub(crate) use self::futex::{Futex, futex, rest};
pub(crate) use self::memory::Memory;
pub(crate) use self::signal::check_stack;
use crate::errno::Errno;
use crate::process::Caller;

/// The six arguments of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments([u64; 6]);

impl Arguments {
    /// The arguments in the registers.
    #[inline]
    pub(crate) fn of(regs: &Registers) -> Self {
        Self([regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9])
    }

    /// All six, in full width.
    pub(crate) fn all(&self) -> [u64; 6] {
        self.0
    }

    /// Argument `index`, 0 to 5, in full width.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.0[index]
    }

    /// As a C `int`: Linux looks at its low half only.
    #[inline]
    pub(crate) fn int(&self, index: usize) -> i32 {
        self.0[index] as i32
    }

    /// As a C `unsigned int`.
    #[inline]
    pub(crate) fn uint(&self, index: usize) -> u32 {
        self.0[index] as u32
    }

    /// As a file offset or length, which must not be negative.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(crate) fn offset(&self, index: usize) -> Result<u64, Errno> {
        i64::try_from(self.0[index]).map(i64::cast_unsigned).map_err(|_| Errno::EINVAL)
    }
}

/// Answers calls that programs make over and over, where there is nothing out of the ordinary.
#[inline]
pub(crate) fn at_once(caller: Caller<'_>, number: u64, regs: &Registers) -> Option<u64> {
    if number == u64::from(nr::POLL) { poll::poll_at_once(caller, regs) } else { None }
}
