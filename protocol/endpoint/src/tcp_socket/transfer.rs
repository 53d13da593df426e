//! Sending, receiving, and saying that there will be no more of it.

use smoltcp::phy::Device;
use smoltcp::socket::tcp::{self, State as TcpState};

use super::{Phase, TcpSocket};
use crate::SocketError;
use crate::cell::Readiness;
use crate::stack::net::Net;
use crate::stack::owner::{Owner, User};
use crate::stack::settle::Cause;
use crate::stack::table::{Before, Entry, Key};

impl<D: Device> TcpSocket<D> {
    /// Sends from the start of `bytes` and returns how many went.
    ///
    /// # Errors
    /// As [`Self::send_with`].
    pub fn send(&self, mut bytes: &[u8]) -> Result<usize, SocketError> {
        self.send_with(|room| {
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            let (room, _) = room.split_at_mut(now.len());
            room.copy_from_slice(now);
            bytes = later;
            now.len()
        })
    }

    /// Has `fill` write what is to be sent where it is sent from. It is called with pieces of free room, of any length,
    /// and returns how much of the piece it used; if that is not all, it was called for the last time. Returns how
    /// much it wrote in all. `fill` must not call into the stack.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is no room or no connection yet; the pending error if there is one, once;
    /// [`SocketError::Closed`] if nothing can be sent (any more).
    pub fn send_with(&self, fill: impl FnMut(&mut [u8]) -> usize) -> Result<usize, SocketError> {
        match &self.inner.lock().phase {
            Phase::Local { end, .. } => end.send_with(fill),
            Phase::Remote { key, .. } => {
                let sent = self.stack.with_net(|net| net.send_for_program(*key, fill))?;
                self.stack.kick();
                Ok(sent)
            }
            Phase::Fresh | Phase::Listening(_) => Err(SocketError::Closed),
        }
    }

    /// Receives into `buffer` what there is and returns how much that was; 0 at the end. With `peek` it stays there for
    /// the next call.
    ///
    /// # Errors
    /// As [`Self::receive_with`].
    pub fn receive(&self, buffer: &mut [u8], peek: bool) -> Result<usize, SocketError> {
        if peek {
            return self.peek(buffer);
        }
        let mut rest = buffer;
        self.receive_with(|bytes| {
            let (bytes, _) = bytes.split_at(bytes.len().min(rest.len()));
            let (now, later) = core::mem::take(&mut rest).split_at_mut(bytes.len());
            now.copy_from_slice(bytes);
            rest = later;
            bytes.len()
        })
    }

    /// Has `take` read what was received where it lies. It is called with pieces of it, of any length, and returns how
    /// much of the piece it took, which is then wiped; if that is not all, it was called for the last time. Returns how
    /// much it took in all: 0 at the end. `take` must not call into the stack.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is nothing yet; when everything was taken, the pending error if there is
    /// one, once; [`SocketError::NotConnected`] if it never was.
    pub fn receive_with(&self, take: impl FnMut(&[u8]) -> usize) -> Result<usize, SocketError> {
        match &self.inner.lock().phase {
            Phase::Local { end, .. } => end.receive_with(take),
            Phase::Remote { key, .. } => {
                let (taken, window_grew) = self.stack.with_net(|net| net.receive_for_program(*key, take))?;
                if window_grew {
                    self.stack.kick();
                }
                Ok(taken)
            }
            Phase::Fresh | Phase::Listening(_) => Err(SocketError::NotConnected),
        }
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<usize, SocketError> {
        match &self.inner.lock().phase {
            Phase::Local { end, .. } => end.peek(buffer),
            Phase::Remote { key, .. } => self.stack.with_net(|net| {
                let (socket, user) = net.program(*key).ok_or(SocketError::NotConnected)?;
                if user.received(socket) == 0 {
                    return user.received_nothing(socket);
                }
                let set_aside = user.aside.peek(buffer);
                let rest = buffer.get_mut(set_aside..).unwrap_or_default();
                if rest.is_empty() || socket.recv_queue() == 0 {
                    return Ok(set_aside);
                }
                socket.peek_slice(rest).map(|more| set_aside + more).map_err(|_| SocketError::Reset)
            }),
            Phase::Fresh | Phase::Listening(_) => Err(SocketError::NotConnected),
        }
    }

    /// Says that nothing more will be received (what comes can still be read), or sent (the peer sees the end), or
    /// both. A listening socket that will not receive stops listening; one that is being connected stops that.
    ///
    /// # Errors
    /// [`SocketError::NotConnected`].
    pub fn shutdown(&self, read: bool, write: bool) -> Result<(), SocketError> {
        let mut inner = self.inner.lock();
        match &inner.phase {
            Phase::Fresh => return Err(SocketError::NotConnected),
            Phase::Listening(_) if !read => {}
            &Phase::Listening(place) => {
                self.stack.with_net(|net| {
                    net.unlisten(place);
                    inner.claim.iter().for_each(|claim| net.ports.unlisten(claim));
                });
                inner.phase = Phase::Fresh;
                // Whoever waits in accept has to look again. As on Linux, there is nothing to read.
                self.cell.set(Readiness::FRESH, true);
            }
            Phase::Local { end, .. } if end.is_waiting() => self.start_over(&mut inner),
            Phase::Local { end, .. } => end.shutdown(read, write)?,
            &Phase::Remote { key, .. } => {
                if self.stack.with_net(|net| net.shutdown(key, read, write))? {
                    self.start_over(&mut inner);
                }
            }
        }
        self.stack.kick();
        Ok(())
    }

    /// Received and not yet read, bytes (FIONREAD).
    pub fn received(&self) -> usize {
        match &self.inner.lock().phase {
            Phase::Local { end, .. } => end.received(),
            Phase::Remote { key, .. } => self.stack.with_net(|net| {
                let received = net.program(*key).map(|(socket, user)| user.received(socket));
                received.unwrap_or(0)
            }),
            Phase::Fresh | Phase::Listening(_) => 0,
        }
    }

    /// Sent and not yet acknowledged by the peer's stack, bytes (TIOCOUTQ).
    pub fn unsent(&self) -> usize {
        match &self.inner.lock().phase {
            Phase::Local { end, .. } => end.unsent(),
            Phase::Remote { key, .. } => self.stack.with_socket(*key, |socket| socket.send_queue()).unwrap_or(0),
            Phase::Fresh | Phase::Listening(_) => 0,
        }
    }

    /// Room of its buffers for bytes received and sent (SO_RCVBUF, SO_SNDBUF); `None` before it is connected.
    pub fn capacities(&self) -> Option<(usize, usize)> {
        match &self.inner.lock().phase {
            Phase::Local { end, .. } => Some(end.capacities()),
            Phase::Remote { key, .. } => {
                self.stack.with_socket(*key, |socket| (socket.recv_capacity(), socket.send_capacity()))
            }
            Phase::Fresh | Phase::Listening(_) => None,
        }
    }
}

impl Net {
    /// A program's connection.
    fn program(&mut self, key: Key) -> Option<(&mut tcp::Socket<'static>, &mut User)> {
        match self.table.get_mut(key).map(Entry::split)? {
            (socket, Owner::User(user)) => Some((socket, user)),
            _ => None,
        }
    }

