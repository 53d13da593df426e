//! Programs' sockets as data, from which they can be made again: on the same node, or on another one that has the
//! node's address in the job.
//!
//! They are written down when the job's programs are held and all of its nodes are quiet ([`Stack::quieten`]), and a
//! moment has passed for what nobody acknowledges: word that a connection is broken off, and datagrams, which may be
//! lost. A connection is made again in steps, each of which all nodes have done before any does the next:
//!
//! 1. every socket is there again ([`TcpSocket::again`], [`UdpSocket::again`], [`Stack::make_orphans_again`]);
//! 2. one end of each connection calls the other ([`Stack::call_again`]), until those who were called have answered
//!    ([`Stack::is_calling_again`]), or it takes too long;
//! 3. what was not called for is reset ([`Stack::settle_again`]), and it is waited for the last word to those who
//!    answered ([`Stack::is_settled_again`]): whoever goes on first on another node may connect to this one;
//! 4. what was not made is reset, and everything is as it was ([`Stack::end_making_again`]): programs may go on.
//!
//! A record is little trusted: one that no socket can have is refused.
//!
//! [`Stack::quieten`]: crate::Stack::quieten
//! [`TcpSocket::again`]: crate::TcpSocket::again
//! [`UdpSocket::again`]: crate::UdpSocket::again
//! [`Stack::make_orphans_again`]: crate::Stack::make_orphans_again
//! [`Stack::call_again`]: crate::Stack::call_again
//! [`Stack::is_calling_again`]: crate::Stack::is_calling_again
//! [`Stack::settle_again`]: crate::Stack::settle_again
//! [`Stack::is_settled_again`]: crate::Stack::is_settled_again
//! [`Stack::end_making_again`]: crate::Stack::end_making_again

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::SocketError;
use crate::cell::CellRecord;

/// Address and port.
type Name = (Ipv4Addr, u16);

/// A TCP socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpRecord {
    pub(crate) port: Option<PortRecord>,
    /// The address that was given to it, if one was.
    pub(crate) bound: Option<Ipv4Addr>,
    pub(crate) abort_on_close: bool,
    pub(crate) keep_alive_ns: Option<u64>,
    pub(crate) told: CellRecord,
    pub(crate) phase: PhaseRecord,
}

/// What a socket has of the node's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PortRecord {
    /// It was bound.
    Bound { address: Ipv4Addr, port: u16, reuse: bool, listens: bool },
    /// A listener had it.
    Accepted(u16),
}

/// What a TCP socket is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PhaseRecord {
    Fresh,
    Listening { backlog: u32, ready: Vec<ArrivalRecord>, waiting: Vec<EndRecord> },
    Remote { local: Name, peer: Name, told: bool, connection: ConnectionRecord },
    Local { end: EndRecord, told: bool },
}

/// A connection that waits to be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ArrivalRecord {
    Remote { peer: Name, connection: ConnectionRecord },
    Local(EndRecord),
}

/// How far a connection to another node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// It is being made.
    Connecting,
    /// It is there, in one direction at least.
    Open,
    /// It is no more.
    Over,
}

/// How large the buffers of a connection are, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Capacities {
    pub(crate) receive: u32,
    pub(crate) transmit: u32,
}

/// One end of a connection to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectionRecord {
    pub(crate) stage: Stage,
    pub(crate) capacities: Capacities,
    /// Received and not yet taken.
    pub(crate) received: Vec<u8>,
    pub(crate) error: Option<SocketError>,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    pub(crate) was_connected: bool,
    pub(crate) peer_ended: bool,
}

/// One end of a connection between two programs of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndRecord {
    /// The same of both ends, and of no other.
    pub(crate) pair: u64,
    /// Which of them this is, in the order of [`crate::local`].
    pub(crate) is_acceptor: bool,
    pub(crate) own: Name,
    pub(crate) peer: Name,
    pub(crate) stage: Stage,
    pub(crate) side: SideRecord,
    /// The other end's, if nobody has that any more.
    pub(crate) left: Option<SideRecord>,
}

/// What belongs to one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SideRecord {
    /// How large its buffer is, bytes; none, if nobody has it any more.
    pub(crate) capacity: u32,
    /// Received and not yet taken.
    pub(crate) received: Vec<u8>,
    pub(crate) error: Option<SocketError>,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    pub(crate) ended: bool,
}

/// A connection that its program has closed and the peer's has not: it is made again so that the peer finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanRecord {
    pub(crate) port: PortRecord,
    pub(crate) local: Name,
    pub(crate) peer: Name,
    pub(crate) capacities: Capacities,
}

/// A UDP socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpRecord {
    pub(crate) port: Option<PortRecord>,
    pub(crate) peer: Option<Name>,
    pub(crate) error: Option<SocketError>,
    pub(crate) broadcasts: bool,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    pub(crate) told: CellRecord,
    /// Received and not yet taken, with those who sent them.
    pub(crate) received: Vec<(Name, Vec<u8>)>,
}

/// Something of a connection is on its way: it is no data now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("something of the connection is on its way")]
pub struct NotQuiet;

/// Why a socket could not be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMade {
    /// No socket is as the record says, or not here.
    #[error("the record of a socket is damaged, or of another node")]
    Damaged,
    /// There is no room for it.
    #[error(transparent)]
    Socket(#[from] SocketError),
}
