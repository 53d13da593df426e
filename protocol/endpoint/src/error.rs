//! What can go wrong with a connection.

/// Why a network call failed.
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
    /// [`crate::limits::SOCKETS_MAX`] is reached.
    #[error("too many connections")]
    TooManySockets,
}
