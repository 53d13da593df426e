//! Every limit of a stack, with what happens at it.

/// TCP's clocks run this many times faster than the standard says: its least retransmission time of one second becomes
/// 50 ms. A request of a node is often alone on its connection, so that only the clock finds out that it was lost.
pub const TIME_SCALE: u64 = 20;

/// Sockets of a stack: connections, listening ones and closing ones. Beyond: [`crate::NetError::TooManySockets`].
pub const SOCKETS_MAX: usize = 1024;

/// Connections that are closed by their owner and not yet by the peer. Beyond, the oldest is forgotten at once.
pub const CLOSING_MAX: usize = 64;

/// Frames taken from the device in one poll; more wait for the next one, which is due at once.
pub const FRAMES_PER_POLL_MAX: usize = 64;

/// How long an acknowledgement may wait for data to travel with, ns. More than one full segment is acknowledged at
/// once.
pub const ACKNOWLEDGE_DELAY_NS: u64 = 4_000_000;

/// A connection whose peer acknowledges nothing for this long is reset, ns.
pub const UNACKNOWLEDGED_NS_MAX: u64 = 20_000_000_000;

/// When to try again after the device had no room for a frame, ns. Its interrupt usually comes first.
pub const DEVICE_RETRY_NS: u64 = 1_000_000;
