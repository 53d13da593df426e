//! What can go wrong with a connection.

use serde::{Deserialize, Serialize};

/// Why a network call of the node's own failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// Nobody listens at the peer's port, or its backlog is full.
    #[error("connection refused")]
    Refused,
    /// The peer reset the connection, or acknowledged nothing for [`crate::limits::UNACKNOWLEDGED_NS_MAX`].
    #[error("connection reset or timed out")]
    Reset,
    /// This side closed the connection before.
    #[error("connection is closed")]
    Closed,
    /// Somebody listens on that port already.
    #[error("port is in use")]
    PortInUse,
    /// The address or port is one that nobody can have.
    #[error("not a usable address")]
    Address,
    /// [`crate::limits::SOCKETS_MAX`] is reached, or there is no memory for buffers.
    #[error("too many connections")]
    TooManySockets,
}

/// Why a call on a program's socket failed, in errno(3)'s terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SocketError {
    /// EAGAIN: it would have to wait.
    #[error("would have to wait")]
    WouldBlock,
    /// EINPROGRESS: the connection is being made.
    #[error("connecting")]
    InProgress,
    /// EALREADY: an earlier call has the connection made.
    #[error("already connecting")]
    AlreadyInProgress,
    /// EISCONN: the socket is connected.
    #[error("already connected")]
    AlreadyConnected,
    /// ENOTCONN: the socket is not connected.
    #[error("not connected")]
    NotConnected,
    /// EADDRINUSE: somebody has that address and port.
    #[error("address in use")]
    AddressInUse,
    /// EADDRNOTAVAIL: the address is not the node's.
    #[error("not an address of this node")]
    AddressNotAvailable,
    /// EDESTADDRREQ: no destination was given, now or before.
    #[error("no destination")]
    NoDestination,
    /// ECONNREFUSED: nobody listens there.
    #[error("connection refused")]
    Refused,
    /// ECONNRESET: the peer broke the connection off.
    #[error("connection reset by peer")]
    Reset,
    /// ETIMEDOUT: the peer does not answer.
    #[error("connection timed out")]
    TimedOut,
    /// ENETUNREACH: no such address is on the network.
    #[error("network is unreachable")]
    Unreachable,
    /// EHOSTUNREACH: the network has such an address, and no node of the job has it.
    #[error("no such host in the job")]
    NoHost,
    /// EPIPE: nothing more can be sent.
    #[error("sending side is closed")]
    Closed,
    /// EINVAL: not in this state, or not with these arguments.
    #[error("invalid argument")]
    Invalid,
    /// ENFILE: [`crate::limits::USER_SOCKETS_MAX`] is reached.
    #[error("too many sockets")]
    TooMany,
    /// ENOBUFS: no memory for buffers.
    #[error("no memory for buffers")]
    NoMemory,
    /// EACCES: a datagram to all, from a socket that was not told that it may.
    #[error("not permitted to send to all")]
    NotPermitted,
    /// EMSGSIZE: the datagram is longer than one can be.
    #[error("message too long")]
    MessageTooLong,
}
