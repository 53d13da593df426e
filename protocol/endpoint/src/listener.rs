//! A port that accepts connections for the node's own use.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::task::{Context, Poll};

use smoltcp::phy::Device;

use crate::NetError;
use crate::cell::Cell;
use crate::stack::Stack;
use crate::stack::listen::Place;
use crate::stack::ports::Claim;
use crate::stream::TcpStream;

/// A listening port. Dropping it closes the port; accepted connections live on.
pub struct TcpListener<D: Device> {
    stack: Stack<D>,
    place: Place,
    /// There until it is dropped.
    claim: Option<Claim>,
    cell: Arc<Cell>,
}

/// The peer of a connection: address and port.
pub type Peer = (Ipv4Addr, u16);

impl<D: Device> TcpListener<D> {
    pub(crate) fn new(stack: Stack<D>, place: Place, claim: Claim, cell: Arc<Cell>) -> Self {
        Self { stack, place, claim: Some(claim), cell }
    }

    /// Waits for the next connection. One task may wait at a time.
    ///
    /// # Errors
    /// None at present.
    pub async fn accept(&self) -> Result<(TcpStream<D>, Peer), NetError> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Polls for the next connection, as [`Self::accept`] does.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Result<(TcpStream<D>, Peer), NetError>> {
        self.cell.watch(context.waker());
        match self.stack.with_net(|net| net.accept(self.place)) {
            Some((key, peer)) => Poll::Ready(Ok((TcpStream::new(self.stack.clone(), key, peer), peer))),
            None => Poll::Pending,
        }
    }
}

impl<D: Device> Drop for TcpListener<D> {
    fn drop(&mut self) {
        let claim = self.claim.take();
        self.stack.with_net(|net| {
            net.unlisten(self.place);
            claim.into_iter().for_each(|claim| net.ports.release(claim));
        });
        self.stack.kick();
    }
}
