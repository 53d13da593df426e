//! The I/O node's station on the fabric: a smoltcp device over queues (`device`) and the task that moves frames between
//! it and a Unix datagram socket (`driver`).

mod device;
mod driver;

pub use device::Device;
pub use driver::{Port, drive};
