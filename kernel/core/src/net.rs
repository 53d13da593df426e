//! The node's network: its card under the TCP/IP stack, the task that moves both on, and authenticated links to the
//! I/O node.

mod backoff;
mod dial;
#[cfg(target_os = "none")]
mod driver;
mod link;
#[cfg(target_os = "none")]
mod nic;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use backoff::Backoff;
pub use dial::{BoxFuture, Dial, IoNode, Wire};
#[cfg(target_os = "none")]
pub use driver::drive;
pub use link::{Credentials, Link, LinkError};
#[cfg(target_os = "none")]
pub use nic::NicDevice;
