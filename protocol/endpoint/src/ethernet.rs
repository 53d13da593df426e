//! Ethernet framing around IP packets, without address resolution: a station's address follows from its IPv4 address,
//! or from its number in a job.
//!
//! Two networks share the wire. The cluster's own is plain IPv4, between nodes and I/O nodes. The other is that of the
//! job on this node, in which its programs' packets go. Its frames are of a type of their own and say whose they are:
//!
//! ```text
//! 0             6        12     14       22
//! ├─destination─┼─source─┼─type─┼─job tag─┤ IPv4 packet, with addresses of the job …
//! ```
//!
//! A frame of a job is taken only if it is for this station alone, carries the tag of the job that is here, and comes
//! from the very station that has the packet's source address in the job. It is sent only to stations of the job: what
//! is for all goes to each of them. So nothing leaves a job and nothing enters it, and what is late for a job that was
//! here before is for nobody: its connections are reset, without a look at anything that is here.

use alloc::sync::Arc;
use alloc::vec;
use core::net::Ipv4Addr;

use coppice_protocol::ids::{JobNode, MacAddress};
use coppice_protocol::world::NETWORK_TAG_BYTES;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::job::JobNetwork;
use crate::reset::{BARE_BYTES, Reset};

/// Length of an Ethernet header, bytes.
pub const ETHERNET_HEADER_BYTES: usize = 14;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
/// One of those that IEEE leaves to whoever runs the network.
const ETHERTYPE_JOB: [u8; 2] = [0x88, 0xb5];
const BROADCAST: [u8; 6] = [0xff; 6];

/// Where an IPv4 header has its source and its destination.
const IPV4_SOURCE: core::ops::Range<usize> = 12..16;
const IPV4_DESTINATION: core::ops::Range<usize> = 16..20;

/// The networks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Realm {
    /// The cluster's own, for nodes and I/O nodes.
    Cluster,
    /// The job's, for programs.
    Job,
}

impl Realm {
    /// What is in front of a packet, bytes.
    const fn header_bytes(self) -> usize {
        match self {
            Self::Cluster => ETHERNET_HEADER_BYTES,
            Self::Job => ETHERNET_HEADER_BYTES + NETWORK_TAG_BYTES,
        }
    }
}

/// Who the station is.
struct Identity {
    mac: MacAddress,
    /// Last address of the cluster's network, to which broadcasts go.
    broadcast: Ipv4Addr,
    /// The job that is here.
    job: Option<Arc<JobNetwork>>,
}

/// An Ethernet device seen as one for IP packets.
pub(crate) struct Framed<D> {
    pub(crate) device: D,
    identity: Identity,
    /// In which network [`Device::transmit`] sends.
    pub(crate) realm: Realm,
    /// The device refused a frame since this was last cleared.
    pub(crate) exhausted: bool,
}

impl<D> Framed<D> {
    pub(crate) fn new(device: D, mac: MacAddress, broadcast: Ipv4Addr) -> Self {
        let identity = Identity { mac, broadcast, job: None };
        Self { device, identity, realm: Realm::Cluster, exhausted: false }
    }

    /// From now on frames are those of this job, or of none.
    pub(crate) fn set_job(&mut self, job: Option<Arc<JobNetwork>>) {
        self.identity.job = job;
    }
}

impl<D: Device> Framed<D> {
    /// Takes the next frame that came, and hands the packet in it to `f` with room for an answer, if it is for this
    /// station. False if there is none.
    pub(crate) fn take(&mut self, now: Instant, f: impl FnOnce(Realm, &[u8], Transmit<'_, D::TxToken<'_>>)) -> bool {
        let identity = &self.identity;
        let Some((received, token)) = self.device.receive(now) else { return false };
        received.consume(|frame| match identity.open(frame) {
            Some((realm, packet)) => f(realm, packet, Transmit { token, identity, realm, to: None }),
            None => identity.turn_away(frame, token),
        });
        true
    }

    /// Room for a packet of the job's network that goes to this node of the job, whatever its destination says.
    pub(crate) fn transmit_to(&mut self, now: Instant, node: JobNode) -> Option<Transmit<'_, D::TxToken<'_>>> {
        let to = self.identity.job.as_ref().and_then(|job| job.station(node));
        let token = self.device.transmit(now);
        self.exhausted |= token.is_none();
        Some(Transmit { token: token?, identity: &self.identity, realm: Realm::Job, to })
    }
}

