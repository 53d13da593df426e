//! The node's network: its card under the TCP/IP stack, the task that moves both on, and authenticated links to the
//! I/O node.

mod backoff;
mod dial;
mod driver;
mod link;
mod nic;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use backoff::Backoff;
pub use dial::{BoxFuture, Dial, IoNode, Wire};
pub use driver::drive;
pub use link::{Credentials, Link, LinkError};
pub use nic::{Card, NicDevice};