    fn send_for_program(&mut self, key: Key, mut fill: impl FnMut(&mut [u8]) -> usize) -> Result<usize, SocketError> {
        let (socket, user) = self.program(key).ok_or(SocketError::Closed)?;
        if let Some(error) = user.error.take() {
            user.update(socket, false);
            return Err(error);
        }
        match socket.state() {
            TcpState::Listen | TcpState::SynSent | TcpState::SynReceived => return Err(SocketError::WouldBlock),
            TcpState::Established | TcpState::CloseWait if socket.can_send() => {}
            TcpState::Established | TcpState::CloseWait => return Err(SocketError::WouldBlock),
            _ => return Err(SocketError::Closed),
        }
        let mut sent = 0;
        while socket.can_send() {
            let filled = socket.send(|room| {
                let filled = fill(room).min(room.len());
                (filled, (filled, filled < room.len()))
            });
            let Ok((filled, is_last)) = filled else { break };
            sent += filled;
            if is_last {
                break;
            }
        }
        user.update(socket, false);
        self.table.enqueue(key);
        Ok(sent)
    }

    /// Returns also whether the peer must be told that there is room again.
    fn receive_for_program(
        &mut self,
        key: Key,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> Result<(usize, bool), SocketError> {
        let wipe = self.wipe;
        let (socket, user) = self.program(key).ok_or(SocketError::NotConnected)?;
        let queued = socket.recv_queue();
        if user.received(socket) == 0 {
            return user.received_nothing(socket).map(|nothing| (nothing, false));
        }
        let (mut taken, leaves_some) = user.aside.read(&mut take);
        while !leaves_some && socket.can_recv() {
            let piece = socket.recv(|bytes| {
                let length = bytes.len();
                let wanted = take(bytes).min(length);
                wipe(bytes.get_mut(..wanted).unwrap_or_default());
                (wanted, (wanted, wanted < length))
            });
            let Ok((piece, is_last)) = piece else { break };
            taken += piece;
            if is_last {
                break;
            }
        }
        user.update(socket, false);
        // So much was waiting that the peer may have stopped.
        let window_grew = taken > 0 && queued >= socket.recv_capacity() / 2;
        if window_grew {
            self.table.enqueue(key);
        }
        Ok((taken, window_grew))
    }

    /// Returns whether the socket was being connected and is to stop that.
    fn shutdown(&mut self, key: Key, read: bool, write: bool) -> Result<bool, SocketError> {
        let (socket, user) = self.program(key).ok_or(SocketError::NotConnected)?;
        let before = Before::of(socket);
        match before.state {
            TcpState::SynSent | TcpState::SynReceived => return Ok(true),
            TcpState::TimeWait | TcpState::Closed => return Err(SocketError::NotConnected),
            _ => {}
        }
        user.read_shut |= read;
        if write && !core::mem::replace(&mut user.write_shut, true) {
            socket.close();
        }
        self.settle(key, before, Cause::Time);
        self.table.enqueue(key);
        Ok(false)
    }
}

impl User {
    /// Why there is nothing.
    fn received_nothing(&mut self, socket: &tcp::Socket<'_>) -> Result<usize, SocketError> {
        // Who has read the end finds it again, whatever came behind it.
        if self.peer_ended {
            return Ok(0);
        }
        if let Some(error) = self.error.take() {
            self.update(socket, false);
            return Err(error);
        }
        match socket.state() {
            TcpState::Listen | TcpState::SynSent | TcpState::SynReceived => Err(SocketError::WouldBlock),
            TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2 if !self.read_shut => {
                Err(SocketError::WouldBlock)
            }
            _ => Ok(0),
        }
    }
}
