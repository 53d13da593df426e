//! Connections between the nodes of a cluster, without the type of the device they run on.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::Ipv4Addr;

use coppice_endpoint::{BufferSizes, NetError, Stack, TcpListener};
use coppice_protocol::ids::NodeId;
use smoltcp::phy::Device;

use super::dial::{BoxFuture, Wire};

/// A connection that came, and where it came from.
pub type Caller = (Arc<dyn Wire>, Ipv4Addr);

/// A way to the other nodes, for the kernel's own use.
pub trait Neighbours: Send + Sync {
    /// Connects to a port of a node, with buffers of `buffer_bytes` in each direction.
    fn connect(&self, node: NodeId, port: u16, buffer_bytes: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>>;

    /// Listens on a port of this node. At most `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// [`NetError::PortInUse`].
    fn listen(&self, port: u16, backlog: usize, buffer_bytes: usize) -> Result<Box<dyn Door>, NetError>;
}

/// A port that connections come to.
pub trait Door: Send + Sync {
    /// Waits for the next connection. One task may wait at a time.
    fn accept(&self) -> BoxFuture<'_, Result<Caller, NetError>>;
}

const fn sizes(buffer_bytes: usize) -> BufferSizes {
    BufferSizes { receive: buffer_bytes, transmit: buffer_bytes }
}

impl<D: Device + Send + 'static> Neighbours for Stack<D> {
    fn connect(&self, node: NodeId, port: u16, buffer_bytes: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        Box::pin(async move {
            let stream = Self::connect(self, node.address(), port, sizes(buffer_bytes)).await?;
            Ok(Arc::new(stream) as Arc<dyn Wire>)
        })
    }

    fn listen(&self, port: u16, backlog: usize, buffer_bytes: usize) -> Result<Box<dyn Door>, NetError> {
        Ok(Box::new(Self::listen(self, port, backlog, sizes(buffer_bytes))?))
    }
}

impl<D: Device + Send + 'static> Door for TcpListener<D> {
    fn accept(&self) -> BoxFuture<'_, Result<Caller, NetError>> {
        Box::pin(async move {
            let (stream, (address, _)) = Self::accept(self).await?;
            Ok((Arc::new(stream) as Arc<dyn Wire>, address))
        })
    }
}
