//! The host's stand-ins for the machine, with the API of the machine's own modules.

pub mod cpu;
pub mod heap;
pub mod irq;
pub mod nic;
pub mod power;
pub mod random;
pub mod region;
pub mod time;
