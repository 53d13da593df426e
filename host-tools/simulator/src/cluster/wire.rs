//! A node's end of a connection, as the kernel knows it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use coppice_core::net::{BoxFuture, Dial, Wire};
use coppice_endpoint::NetError;
use coppice_protocol::ids::PsetId;
use coppice_protocol::limits::CONTROL_PORT;
use coppice_protocol::pmi::PeerFrames;
use coppice_protocol::session::Channel;

use super::machine::LifeId;
use super::network::{Callee, Connection, ConnectionId, End, Network, Phase};

/// A boot's way to its I/O node.
#[derive(Clone)]
pub(super) struct Dialler {
    pub network: Network,
    pub life: LifeId,
    pub pset: PsetId,
}

/// A connection that is being made, or was, and the node's end of it.
pub(super) struct NodeEnd {
    pub network: Network,
    pub id: ConnectionId,
    pub end: End,
}

impl Drop for NodeEnd {
    fn drop(&mut self) {
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(self.id) else { return };
        let side = connection.at(self.end);
        if !side.is_there {
            return;
        }
        if !matches!(side.phase, Phase::Broken(_)) {
            side.phase = Phase::Broken(NetError::Closed);
        }
        connections.touch(self.id);
    }
}

impl NodeEnd {
    /// Calls somebody, and waits for the answer.
    pub(super) async fn call(network: Network, life: LifeId, callee: Callee, window: usize) -> Result<Self, NetError> {
        let id = network.lock().dial(life, callee, window);
        let made = Self { network, id, end: End::Caller };
        poll_fn(|context| {
            let looked = made.with(|connection| {
                let is_open = connection.at(End::Caller).phase == Phase::Open;
                if !is_open {
                    connection.register(End::Caller, context.waker());
                }
                is_open
            });
            match looked {
                Ok(true) => Poll::Ready(Ok(())),
                Ok(false) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await?;
        Ok(made)
    }

    /// Looks at the connection; broken if it is.
    fn with<R>(&self, f: impl FnOnce(&mut Connection) -> R) -> Result<R, NetError> {
        let mut connections = self.network.lock();
        let connection = connections.get(self.id).ok_or(NetError::Reset)?;
        if let Phase::Broken(error) = connection.at(self.end).phase {
            return Err(error);
        }
        Ok(f(connection))
    }

    fn touch(&self) {
        self.network.lock().touch(self.id);
    }
}

/// Whether a node says that it knows of no such job as it was called about.
fn is_absence(mut bytes: &[u8]) -> bool {
    matches!(PeerFrames::default().advance(&mut bytes), Ok(Some(frame)) if frame.is_absence())
}

impl Dial for Dialler {
    fn dial(&self, port: u16, buffer_bytes: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        Box::pin(async move {
            let channel = if port == CONTROL_PORT { Channel::Control } else { Channel::Ship };
            let callee = Callee::IoNode(self.pset, channel);
            let end = NodeEnd::call(self.network.clone(), self.life, callee, buffer_bytes).await?;
            Ok(Arc::new(end) as Arc<dyn Wire>)
        })
    }

    fn is_delivering(&self) -> bool {
        false
    }

    fn stop_delivering(&self) {}

    fn scrub_connections(&self) {}

    fn scrub_card(&self, _force: bool) -> bool {
        true
    }
}

impl Wire for NodeEnd {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<Result<bool, NetError>> {
        let looked = self.with(|connection| {
            let stream = connection.towards(self.end);
            let found = if stream.arrived.is_empty() { stream.has_ended.then_some(false) } else { Some(true) };
            if found.is_none() {
                connection.register(self.end, context.waker());
            }
            found
        });
        match looked {
            Ok(Some(readable)) => Poll::Ready(Ok(readable)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn take(&self, f: &mut dyn FnMut(&[u8])) -> Result<(), NetError> {
        let bytes = self.with(|connection| {
            let window = connection.window;
            let stream = connection.towards(self.end);
            stream.has_room |= stream.arrived.len() >= window / 2;
            Vec::from(std::mem::take(&mut stream.arrived))
        })?;
        self.touch();
        f(&bytes);
        Ok(())
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, NetError>> {
        match self.try_write(bytes) {
            Ok(0) => {
                let registered = self.with(|connection| connection.register(self.end, context.waker()));
                registered.map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending)
            }
            written => Poll::Ready(written),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, NetError> {
        let written = self.with(|connection| {
            let count = connection.room(self.end.other()).min(bytes.len());
            let stream = connection.towards(self.end.other());
            stream.written.extend_from_slice(&bytes[..count]);
            stream.is_used |= count > 0 && !is_absence(bytes);
            count
        })?;
        if written > 0 {
            self.touch();
        }
        Ok(written)
    }

    fn unacknowledged(&self) -> usize {
        self.with(|connection| connection.towards(self.end.other()).unacknowledged()).unwrap_or(0)
    }

    /// The world has ends learn of each other's end by itself.
    fn keep_alive(&self, _interval_ns: u64) {}

    fn abort(&self) {
        let broken = self.with(|connection| {
            connection.at(self.end).phase = Phase::Broken(NetError::Reset);
            connection.wake(self.end);
        });
        if broken.is_ok() {
            self.touch();
        }
    }
}
