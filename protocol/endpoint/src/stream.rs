//! A TCP connection as a pair of byte streams.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::task::{Context, Poll};

use smoltcp::phy::Device;
use smoltcp::socket::tcp::{self, RecvError, State as TcpState};

use crate::NetError;
use crate::stack::table::Key;
use crate::stack::{Stack, stack_duration};

/// A connection. Clones are handles to the same connection, so that one task can read while another writes; at most one
/// task may wait for each direction. When the last handle goes, the connection is closed (what was written is still
/// delivered), or aborted if it was still being made.
pub struct TcpStream<D: Device> {
    connection: Arc<Connection<D>>,
}

impl<D: Device> Clone for TcpStream<D> {
    fn clone(&self) -> Self {
        Self { connection: Arc::clone(&self.connection) }
    }
}

struct Connection<D: Device> {
    stack: Stack<D>,
    key: Key,
    peer: (Ipv4Addr, u16),
}

impl<D: Device> TcpStream<D> {
    pub(crate) fn new(stack: Stack<D>, key: Key, peer: (Ipv4Addr, u16)) -> Self {
        Self { connection: Arc::new(Connection { stack, key, peer }) }
    }

    /// Address and port of the other side.
    #[must_use]
    pub fn peer(&self) -> (Ipv4Addr, u16) {
        self.connection.peer
    }

