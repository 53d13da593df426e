//! The node's own datagrams, in the cluster's network: at ports that the kernel and the I/O node open, between ports of
//! the same number.
//!
//! Each port has a queue of what came and one of what is to go, with the same limit in bytes for each, that whoever
//! opens it answers for. What comes beyond is lost, as datagrams may be; who sends asks for room first. They go when
//! connections have nothing to send.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::task::Waker;

use smoltcp::phy::{ChecksumCapabilities, Device, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr};

use crate::NetError;
use crate::datagrams::{HEADERS_BYTES, HOP_LIMIT};
use crate::ethernet::{Framed, Realm};
use crate::limits::DATAGRAM_OVERHEAD_BYTES;
use crate::stack::Stack;

/// Datagrams with their peers, as many as there is room for.
#[derive(Default)]
struct Queue {
    datagrams: VecDeque<(Ipv4Addr, Vec<u8>)>,
    bytes: usize,
}

impl Queue {
    fn has_room(&self, bytes: usize, limit: usize) -> bool {
        self.bytes.saturating_add(bytes).saturating_add(DATAGRAM_OVERHEAD_BYTES) <= limit
    }

    /// Whether there was room for it, and memory.
    fn push(&mut self, peer: Ipv4Addr, bytes: Vec<u8>, limit: usize) -> bool {
        let fits = self.has_room(bytes.len(), limit) && self.datagrams.try_reserve(1).is_ok();
        if fits {
            self.bytes += bytes.len() + DATAGRAM_OVERHEAD_BYTES;
            self.datagrams.push_back((peer, bytes));
        }
        fits
    }

    fn pop(&mut self) -> Option<(Ipv4Addr, Vec<u8>)> {
        let (peer, bytes) = self.datagrams.pop_front()?;
        self.bytes -= bytes.len() + DATAGRAM_OVERHEAD_BYTES;
        Some((peer, bytes))
    }
}

/// An open port.
struct Port {
    limit_bytes: usize,
    received: Queue,
    unsent: Queue,
    watcher: Option<Waker>,
}

impl Port {
    fn wake(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.wake_by_ref();
        }
    }
}

/// All open ports of a stack.
#[derive(Default)]
pub(crate) struct OwnDatagrams {
    ports: BTreeMap<u16, Port>,
}

