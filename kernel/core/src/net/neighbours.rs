//! Connections between the nodes of a cluster, without the type of the device they run on.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::task::Waker;

use coppice_endpoint::{BufferSizes, DatagramPort, NetError, Stack, TcpListener};
use coppice_protocol::ids::NodeId;
use smoltcp::phy::Device;

use super::dial::{BoxFuture, Wire};
use crate::sync::{LockLevel, passing};

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

    /// Opens a port of this node for datagrams, with `queue_bytes` in each direction.
    ///
    /// # Errors
    /// [`NetError::PortInUse`].
    fn datagrams(&self, port: u16, queue_bytes: usize) -> Result<Arc<dyn Datagrams>, NetError>;
}

/// A port for datagrams: what [`DatagramPort`] does, whose words hold here.
pub trait Datagrams: Send + Sync {
    /// See [`DatagramPort::receive`].
    fn receive(&self) -> Option<(Ipv4Addr, Vec<u8>)>;

    /// See [`DatagramPort::has_received`].
    fn has_received(&self) -> bool;

    /// See [`DatagramPort::send`].
    fn send(&self, to: Ipv4Addr, bytes: Vec<u8>);

    /// See [`DatagramPort::has_room`].
    fn has_room(&self, bytes: usize) -> bool;

    /// See [`DatagramPort::register`].
    fn register(&self, watcher: &Waker);
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

    fn datagrams(&self, port: u16, queue_bytes: usize) -> Result<Arc<dyn Datagrams>, NetError> {
        let _passing = passing(LockLevel::Network);
        Ok(Arc::new(self.open_port(port, queue_bytes)?))
    }
}

impl<D: Device + Send + 'static> Datagrams for DatagramPort<D> {
    fn receive(&self) -> Option<(Ipv4Addr, Vec<u8>)> {
        let _passing = passing(LockLevel::Network);
        Self::receive(self)
    }

    fn has_received(&self) -> bool {
        let _passing = passing(LockLevel::Network);
        Self::has_received(self)
    }

    fn send(&self, to: Ipv4Addr, bytes: Vec<u8>) {
        let _passing = passing(LockLevel::Network);
        Self::send(self, to, bytes);
    }

    fn has_room(&self, bytes: usize) -> bool {
        let _passing = passing(LockLevel::Network);
        Self::has_room(self, bytes)
    }

    fn register(&self, watcher: &Waker) {
        let _passing = passing(LockLevel::Network);
        Self::register(self, watcher);
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
