//! What a compute node decides; runs in host tests too.
#![no_std]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

mod abi;
pub mod agent;
mod checkpoint;
pub mod clock;
pub mod errno;
pub mod executor;
mod files;
pub mod launch;
pub mod limits;
pub mod memory;
pub mod net;
pub mod overlay;
pub mod pmi;
pub mod process;
pub mod quota;
pub mod random;
pub mod ras;
pub mod region;
pub mod ship;
pub mod staging;
mod start;
mod sync;
mod syscall;
#[cfg(test)]
mod testing;
mod thread;

pub use start::run;
