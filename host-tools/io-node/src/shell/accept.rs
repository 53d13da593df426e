//! Accepting connections.

use std::rc::Rc;

use coppice_endpoint::{BufferSizes, NetError, Stack, TcpListener};
use coppice_protocol::limits::{CONTROL_PORT, SHIP_PORT};
use coppice_protocol::session::Channel;

use super::Shell;
use super::wire::Wire;
use crate::clock::random;
use crate::limits::{ACCEPT_PAUSE, BACKLOG, CONTROL_BUFFER_BYTES, SHIP_BUFFER_BYTES};
use crate::link::Device;

/// A port that is listened on.
pub(super) struct Port {
    channel: Channel,
    listener: TcpListener<Device>,
}

impl Port {
    /// Listens on the port of `channel`.
    ///
    /// # Errors
    /// As [`Stack::listen`].
    pub(super) fn listen(stack: &Stack<Device>, channel: Channel) -> Result<Self, NetError> {
        let (port, bytes) = match channel {
            Channel::Control => (CONTROL_PORT, CONTROL_BUFFER_BYTES),
            Channel::Ship => (SHIP_PORT, SHIP_BUFFER_BYTES),
        };
        let listener = stack.listen(port, BACKLOG, BufferSizes { receive: bytes, transmit: bytes })?;
        Ok(Self { channel, listener })
    }

    /// Accepts connections for ever, each into a task of its own.
    pub(super) async fn accept(self, shell: Rc<Shell>) {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, channel = %self.channel, "accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let nonce = match random() {
                Ok(nonce) => nonce,
                Err(error) => {
                    tracing::error!(%error, "no random numbers");
                    stream.abort();
                    continue;
                }
            };
            let peer = stream.peer();
            let Some(line) = shell.with(|machine, now| machine.accept(self.channel, peer, nonce, now)) else {
                stream.abort();
                continue;
            };
            let wire = Rc::new(Wire::new(stream));
            shell.wires.borrow_mut().insert(line, Rc::clone(&wire));
            tokio::task::spawn_local(Rc::clone(&shell).serve(line, wire));
        }
    }
}
