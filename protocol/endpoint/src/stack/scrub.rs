//! Leaving nothing behind: what went through a connection stays in its buffers until other bytes take its place.

use smoltcp::phy::Device;

use super::Stack;
use super::net::Net;
use super::table::Entry;

impl<D: Device> Stack<D> {
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
