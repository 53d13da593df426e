//! Making the connections of programs quiet: whoever sent something has it acknowledged, and nothing is on the wire.
//!
//! A peer that is asked to be quiet has bytes that were not acknowledged, for which its receiver may have no room: its
//! program reads nothing meanwhile. So what was received is set aside ([`super::aside`]) as far as that is needed. When
//! no program of the job runs, and all nodes have said once that they are quiet, nothing can come any more, and what
//! there is of a connection lies at its two ends.

use smoltcp::phy::Device;
use smoltcp::socket::tcp::State as TcpState;

use super::Stack;
use super::net::Net;
use super::owner::Owner;
use super::table::{Entry, Key};
use crate::SocketError;

impl<D: Device> Stack<D> {
    /// Makes room for what peers of programs' connections still have to send, and says whether this node's programs
    /// have nothing any more that is on its way: no bytes, no end of a connection, no connection that is half made, no
    /// datagram. To be called again until that is so, when no program runs. A program that connects to somebody who
    /// does not answer makes no difference.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`]: there is no room for what has to be set aside.
    pub fn quieten(&self) -> Result<bool, SocketError> {
        let (mut is_quiet, mut has_room) = (self.with_net(|net| net.datagrams.is_idle()), false);
        // One at a time: there may be many, and others want the stack.
        let mut next = self.with_net(|net| net.table.next_from(None));
        while let Some(key) = next {
            let (of_one, following) = self.with_net(|net| (net.quieten(key), net.table.next_from(Some(key))));
            let (one_is_quiet, one_has_room) = of_one?;
            is_quiet &= one_is_quiet;
            has_room |= one_has_room;
            next = following;
        }
        if has_room {
            self.kick();
        }
        Ok(is_quiet)
    }
}

impl Net {
    /// Whether a connection is quiet; and whether its peer has more room than before.
    fn quieten(&mut self, key: Key) -> Result<(bool, bool), SocketError> {
        let (accounts, wipe) = (alloc::sync::Arc::clone(&self.accounts), self.wipe);
        let Some(entry) = self.table.get_mut(key).filter(|entry| entry.holding.is_some()) else {
            return Ok((true, false));
        };
        let (socket, owner) = entry.split();
        let mut has_room = false;
        if let Owner::User(user) = owner {
            // A peer with little left to send has room enough.
            if socket.recv_queue() >= socket.recv_capacity() / 2 {
                user.aside.take_from(socket, &accounts, wipe)?;
                has_room = true;
            }
        } else if let Owner::Listener { aside, .. } = owner
            && socket.recv_queue() >= socket.recv_capacity() / 2
        {
            aside.take_from(socket, &accounts, wipe)?;
            has_room = true;
        }
        let is_quiet = is_quiet(entry);
        if has_room {
            self.table.enqueue(key);
        }
        Ok((is_quiet, has_room))
    }
}

/// Whether nothing of a program's connection is on its way.
pub(crate) fn is_quiet(entry: &Entry) -> bool {
    let socket = entry.socket();
    match (&entry.owner, socket.state()) {
        (Owner::Stream | Owner::Listener { ready: false, .. }, _) => false,
        (Owner::User(user), _) if user.is_made_again => false,
        // Nobody may ever answer.
        (Owner::User(_), TcpState::SynSent) => true,
        (_, TcpState::FinWait2 | TcpState::TimeWait) => true,
        (Owner::User(_) | Owner::Listener { .. }, TcpState::Established | TcpState::CloseWait) => {
            socket.send_queue() == 0
        }
        // One that still knows its peer has a reset to send.
        (Owner::User(_) | Owner::Listener { .. }, TcpState::Closed) => socket.remote_endpoint().is_none(),
        _ => false,
    }
}
