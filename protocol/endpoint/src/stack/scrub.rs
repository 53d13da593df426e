//! Leaving nothing behind: what went through a connection stays in its buffers until other bytes take its place.

use smoltcp::phy::Device;
use smoltcp::socket::Socket;

use super::{Stack, State};

impl<D: Device> Stack<D> {
    /// Takes the frames that came, then has `wipe` zero what was sent and acknowledged and still lies in the
    /// connections' transmit buffers: all of it where everything is acknowledged ([`TcpStream::unacknowledged`]).
    /// Connections that nobody holds any more are forgotten, and their buffers freed, whatever their peers still have
    /// to say.
    ///
    /// Bytes that were received leave nothing if they are taken by [`TcpStream::take_in_place`] and zeroed there.
    ///
    /// [`TcpStream::unacknowledged`]: crate::TcpStream::unacknowledged
    /// [`TcpStream::take_in_place`]: crate::TcpStream::take_in_place
    pub fn scrub(&self, now_ns: u64, wipe: impl FnMut(&mut [u8])) {
        let mut state = self.shared.state.lock();
        state.poll(now_ns);
        state.scrub(wipe);
        drop(state);
        // The poll was not its driver's, who does not know yet when the next one is due.
        self.kick();
    }
}

impl<D: Device> State<D> {
    fn scrub(&mut self, mut wipe: impl FnMut(&mut [u8])) {
        for handle in core::mem::take(&mut self.closing) {
            self.remove_socket(handle);
        }
        for (_, socket) in self.sockets.iter_mut() {
            let Socket::Tcp(socket) = socket else { continue };
            // What the buffer has no use for now, up to its end; an empty one begins at its beginning again. Sockets
            // that refuse have sent nothing yet, or are about to be let go.
            let _ = socket.send(|unused| {
                wipe(unused);
                (0, ())
            });
        }
    }
}
