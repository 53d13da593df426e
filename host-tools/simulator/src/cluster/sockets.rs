//! The network that a node's programs find: none, but for the kernel itself, at ports of their own node.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::task::Waker;

use coppice_core::net::{Again, Network, Tcp, Udp};
use coppice_endpoint::record::{NotMade, NotQuiet, OrphanRecord, TcpRecord, UdpRecord};
use coppice_endpoint::{JobNetwork, SocketError};
use coppice_protocol::ids::JobNode;
use coppice_protocol::world::{NetworkTag, NodeRange};

/// Sockets of scripts reach nobody else.
pub(super) struct NoSockets;

/// A socket of a script: it has a name, and whoever it would reach over the network refuses.
struct Unconnected;

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

    fn join_job(&self, _: NetworkTag, _: u32, _: &[NodeRange], _: Box<dyn Send + Sync>) -> Option<u32> {
        None
    }

    fn nodes(&self) -> Option<u32> {
        None
    }

    fn break_off(&self, _: NetworkTag, _: JobNode) {}

    fn tcp(&self) -> Result<Box<dyn Tcp>, SocketError> {
        Ok(Box::new(Unconnected))
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

impl Tcp for Unconnected {
    fn bind(&self, _: Ipv4Addr, _: u16, _: bool) -> Result<(), SocketError> {
        Ok(())
    }

    fn listen(&self, _: usize) -> Result<(), SocketError> {
        Err(SocketError::Invalid)
    }

    fn accept(&self) -> Result<Box<dyn Tcp>, SocketError> {
        Err(SocketError::Invalid)
    }

    fn connect(&self, _: Ipv4Addr, _: u16) -> Result<(), SocketError> {
        Err(SocketError::Refused)
    }

    fn shutdown(&self, _: bool, _: bool) -> Result<(), SocketError> {
        Err(SocketError::NotConnected)
    }

    fn send(&self, _: &mut dyn FnMut(&mut [u8]) -> usize) -> Result<usize, SocketError> {
        Err(SocketError::NotConnected)
    }

    fn receive(&self, _: &mut dyn FnMut(&[u8]) -> usize) -> Result<usize, SocketError> {
        Err(SocketError::NotConnected)
    }

    fn peek(&self, _: &mut [u8]) -> Result<usize, SocketError> {
        Err(SocketError::NotConnected)
    }

    fn local(&self) -> (Ipv4Addr, u16) {
        (Ipv4Addr::LOCALHOST, 0)
    }

    fn peer(&self) -> Option<(Ipv4Addr, u16)> {
        None
    }

    fn take_error(&self) -> Option<SocketError> {
        None
    }

    fn is_listening(&self) -> bool {
        false
    }

    fn level(&self) -> Arc<AtomicU16> {
        Arc::default()
    }

    fn changes(&self) -> u64 {
        0
    }

    fn register(&self, _: &Waker) {}

    fn record(&self) -> Result<TcpRecord, NotQuiet> {
        Err(NotQuiet)
    }

    fn record_holds(&self) -> (usize, usize) {
        (0, 0)
    }

    fn forget(self: Box<Self>) {}

    fn received(&self) -> usize {
        0
    }

    fn unsent(&self) -> usize {
        0
    }

    fn capacities(&self) -> Option<(usize, usize)> {
        None
    }

    fn set_linger(&self, _: bool) {}

    fn set_keep_alive(&self, _: Option<u64>) {}
}
