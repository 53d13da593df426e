//! What the kernel itself is at the other end of: to the program a socket, like those that programs make.

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

    /// What is said and not heard yet, for whoever makes it again elsewhere.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn record(&self) -> Result<Vec<u8>, Errno>;

    /// What tells it from other sockets ([`super::serial`]).
    fn serial(&self) -> u64;
}
