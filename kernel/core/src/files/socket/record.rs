//! A socket as data, but for what carries its bytes.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::Ipv4Addr;

use coppice_endpoint::record::{NotMade, NotQuiet, TcpRecord, UdpRecord};
use serde::{Deserialize, Serialize};

use super::{Socket, Transport};
use crate::errno::Errno;
use crate::files::service::Service;
use crate::files::socket_options::Options;
use crate::limits::SOCKET_BYTES;
use crate::net::Network;
use crate::quota::Quota;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SocketRecord {
    serial: u64,
    options: Options,
    /// It is connected with the kernel, by this name: [`crate::files::record::Outside::Service`] comes next.
    served: Option<(Ipv4Addr, u16)>,
}

impl SocketRecord {
    /// Whether it is connected with the kernel.
    pub(in crate::files) const fn is_served(&self) -> bool {
        self.served.is_some()
    }
}

impl Socket {
    /// Writes it down.
    pub(crate) fn record(&self) -> SocketRecord {
        let served = self.served.get().map(|served| served.peer);
        SocketRecord { serial: self.serial, options: self.options(), served }
    }

    /// See [`Transport::record_bytes`].
    pub(in crate::files) fn transport_bytes(&self) -> usize {
        self.transport.record_bytes()
    }

    /// What carries its bytes, and whom in the kernel it is connected with.
    pub(in crate::files) fn into_parts(self) -> (Transport, Option<Box<dyn Service>>) {
        (self.transport, self.served.try_into_inner().map(|served| served.service))
    }

    /// Makes it again.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(in crate::files) fn again(
        record: SocketRecord,
        (transport, service): (Transport, Option<Box<dyn Service>>),
        quota: &Arc<Quota>,
    ) -> Result<Self, Errno> {
        let charge = quota.charge(SOCKET_BYTES)?;
        let socket = Self { serial: record.serial, ..Self::with(transport, record.options, charge) };
        if let (Some(service), Some(peer)) = (service, record.served) {
            socket.serve(service, peer);
        }
        Ok(socket)
    }
}

/// What carries a socket's bytes as data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum TransportRecord {
    Tcp(TcpRecord),
    Udp(UdpRecord),
}

impl Transport {
    /// Writes it down.
    ///
    /// # Errors
    /// [`NotQuiet`].
    pub(in crate::files) fn record(&self) -> Result<TransportRecord, NotQuiet> {
        Ok(match self {
            Self::Tcp(tcp) => TransportRecord::Tcp(tcp.record()?),
            Self::Udp(udp) => TransportRecord::Udp(udp.record()?),
        })
    }

    /// How many bytes its record takes at most, as a value or as bytes.
    pub(in crate::files) fn record_bytes(&self) -> usize {
        /// A connection that waits to be accepted, or a datagram.
        const EACH_BYTES: usize = size_of::<TcpRecord>();
        let (bytes, count) = match self {
            Self::Tcp(tcp) => tcp.record_holds(),
            Self::Udp(udp) => udp.record_holds(),
        };
        bytes + count * EACH_BYTES
    }

    /// Lets go of it without a word to its peer.
    pub(in crate::files) fn forget(self) {
        if let Self::Tcp(tcp) = self {
            tcp.forget();
        }
    }

    /// Makes it again.
    ///
    /// # Errors
    /// [`NotMade`].
    pub(in crate::files) fn again(record: &TransportRecord, network: &dyn Network) -> Result<Self, NotMade> {
        Ok(match record {
            TransportRecord::Tcp(record) => Self::Tcp(network.again().make_tcp(record)?),
            TransportRecord::Udp(record) => Self::Udp(network.again().make_udp(record)?),
        })
    }
}
