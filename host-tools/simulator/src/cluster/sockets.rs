//! The network that a node's programs find: none.

use coppice_core::net::{Again, Network, Tcp, Udp};
use coppice_endpoint::record::{NotMade, NotQuiet, OrphanRecord, TcpRecord, UdpRecord};
use coppice_endpoint::{JobNetwork, SocketError};
use coppice_protocol::ids::JobNode;
use coppice_protocol::world::NetworkTag;
use std::net::Ipv4Addr;

/// Scripts have no sockets.
pub(super) struct NoSockets;

impl Network for NoSockets {
    fn address(&self) -> Option<Ipv4Addr> {
        None
    }

    fn mtu(&self) -> Option<usize> {
        None
    }

    fn is_in_job(&self, _: NetworkTag) -> bool {
        false
    }

    fn enter_job(&self, _: JobNetwork) {}

    fn break_off(&self, _: NetworkTag, _: JobNode) {}

    fn tcp(&self) -> Result<Box<dyn Tcp>, SocketError> {
        Err(SocketError::TooMany)
    }

    fn udp(&self) -> Result<Box<dyn Udp>, SocketError> {
        Err(SocketError::TooMany)
    }

    fn again(&self) -> &dyn Again {
        self
    }
}

impl Again for NoSockets {
    fn quieten(&self) -> Result<bool, SocketError> {
        Ok(true)
    }

    fn record_orphans(&self) -> Result<Vec<OrphanRecord>, NotQuiet> {
        Ok(Vec::new())
    }

    fn forget_orphans(&self) {}

    fn make_orphans(&self, _: &[OrphanRecord]) -> Result<(), NotMade> {
        Ok(())
    }

    fn make_tcp(&self, _: &TcpRecord) -> Result<Box<dyn Tcp>, NotMade> {
        Err(NotMade::Damaged)
    }

    fn make_udp(&self, _: &UdpRecord) -> Result<Box<dyn Udp>, NotMade> {
        Err(NotMade::Damaged)
    }

    fn call(&self) {}

    fn is_calling(&self) -> bool {
        false
    }

    fn settle(&self, _: u64) {}

    fn is_settled(&self) -> bool {
        true
    }

    fn is_made(&self) -> bool {
        true
    }

    fn end(&self, _: u64) -> usize {
        0
    }
}
