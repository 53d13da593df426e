//! The network that a node's programs find: none.

use coppice_core::net::{Network, Tcp, Udp};
use coppice_endpoint::{JobNetwork, SocketError};
use coppice_protocol::world::NetworkTag;
use std::net::Ipv4Addr;

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
