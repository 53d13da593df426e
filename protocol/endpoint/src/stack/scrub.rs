//! Leaving nothing behind: what went through a connection stays in its buffers until other bytes take its place.

use alloc::vec::Vec;

use smoltcp::phy::Device;
use smoltcp::socket::tcp::State as TcpState;

use super::Stack;
use super::net::Net;
use super::owner::Owner;
use super::table::{Entry, Key};

impl<D: Device> Stack<D> {
    /// Whether connections that programs have closed still have something to tell their peers: bytes, that this was
    /// all, or that they are broken off.
    #[must_use]
    pub fn is_delivering(&self) -> bool {
        self.with_net(|net| net.delivering().next().is_some())
    }

    /// Breaks those connections off: what they had to tell is lost, and their peers hear of that.
    pub fn stop_delivering(&self) {
        self.with_net(|net| {
            let keys: Vec<_> = net
                .delivering()
                .map(|(key, entry)| {
                    entry.socket_mut().abort();
                    key
                })
                .collect();
            keys.into_iter().for_each(|key| net.table.enqueue(key));
        });
        self.kick();
    }

    /// Takes the frames that came, then has `wipe` zero what was sent and acknowledged and still lies in the
    /// connections' transmit buffers: all of it where everything is acknowledged ([`TcpStream::unacknowledged`]).
    /// Connections that nobody holds any more are forgotten, and their buffers freed, whatever their peers still have
    /// to say. So are datagrams that have not gone.
    ///
    /// Bytes that were received leave nothing if they are taken by [`TcpStream::take_in_place`] and zeroed there.
    ///
    /// [`TcpStream::unacknowledged`]: crate::TcpStream::unacknowledged
    /// [`TcpStream::take_in_place`]: crate::TcpStream::take_in_place
    pub fn scrub(&self, now_ns: u64, wipe: impl FnMut(&mut [u8])) {
        let mut state = self.shared.state.lock();
        state.poll(now_ns);
        state.net.scrub(wipe);
        drop(state);
        // The poll was not its driver's, who does not know yet when the next one is due.
        self.kick();
    }
}

impl Net {
    /// Programs' connections that nobody has any more and that are not done. One whose end the peer has acknowledged
    /// has nothing more to tell.
    fn delivering(&mut self) -> impl Iterator<Item = (Key, &mut Entry)> {
        self.table.iter_mut().filter(|(_, entry)| {
            let is_closed = entry.holding.is_some() && matches!(entry.owner, Owner::Nobody { .. });
            is_closed && !matches!(entry.socket().state(), TcpState::FinWait2 | TcpState::TimeWait)
        })
    }

    fn scrub(&mut self, mut wipe: impl FnMut(&mut [u8])) {
        while self.forget_oldest(|_: &Entry| true) {}
        self.datagrams.forget_unsent();
        for (_, entry) in self.table.iter_mut() {
            // What the buffer has no use for now, up to its end; an empty one begins at its beginning again. Sockets
            // that refuse have sent nothing yet, or are about to be let go.
            let _ = entry.socket_mut().send(|unused| {
                wipe(unused);
                (0, ())
            });
        }
    }
}
