//! A port that accepts connections. smoltcp's listening sockets become the connection, so a listener is a handful of
//! them: as many as connections may be waiting.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::task::{Context, Poll};

use smoltcp::iface::SocketHandle;
use smoltcp::phy::Device;
use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::wire::IpAddress;
use spin::Mutex;

use crate::NetError;
use crate::stack::{BufferSizes, Stack};
use crate::stream::TcpStream;

/// A listening port. Dropping it closes the port; accepted connections live on.
pub struct TcpListener<D: Device> {
    stack: Stack<D>,
    port: u16,
    sizes: BufferSizes,
    handles: Mutex<Vec<SocketHandle>>,
}

/// The peer of a connection: address and port.
pub type Peer = (Ipv4Addr, u16);

impl<D: Device> TcpListener<D> {
    pub(crate) fn new(stack: Stack<D>, port: u16, sizes: BufferSizes, handles: Vec<SocketHandle>) -> Self {
        Self { stack, port, sizes, handles: Mutex::new(handles) }
    }

    /// Waits for the next connection. One task may wait at a time.
    ///
    /// # Errors
    /// [`NetError::TooManySockets`] if no new listening socket can take the accepted one's place; the connection stays
    /// in the backlog, and a later call may succeed.
    pub async fn accept(&self) -> Result<(TcpStream<D>, Peer), NetError> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Polls for the next connection, as [`Self::accept`] does.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Result<(TcpStream<D>, Peer), NetError>> {
        let mut handles = self.handles.lock();
        let accepted = self.stack.with_state(|state| {
            for slot in handles.iter_mut() {
                let socket = state.sockets.get_mut::<tcp::Socket<'_>>(*slot);
                if socket.state() == TcpState::Closed {
                    // The connection was reset before anybody accepted it.
                    let _ = socket.listen(self.port);
                }
                match (socket.state(), socket.remote_endpoint()) {
                    (TcpState::Listen | TcpState::SynReceived | TcpState::Closed, _) | (_, None) => {
                        socket.register_recv_waker(context.waker());
                    }
                    (_, Some(remote)) => {
                        let IpAddress::Ipv4(address) = remote.addr;
                        let replacement = state.add_listening(self.port, self.sizes)?;
                        return Ok(Some((core::mem::replace(slot, replacement), (address, remote.port))));
                    }
                }
            }
            Ok(None)
        });
        match accepted {
            Ok(Some((handle, peer))) => Poll::Ready(Ok((TcpStream::new(self.stack.clone(), handle, peer), peer))),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<D: Device> Drop for TcpListener<D> {
    fn drop(&mut self) {
        self.stack.with_state(|state| {
            for handle in self.handles.lock().drain(..) {
                state.sockets.get_mut::<tcp::Socket<'_>>(handle).abort();
                state.let_close(handle);
            }
        });
        self.stack.kick();
    }
}