    /// Bytes written and not yet acknowledged by the peer's stack.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.connection.with_socket(|socket| socket.send_queue()).unwrap_or(0)
    }

    /// Reads into `buffer`: waits for at least one byte and returns how many there are; 0 at the stream's end.
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke.
    pub async fn read(&self, buffer: &mut [u8]) -> Result<usize, NetError> {
        self.read_with(|bytes| {
            let taken = bytes.len().min(buffer.len());
            buffer[..taken].copy_from_slice(&bytes[..taken]);
            (taken, taken)
        })
        .await
        .map(|taken| taken.unwrap_or(0))
    }

    /// Waits for received bytes and calls `f` with them where they lie; `f` returns how many it took and a result.
    /// `None` at the stream's end.
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke.
    pub async fn read_with<R>(&self, f: impl FnOnce(&[u8]) -> (usize, R)) -> Result<Option<R>, NetError> {
        let mut f = Some(f);
        poll_fn(|context| match self.poll_readable(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(false)) => Poll::Ready(Ok(None)),
            Poll::Ready(Ok(true)) => match f.take() {
                Some(f) => Poll::Ready(self.take_with(f)),
                None => Poll::Ready(Ok(None)),
            },
        })
        .await
    }

    /// Whether there are bytes to take (true) or the stream has ended (false).
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<Result<bool, NetError>> {
        let readable = self.connection.with_socket(|socket| {
            if socket.can_recv() {
                return Poll::Ready(Ok(true));
            }
            match socket.peek(0) {
                Ok(_) => {
                    socket.register_recv_waker(context.waker());
                    Poll::Pending
                }
                Err(RecvError::Finished) => Poll::Ready(Ok(false)),
                Err(RecvError::InvalidState) => Poll::Ready(Err(NetError::Reset)),
            }
        });
        readable.unwrap_or(Poll::Ready(Err(NetError::Reset)))
    }

    /// Calls `f` with the received bytes that lie together (maybe none); `f` returns how many it took and a result.
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke or nothing can be received any more.
    pub fn take_with<R>(&self, f: impl FnOnce(&[u8]) -> (usize, R)) -> Result<Option<R>, NetError> {
        self.take_in_place(|bytes| f(bytes))
    }

    /// As [`Self::take_with`], for an `f` that leaves nothing behind: it may zero the bytes it takes, which stay in the
    /// connection's buffer otherwise until others take their place.
    ///
    /// # Errors
    /// As [`Self::take_with`].
    pub fn take_in_place<R>(&self, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Result<Option<R>, NetError> {
        let taken = self.connection.with_socket(|socket| {
            // The peer must be told that there is room again if so much was waiting that it may have stopped.
            let window_grew = socket.recv_queue() >= socket.recv_capacity() / 2;
            let result = socket.recv(|bytes| {
                let (taken, result) = f(bytes);
                (taken.min(bytes.len()), result)
            });
            (result, window_grew)
        });
        let (result, window_grew) = taken.ok_or(NetError::Reset)?;
        if window_grew {
            self.connection.kick();
        }
        result.map(Some).map_err(|_| NetError::Reset)
    }

    /// Writes from the start of `bytes`: waits for room and returns how many went. They are sent at once.
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke, [`NetError::Closed`] after [`Self::close`].
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, NetError> {
        poll_fn(|context| self.poll_write(context, bytes)).await
    }

    /// Polls for room and writes, as [`Self::write`] does.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, NetError>> {
        let written = self.connection.with_socket(|socket| match socket.send_slice(bytes) {
            Ok(0) if !bytes.is_empty() => {
                socket.register_send_waker(context.waker());
                Poll::Pending
            }
            Ok(written) => Poll::Ready(Ok(written)),
            Err(_) => Poll::Ready(Err(send_error(socket))),
        });
        let written = written.unwrap_or(Poll::Ready(Err(NetError::Reset)));
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.connection.kick();
        }
        written
    }

    /// Writes what there is room for now, which may be nothing.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, NetError> {
        let written = self.connection.with_socket(|socket| socket.send_slice(bytes).map_err(|_| send_error(socket)));
        let written = written.unwrap_or(Err(NetError::Reset))?;
        if written > 0 {
            self.connection.kick();
        }
        Ok(written)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As [`Self::write`]; some of the bytes may have gone.
    pub async fn write_all(&self, mut bytes: &[u8]) -> Result<(), NetError> {
        while !bytes.is_empty() {
            let written = self.write(bytes).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Waits until the peer's stack has acknowledged everything that was written.
    ///
    /// # Errors
    /// [`NetError::Reset`] if the connection broke before.
    pub async fn flush(&self) -> Result<(), NetError> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Polls for everything to be acknowledged, as [`Self::flush`] does.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<Result<(), NetError>> {
        let flushed = self.connection.with_socket(|socket| {
            if socket.send_queue() == 0 {
                return Poll::Ready(Ok(()));
            }
            if socket.state() == TcpState::Closed {
                return Poll::Ready(Err(NetError::Reset));
            }
            socket.register_send_waker(context.waker());
            Poll::Pending
        });
        flushed.unwrap_or(Poll::Ready(Err(NetError::Reset)))
    }

    /// Has the peer's stack asked for a sign of life whenever the connection was silent for `interval_ns`; `None`:
    /// never, as at first. A peer that was restarted and knows nothing of the connection then resets it.
    pub fn set_keep_alive(&self, interval_ns: Option<u64>) {
        let (key, interval) = (self.connection.key, interval_ns.map(stack_duration));
        self.connection.stack.with_net(|net| net.table.get_mut(key).map(|entry| entry.set_keep_alive(interval)));
        self.connection.kick();
    }

    /// Says that nothing more will be written; what was written is delivered. Reading goes on.
    pub fn close(&self) {
        self.connection.with_socket(tcp::Socket::close);
        self.connection.kick();
    }

    /// Breaks the connection off; the peer sees a reset.
    pub fn abort(&self) {
        self.connection.with_socket(tcp::Socket::abort);
        self.connection.kick();
    }
}

/// Why a socket that takes no bytes does not.
fn send_error(socket: &tcp::Socket<'_>) -> NetError {
    match socket.state() {
        TcpState::Closed => NetError::Reset,
        _ => NetError::Closed,
    }
}

impl<D: Device> Connection<D> {
    /// Calls `f` with the socket, which is there as long as the connection is held.
    fn with_socket<R>(&self, f: impl FnOnce(&mut tcp::Socket<'static>) -> R) -> Option<R> {
        self.stack.with_socket(self.key, f)
    }

    /// Has the socket asked for what it has to send.
    fn kick(&self) {
        self.stack.kick_socket(self.key);
    }
}

impl<D: Device> Drop for Connection<D> {
    fn drop(&mut self) {
        self.with_socket(|socket| match socket.state() {
            TcpState::SynSent | TcpState::SynReceived => socket.abort(),
            _ => socket.close(),
        });
        self.stack.with_net(|net| net.let_close(self.key));
        self.stack.kick();
    }
}