impl OwnDatagrams {
    /// A datagram came over the wire.
    pub(crate) fn take(&mut self, own: Ipv4Addr, packet: &Ipv4Packet<&[u8]>) {
        let Ok(udp) = UdpPacket::new_checked(packet.payload()) else { return };
        // Other datagrams come from nobody who is meant.
        let is_meant = packet.dst_addr() == own && udp.src_port() == udp.dst_port();
        let Some(port) = self.ports.get_mut(&udp.dst_port()).filter(|_| is_meant && packet.verify_checksum()) else {
            return;
        };
        let payload = udp.payload();
        if !port.received.has_room(payload.len(), port.limit_bytes) {
            return;
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(payload.len()).is_ok() {
            bytes.extend_from_slice(payload);
            if port.received.push(packet.src_addr(), bytes, port.limit_bytes) {
                port.wake();
            }
        }
    }

    /// Whether nothing is to go.
    pub(crate) fn is_idle(&self) -> bool {
        self.ports.values().all(|port| port.unsent.datagrams.is_empty())
    }

    /// Sends what there is to send, until the device has no room or `budget` frames have gone. Returns what is left of
    /// that. What went is wiped.
    pub(crate) fn transmit<D: Device>(
        &mut self,
        now: Instant,
        device: &mut Framed<D>,
        source: Ipv4Addr,
        wipe: fn(&mut [u8]),
        mut budget: usize,
    ) -> usize {
        device.realm = Realm::Cluster;
        for (number, port) in &mut self.ports {
            let before = port.unsent.datagrams.len();
            while budget > 0 && !port.unsent.datagrams.is_empty() {
                let Some(token) = device.transmit(now) else { break };
                let Some((to, mut bytes)) = port.unsent.pop() else { break };
                emit(source, to, *number, &bytes, token);
                wipe(&mut bytes);
                budget -= 1;
            }
            if port.unsent.datagrams.len() < before {
                port.wake();
            }
        }
        budget
    }
}

/// Puts a datagram onto the wire. Whoever sends it has a check of his own in it, so it has no checksum.
fn emit(source: Ipv4Addr, to: Ipv4Addr, port: u16, bytes: &[u8], token: impl TxToken) {
    let udp = UdpRepr { src_port: port, dst_port: port };
    let ip = Ipv4Repr {
        src_addr: source,
        dst_addr: to,
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + bytes.len(),
        hop_limit: HOP_LIMIT,
    };
    let mut checksums = ChecksumCapabilities::default();
    token.consume(HEADERS_BYTES + bytes.len(), |packet| {
        let mut packet = Ipv4Packet::new_unchecked(packet);
        ip.emit(&mut packet, &checksums);
        checksums.udp = smoltcp::phy::Checksum::None;
        let mut payload = UdpPacket::new_unchecked(packet.payload_mut());
        let fill = |payload: &mut [u8]| payload.copy_from_slice(bytes);
        udp.emit(&mut payload, &source.into(), &to.into(), bytes.len(), fill, &checksums);
    });
}

/// A port for the node's own datagrams. It is closed when this is dropped, and what is in its queues is lost.
pub struct DatagramPort<D: Device> {
    stack: Stack<D>,
    number: u16,
}

impl<D: Device> Stack<D> {
    /// Opens a port for the node's own datagrams, with `queue_bytes` for what came and as many for what is to go.
    ///
    /// # Errors
    /// [`NetError::PortInUse`].
    pub fn open_port(&self, number: u16, queue_bytes: usize) -> Result<DatagramPort<D>, NetError> {
        self.with_net(|net| {
            let ports = &mut net.own_datagrams.ports;
            if ports.contains_key(&number) {
                return Err(NetError::PortInUse);
            }
            let (received, unsent) = (Queue::default(), Queue::default());
            ports.insert(number, Port { limit_bytes: queue_bytes, received, unsent, watcher: None });
            Ok(())
        })?;
        Ok(DatagramPort { stack: self.clone(), number })
    }
}

impl<D: Device> DatagramPort<D> {
    fn with<R>(&self, f: impl FnOnce(&mut Port) -> R) -> Option<R> {
        self.stack.with_net(|net| net.own_datagrams.ports.get_mut(&self.number).map(f))
    }

    /// The next datagram that came: from whom, and its bytes.
    #[must_use]
    pub fn receive(&self) -> Option<(Ipv4Addr, Vec<u8>)> {
        self.with(|port| port.received.pop())?
    }

    /// Sends a datagram to the port of the same number of another station. Without room it is lost, as it may be on the
    /// way.
    pub fn send(&self, to: Ipv4Addr, bytes: Vec<u8>) {
        self.with(|port| port.unsent.push(to, bytes, port.limit_bytes));
        self.stack.kick();
    }

    /// Whether a datagram came that nobody has taken.
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.with(|port| !port.received.datagrams.is_empty()).unwrap_or(false)
    }

    /// Whether there is room for datagrams of so many bytes together to be sent.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.with(|port| port.unsent.has_room(bytes, port.limit_bytes)).unwrap_or(false)
    }

    /// Has `watcher`, and nobody else, woken when something came and when something has gone, from now on.
    pub fn register(&self, watcher: &Waker) {
        self.with(|port| {
            if !port.watcher.as_ref().is_some_and(|known| known.will_wake(watcher)) {
                port.watcher = Some(watcher.clone());
            }
        });
    }
}

impl<D: Device> Drop for DatagramPort<D> {
    fn drop(&mut self) {
        let port = self.stack.with_net(|net| {
            let mut port = net.own_datagrams.ports.remove(&self.number)?;
            for (_, bytes) in port.received.datagrams.iter_mut().chain(&mut port.unsent.datagrams) {
                (net.wipe)(bytes);
            }
            Some(port)
        });
        // Its watcher may be the last to hold something that has work to do when it goes.
        drop(port);
    }
}
