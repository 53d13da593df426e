//! The only kernel crate that may say `unsafe`: a safe API above the machine.
//!
//! A processor core is used in one manner. The kernel runs with interrupts off, on one stack per core; it gives the
//! core to a program with [`user::UserThread::enter`], which returns when the program wants or did something, or an
//! interrupt came; when there is nothing to do it waits in [`cpu::wait_for_interrupt`]. Interrupts arrive in those two
//! places only, and their handlers do no more than note that they came ([`irq`]).
//!
//! What belongs to a core (its current thread, descriptor tables, alarm, pending interrupts) is kept per core.
//!
//! On the host the crate has the same API, so that what is above it can be tested there: [`frames`] and [`paging`] are
//! the real ones, time is the host's, and there is neither a network card nor a way into a program, but for one who
//! plays programs ([`user::simulated`]).
#![no_std]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod addr;
#[cfg(any(target_os = "none", test))]
mod attention;
#[cfg(any(target_os = "none", test))]
mod blocks;
#[cfg_attr(not(any(target_os = "none", test)), expect(dead_code, reason = "the host's allocator needs no books"))]
mod budget;
#[cfg(target_os = "none")]
mod epochs;
pub mod frames;
#[cfg(test)]
mod models;
pub mod paging;
pub mod scrub;
pub mod user;

/// The atomics of [`attention`] and of what else models look at with other ones.
#[cfg(any(target_os = "none", test))]
mod atomic {
    pub(crate) use core::hint::spin_loop;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// Cores a machine may have; further ones are left alone.
pub const CORES_MAX: usize = 64;

#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
pub use machine::{BOOTLOADER_CONFIG, cpu, heap, irq, nic, power, random, region, start, time};

#[cfg(not(target_os = "none"))]
mod host;
#[cfg(not(target_os = "none"))]
pub use host::{cpu, heap, irq, nic, power, random, region, time};

/// What the kernel above finds when the machine is set up.
pub struct Machine {
    /// Memory the machine has, bytes: what is in [`Machine::frames`], and what the loader took for the kernel before.
    pub memory_bytes: u64,
    /// All memory that is not taken yet.
    pub frames: &'static frames::FramePool,
    /// What the loader brought for this node; empty if it brought nothing.
    pub personality: &'static [u8],
    /// The network card, if there is one that works; the log says why not.
    pub nic: Option<nic::Nic>,
    /// What outlives the machine, if there is such a thing; the log says why one that is there does not work.
    pub region: Option<&'static region::Region>,
}
