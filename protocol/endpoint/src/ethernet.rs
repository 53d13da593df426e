//! Ethernet framing around IP packets, without address resolution: a station's address follows from its IPv4 address.

use core::net::Ipv4Addr;

use coppice_protocol::ids::MacAddress;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Length of an Ethernet header, bytes.
pub(crate) const HEADER_BYTES: usize = 14;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const BROADCAST: [u8; 6] = [0xff; 6];

/// Where an IPv4 header has its destination.
const IPV4_DESTINATION: core::ops::Range<usize> = 16..20;

/// An Ethernet device seen as one for IP packets.
pub(crate) struct Framed<D> {
    pub(crate) device: D,
    mac: MacAddress,
    /// Last address of the network, to which broadcasts go.
    broadcast: Ipv4Addr,
    /// The device refused a frame since this was last cleared.
    pub(crate) exhausted: bool,
}

impl<D> Framed<D> {
    pub(crate) fn new(device: D, mac: MacAddress, broadcast: Ipv4Addr) -> Self {
        Self { device, mac, broadcast, exhausted: false }
    }
}

impl<D: Device> Framed<D> {
    /// The next packet that came, and room for an answer.
    #[expect(clippy::type_complexity, reason = "two tokens of the device")]
    pub(crate) fn take(&mut self, now: Instant) -> Option<(Received<D::RxToken<'_>>, Transmit<D::TxToken<'_>>)> {
        let (mac, broadcast) = (self.mac, self.broadcast);
        let (received, transmit) = self.device.receive(now)?;
        Some((Received { token: received, mac }, Transmit { token: transmit, mac, broadcast }))
    }
}

/// The IP packet in `frame`, or nothing if the frame is not for `mac` or carries something else.
fn packet_of(mac: MacAddress, frame: &[u8]) -> &[u8] {
    let Some((header, packet)) = frame.split_at_checked(HEADER_BYTES) else {
        return &[];
    };
    let for_us = header[..6] == mac.0 || header[..6] == BROADCAST;
    if for_us && header[12..14] == ETHERTYPE_IPV4 { packet } else { &[] }
}

impl<D: Device> Device for Framed<D> {
    type RxToken<'a>
        = Received<D::RxToken<'a>>
    where
        Self: 'a;
    type TxToken<'a>
        = Transmit<D::TxToken<'a>>
    where
        Self: 'a;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.device.capabilities();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = capabilities.max_transmission_unit.saturating_sub(HEADER_BYTES);
        capabilities
    }

    fn receive(&mut self, now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        self.take(now)
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        let (mac, broadcast) = (self.mac, self.broadcast);
        let token = self.device.transmit(now);
        self.exhausted |= token.is_none();
        token.map(|token| Transmit { token, mac, broadcast })
    }
}

/// A received frame.
pub(crate) struct Received<T> {
    token: T,
    mac: MacAddress,
}

impl<T: RxToken> RxToken for Received<T> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let mac = self.mac;
        self.token.consume(|frame| f(packet_of(mac, frame)))
    }
}

/// Room for a frame to send.
pub(crate) struct Transmit<T> {
    token: T,
    mac: MacAddress,
    broadcast: Ipv4Addr,
}

impl<T: TxToken> TxToken for Transmit<T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let Self { token, mac, broadcast } = self;
        token.consume(len + HEADER_BYTES, |frame| {
            let (header, packet) = frame.split_at_mut(HEADER_BYTES);
            let result = f(packet);
            header[..6].copy_from_slice(&station_of(packet, broadcast));
            header[6..12].copy_from_slice(&mac.0);
            header[12..14].copy_from_slice(&ETHERTYPE_IPV4);
            result
        })
    }
}

/// The Ethernet address a packet must go to.
fn station_of(packet: &[u8], broadcast: Ipv4Addr) -> [u8; 6] {
    let octets = packet.get(IPV4_DESTINATION).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    match octets.map(Ipv4Addr::from) {
        Some(address) if !address.is_broadcast() && address != broadcast => MacAddress::of(address).0,
        _ => BROADCAST,
    }
}