impl Identity {
    /// The packet in `frame` and its network; `None` if it is not for this station.
    fn open<'f>(&self, frame: &'f [u8]) -> Option<(Realm, &'f [u8])> {
        let (header, packet) = frame.split_at_checked(ETHERNET_HEADER_BYTES)?;
        let is_ours = header[..6] == self.mac.0;
        match [header[12], header[13]] {
            ETHERTYPE_IPV4 => (is_ours || header[..6] == BROADCAST).then_some((Realm::Cluster, packet)),
            ETHERTYPE_JOB if is_ours => {
                let job = self.job.as_ref()?;
                let (tag, packet) = packet.split_at_checked(NETWORK_TAG_BYTES)?;
                let is_jobs = *tag == job.tag().0 && job.station_of(address(packet, IPV4_SOURCE)?)?.0 == header[6..12];
                is_jobs.then_some((Realm::Job, packet))
            }
            _ => None,
        }
    }

    /// Resets a connection of a job that is not here, or not any more: whoever still sends is not to wait for an
    /// answer. What is said back is made of what was said alone, and goes where that came from.
    fn turn_away(&self, frame: &[u8], token: impl TxToken) {
        let Some((header, packet)) = frame.split_at_checked(Realm::Job.header_bytes()) else { return };
        let (to, from, tag) = (&header[..6], &header[6..12], &header[ETHERNET_HEADER_BYTES..]);
        let is_strange = self.job.as_ref().is_none_or(|job| job.tag().0 != *tag);
        let is_meant = to == self.mac.0 && header[12..ETHERNET_HEADER_BYTES] == ETHERTYPE_JOB && from[0] & 1 == 0;
        let Some(reset) = (is_meant && is_strange).then(|| Reset::of(packet)).flatten() else { return };
        token.consume(header.len() + BARE_BYTES, |answer| {
            let (to_fill, packet) = answer.split_at_mut(header.len());
            to_fill.copy_from_slice(header);
            to_fill[..6].copy_from_slice(from);
            to_fill[6..12].copy_from_slice(&self.mac.0);
            reset.emit(packet);
        });
    }

    /// Writes what is in front of `packet`. One that is for nobody goes to this station itself: no switch brings it
    /// back.
    fn close(&self, realm: Realm, to: Option<MacAddress>, header: &mut [u8], packet: &[u8]) {
        let destination = address(packet, IPV4_DESTINATION);
        let (station, ethertype) = match (realm, &self.job) {
            (Realm::Cluster, _) => (Some(self.station_of(destination)), ETHERTYPE_IPV4),
            (Realm::Job, Some(job)) => {
                header[ETHERNET_HEADER_BYTES..].copy_from_slice(&job.tag().0);
                (to.or_else(|| job.station_of(destination?)).map(|mac| mac.0), ETHERTYPE_JOB)
            }
            (Realm::Job, None) => (None, ETHERTYPE_JOB),
        };
        header[..6].copy_from_slice(&station.unwrap_or(self.mac.0));
        header[6..12].copy_from_slice(&self.mac.0);
        header[12..ETHERNET_HEADER_BYTES].copy_from_slice(&ethertype);
    }

    /// The Ethernet address a packet of the cluster's network must go to.
    fn station_of(&self, destination: Option<Ipv4Addr>) -> [u8; 6] {
        match destination {
            Some(address) if !address.is_broadcast() && address != self.broadcast => MacAddress::of(address).0,
            _ => BROADCAST,
        }
    }
}

/// An address in an IPv4 header.
fn address(packet: &[u8], at: core::ops::Range<usize>) -> Option<Ipv4Addr> {
    packet.get(at).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(Ipv4Addr::from)
}

/// For smoltcp, which sends through the device and never receives: see [`Framed::take`].
impl<D: Device> Device for Framed<D> {
    type RxToken<'a>
        = Nothing
    where
        Self: 'a;
    type TxToken<'a>
        = Transmit<'a, D::TxToken<'a>>
    where
        Self: 'a;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.device.capabilities();
        capabilities.medium = Medium::Ip;
        let longest = capabilities.max_transmission_unit.saturating_sub(self.realm.header_bytes());
        capabilities.max_transmission_unit = longest;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        None
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        let token = self.device.transmit(now);
        self.exhausted |= token.is_none();
        Some(Transmit { token: token?, identity: &self.identity, realm: self.realm, to: None })
    }
}

/// A frame that never came.
pub(crate) enum Nothing {}

impl RxToken for Nothing {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, _f: F) -> R {
        match self {}
    }
}

/// Room for a frame to send.
pub(crate) struct Transmit<'a, T> {
    token: T,
    identity: &'a Identity,
    realm: Realm,
    /// The station it goes to, if its destination is not to say.
    to: Option<MacAddress>,
}

impl<T: TxToken> TxToken for Transmit<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let Self { token, identity, realm, to } = self;
        if realm == Realm::Job && identity.job.is_none() {
            // The job is gone: so is the packet.
            return f(&mut vec![0; length]);
        }
        let header_bytes = realm.header_bytes();
        token.consume(length + header_bytes, |frame| {
            let (header, packet) = frame.split_at_mut(header_bytes);
            let result = f(packet);
            identity.close(realm, to, header, packet);
            result
        })
    }
}
