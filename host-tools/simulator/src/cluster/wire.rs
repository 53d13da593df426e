//! The node's end of a connection, as the kernel knows it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use coppice_core::net::{BoxFuture, Dial, Wire};
use coppice_endpoint::NetError;
use coppice_protocol::ids::PsetId;
use coppice_protocol::limits::CONTROL_PORT;
use coppice_protocol::session::Channel;

use super::machine::LifeId;
use super::network::{Connection, ConnectionId, End, Network, Phase};

/// A boot's way to its I/O node.
#[derive(Clone)]
pub(super) struct Dialler {
    pub network: Network,
    pub life: LifeId,
    pub pset: PsetId,
}

/// A connection that is being made, or was.
struct NodeEnd {
    network: Network,
    id: ConnectionId,
}

impl Drop for NodeEnd {
    fn drop(&mut self) {
        let mut connections = self.network.lock();
        if let Some(connection) = connections.get(self.id)
            && connection.has_node
        {
            connection.phase = Phase::Broken(NetError::Closed);
            connections.touch(self.id);
        }
    }
}

impl NodeEnd {
    /// Looks at the connection; broken if it is.
    fn with<R>(&self, f: impl FnOnce(&mut Connection) -> R) -> Result<R, NetError> {
        let mut connections = self.network.lock();
        let connection = connections.get(self.id).ok_or(NetError::Reset)?;
        if let Phase::Broken(error) = connection.phase {
            return Err(error);
        }
        Ok(f(connection))
    }

    fn touch(&self) {
        self.network.lock().touch(self.id);
    }
}

impl Dial for Dialler {
    fn dial(&self, port: u16, buffer_bytes: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        Box::pin(async move {
            let channel = if port == CONTROL_PORT { Channel::Control } else { Channel::Ship };
            let id = self.network.lock().dial(self.life, self.pset, channel, buffer_bytes);
            let end = NodeEnd { network: self.network.clone(), id };
            poll_fn(|context| {
                let looked = end.with(|connection| {
                    let is_open = connection.phase == Phase::Open;
                    if !is_open {
                        connection.register(context.waker());
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
            let stream = connection.towards(End::Node);
            let found = if stream.arrived.is_empty() { stream.has_ended.then_some(false) } else { Some(true) };
            if found.is_none() {
                connection.register(context.waker());
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
        let bytes = self.with(|connection| Vec::from(std::mem::take(&mut connection.towards(End::Node).arrived)))?;
        self.touch();
        f(&bytes);
        Ok(())
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, NetError>> {
        match self.try_write(bytes) {
            Ok(0) => {
                let registered = self.with(|connection| connection.register(context.waker()));
                registered.map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending)
            }
            written => Poll::Ready(written),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, NetError> {
        let written = self.with(|connection| {
            let count = connection.room(End::IoNode).min(bytes.len());
            connection.towards(End::IoNode).written.extend_from_slice(&bytes[..count]);
            count
        })?;
        if written > 0 {
            self.touch();
        }
        Ok(written)
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<Result<(), NetError>> {
        let looked = self.with(|connection| {
            let is_flushed = connection.towards(End::IoNode).unacknowledged() == 0;
            if !is_flushed {
                connection.register(context.waker());
            }
            is_flushed
        });
        match looked {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn unacknowledged(&self) -> usize {
        self.with(|connection| connection.towards(End::IoNode).unacknowledged()).unwrap_or(0)
    }

    /// The world has ends learn of each other's end by itself.
    fn keep_alive(&self, _interval_ns: u64) {}

    fn abort(&self) {
        let broken = self.with(|connection| {
            connection.phase = Phase::Broken(NetError::Reset);
            connection.wake();
        });
        if broken.is_ok() {
            self.touch();
        }
    }
}
