//! Connections without the type of the device they run on.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::pin::Pin;
use core::task::{Context, Poll};

use coppice_endpoint::{BufferSizes, NetError, Stack, TcpStream};
use coppice_hal as hal;
use smoltcp::phy::Device;

use super::nic::Card;
use crate::executor;
use crate::sync::{LockLevel, passing};

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A connected pair of byte streams.
pub trait Wire: Send + Sync {
    /// Whether there are bytes to take (true) or the stream has ended (false).
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<Result<bool, NetError>>;

    /// Hands the received bytes to `f`, takes them all and leaves nothing of them behind.
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke.
    fn take(&self, f: &mut dyn FnMut(&[u8])) -> Result<(), NetError>;

    /// Writes what there is room for, at least one byte; otherwise the task is woken when there is.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, NetError>>;

    /// Writes what there is room for now.
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke.
    fn try_write(&self, bytes: &[u8]) -> Result<usize, NetError>;

    /// Bytes written and not yet acknowledged.
    fn unacknowledged(&self) -> usize;

    /// Asks the peer for a sign of life whenever the connection was silent for `interval_ns`.
    fn keep_alive(&self, interval_ns: u64);

    /// Breaks the connection off.
    fn abort(&self);
}

impl<D: Device + Send> Wire for TcpStream<D> {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<Result<bool, NetError>> {
        let _passing = passing(LockLevel::Network);
        TcpStream::poll_readable(self, context)
    }

    fn take(&self, f: &mut dyn FnMut(&[u8])) -> Result<(), NetError> {
        let _passing = passing(LockLevel::Network);
        self.take_in_place(|bytes| {
            f(bytes);
            hal::scrub::bytes(bytes);
            (bytes.len(), ())
        })
        .map(|_| ())
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, NetError>> {
        let _passing = passing(LockLevel::Network);
        TcpStream::poll_write(self, context, bytes)
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, NetError> {
        let _passing = passing(LockLevel::Network);
        TcpStream::try_write(self, bytes)
    }

    fn unacknowledged(&self) -> usize {
        let _passing = passing(LockLevel::Network);
        TcpStream::unacknowledged(self)
    }

    fn keep_alive(&self, interval_ns: u64) {
        let _passing = passing(LockLevel::Network);
        self.set_keep_alive(Some(interval_ns));
    }

    fn abort(&self) {
        let _passing = passing(LockLevel::Network);
        TcpStream::abort(self);
    }
}

/// A way to reach the I/O node.
pub trait Dial: Send + Sync {
    /// Connects to one of its ports, with buffers of `buffer_bytes` in each direction.
    fn dial(&self, port: u16, buffer_bytes: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>>;

    /// Whether connections that programs have closed still have something to tell their peers.
    fn is_delivering(&self) -> bool;

    /// Breaks those connections off.
    fn stop_delivering(&self);

    /// Wipes what was sent over connections and is acknowledged, forgets the connections that nobody holds, and leaves
    /// the network of the job whose they were ([`Stack::leave_job`]).
    fn scrub_connections(&self);

    /// Wipes what frames left in the card's buffers, as [`Card::scrub`] does.
    fn scrub_card(&self, force: bool) -> bool;
}

/// The I/O node, as seen through a stack.
pub struct IoNode<D: Device> {
    /// The stack to connect from.
    pub stack: Stack<D>,
    /// The I/O node's address.
    pub address: Ipv4Addr,
}

impl<D: Card + Send + 'static> Dial for IoNode<D> {
    fn dial(&self, port: u16, buffer_bytes: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        let sizes = BufferSizes { receive: buffer_bytes, transmit: buffer_bytes };
        Box::pin(async move {
            let stream = self.stack.connect(self.address, port, sizes).await?;
            Ok(Arc::new(stream) as Arc<dyn Wire>)
        })
    }

    fn is_delivering(&self) -> bool {
        self.stack.is_delivering()
    }

    fn stop_delivering(&self) {
        self.stack.stop_delivering();
    }

    fn scrub_connections(&self) {
        self.stack.scrub(executor::now_ns(), hal::scrub::bytes);
        self.stack.leave_job();
    }

    fn scrub_card(&self, force: bool) -> bool {
        self.stack.with_device(|card| card.scrub(force))
    }
}
