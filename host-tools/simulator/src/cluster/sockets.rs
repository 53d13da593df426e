//! Networks that a node's programs and its PMI find: none yet.

use std::net::Ipv4Addr;
use std::sync::Arc;

use coppice_core::net::{BoxFuture, Door, Neighbours, Network, Tcp, Udp, Wire};
use coppice_endpoint::{JobNetwork, NetError, SocketError};
use coppice_protocol::ids::NodeId;
use coppice_protocol::world::NetworkTag;

/// Scripts have no sockets.
pub(super) struct NoSockets;

impl Network for NoSockets {
    fn address(&self) -> Option<Ipv4Addr> {
        None
    }

    fn is_in_job(&self, _: NetworkTag) -> bool {
        false
    }

    fn enter_job(&self, _: JobNetwork) {}

    fn tcp(&self) -> Result<Box<dyn Tcp>, SocketError> {
        Err(SocketError::TooMany)
    }

    fn udp(&self) -> Result<Box<dyn Udp>, SocketError> {
        Err(SocketError::TooMany)
    }
}

/// Nodes do not reach each other.
pub(super) struct Alone;

impl Neighbours for Alone {
    fn connect(&self, _: NodeId, _: u16, _: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        Box::pin(async { Err(NetError::Refused) })
    }

    fn listen(&self, _: u16, _: usize, _: usize) -> Result<Box<dyn Door>, NetError> {
        Err(NetError::PortInUse)
    }
}
