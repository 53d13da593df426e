//! The node's network: its card under the TCP/IP stack, the task that moves both on, authenticated links to the
//! I/O node, and sockets for programs.

mod again;
mod backoff;
mod datagrams;
mod dial;
mod driver;
pub(crate) mod job;
mod link;
mod neighbours;
mod network;
mod nic;
pub mod permitted;
#[cfg(test)]
pub(crate) mod testing;

pub use again::Again;
pub(crate) use backoff::Backoff;
pub use datagrams::Udp;
pub use dial::{BoxFuture, Dial, IoNode, Wire};
pub use driver::drive;
pub use link::{Credentials, Link, LinkError};
pub use neighbours::{Caller, Datagrams, Door, Neighbours};
pub use network::{Network, Tcp};
pub use nic::{Card, CardCounts, NicDevice};
