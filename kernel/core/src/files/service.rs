//! What the kernel itself is at the other end of: to the program a socket, like those that programs make.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::Waker;

use super::readiness::Ready;
use super::stream::Stream;
use crate::errno::Errno;

/// See this module.
pub(crate) trait Service: Stream + Send {
    /// See [`super::OpenFile::ready`].
    fn ready(&self) -> Ready;

    /// See [`super::OpenFile::watch`].
    ///
    /// # Errors
    /// `ENOMEM`.
    fn watch(&self, waker: &Waker) -> Result<(), Errno>;

    /// Bytes that can be read.
    fn held(&self) -> usize;

    /// The program reads nothing more, or says nothing more.
    fn shut_down(&self, _reading: bool, _writing: bool) {}

    /// What is said and not heard yet, for whoever makes it again elsewhere.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn record(&self) -> Result<Vec<u8>, Errno>;

    /// What tells it from other sockets ([`super::serial`]).
    fn serial(&self) -> u64;
}

/// Where the kernel answers a process that connects to a port of its own node.
pub(crate) trait Servers: Send + Sync {
    /// Whether there is somebody at this port.
    fn has(&self, port: u16) -> bool;

    /// A connection with whoever is at this port.
    ///
    /// # Errors
    /// `ENOMEM`; `ECONNREFUSED`: there is nobody, or the job is over.
    fn connect(&self, port: u16) -> Result<Box<dyn Service>, Errno>;
}

/// Nobody is anywhere.
pub(crate) struct NoServers;

impl Servers for NoServers {
    fn has(&self, _port: u16) -> bool {
        false
    }

    fn connect(&self, _port: u16) -> Result<Box<dyn Service>, Errno> {
        Err(Errno::ECONNREFUSED)
    }
}
