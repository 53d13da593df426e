//! Every limit of a stack, with what happens at it.

/// TCP's clocks run this many times faster than the standard says: its least retransmission time of one second becomes
/// 50 ms. A request of a node is often alone on its connection, so that only the clock finds out that it was lost.
pub const TIME_SCALE: u64 = 20;

/// The node's own sockets of a stack: connections, open and closing ones. Beyond: [`crate::NetError::TooManySockets`].
pub const SOCKETS_MAX: usize = 1024;

/// Connections of the node that are closed by their owner and not yet by the peer. Beyond, the oldest is forgotten at
/// once.
pub const CLOSING_MAX: usize = 64;

/// Frames taken from the device in one poll, and as many handed to it, each at most as long as the device's longest;
/// more wait for the next one, which is due at once.
pub const FRAMES_PER_POLL_MAX: usize = 64;

/// How long an acknowledgement may wait for data to travel with, ns. More than one full segment is acknowledged at
/// once.
pub const ACKNOWLEDGE_DELAY_NS: u64 = 4_000_000;

/// A connection whose peer acknowledges nothing for this long is reset, ns.
pub const UNACKNOWLEDGED_NS_MAX: u64 = 20_000_000_000;

/// A connection that waits for an acknowledgement without a clock for it is made to go on after so long, ns, a little
/// more than the least time after which one with a clock sends again.
pub const STALLED_NS: u64 = 60_000_000;

/// When to try again after the device had no room for a frame, ns. Its interrupt usually comes first.
pub const DEVICE_RETRY_NS: u64 = 1_000_000;

/// Sockets of programs: open ones, connections that wait to be accepted, and closed ones whose bytes are still on their
/// way. Beyond, the longest closed one is forgotten; if none is closed: [`crate::SocketError::TooMany`], and who wants
/// to connect is not answered for now.
pub const USER_SOCKETS_MAX: usize = 5000;

/// Memory of programs' connections, bytes, if [`crate::UserConfig`] does not say otherwise. Beyond:
/// [`crate::SocketError::NoMemory`], and who wants to connect is not answered for now.
pub const USER_BUFFER_BYTES: usize = 16 << 20;

/// Largest buffer of a connection of a program, for one direction, bytes: what is on its way on a fast wire, and then
/// some.
pub const RING_BYTES_MAX: usize = 256 * 1024;

/// Smallest one, bytes.
pub const RING_BYTES_MIN: usize = 2048;

/// What a connection takes besides its two buffers, bytes for each of them.
pub const RING_OVERHEAD_BYTES: usize = 1024;

/// The part of the budget that goes to buffers larger than the smallest, as a divisor.
pub const RING_LARGE_SHARE: usize = 3;

/// The part of what is left of that which the next buffer gets, as a divisor.
pub const RING_PART: usize = 32;

/// Connections that a program's listener lets wait to be made and accepted, at most, whatever the program asked for.
/// Who wants to connect beyond is not answered for now.
pub const BACKLOG_MAX: usize = 1024;

/// A peer that does not answer a program's wish to connect for this long does not exist, ns:
/// [`crate::SocketError::TimedOut`].
pub const CONNECT_NS_MAX: u64 = 20_000_000_000;

/// As [`ACKNOWLEDGE_DELAY_NS`], for programs' connections: their peers may have little room for bytes on their way.
pub const USER_ACKNOWLEDGE_DELAY_NS: u64 = 1_000_000;

/// Longest datagram of a program, bytes, as IPv4 has it; over the wire it must fit into one packet besides. Beyond:
/// [`crate::SocketError::MessageTooLong`].
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// What a datagram counts besides its own bytes, bytes: its place in a queue that may have grown to twice of what it
/// holds, with what is known of it.
pub const DATAGRAM_OVERHEAD_BYTES: usize = 256;

/// Blocks of memory up to this length, bytes, may take powers of two.
pub const SMALL_BLOCK_BYTES_MAX: usize = 2048;

/// Datagrams that wait in a socket to be received, bytes with their overhead. What comes beyond is lost.
pub const DATAGRAM_QUEUE_BYTES: usize = 256 * 1024;

/// A socket with so many bytes of datagrams that are still to go sends no further one:
/// [`crate::SocketError::WouldBlock`].
pub const DATAGRAM_SEND_BYTES: usize = 128 * 1024;

/// How long nobody gets a connection between the names of one that could not be made again, ns: longer than its other
/// end may be called for.
pub const CALLS_REFUSED_NS: u64 = 60_000_000_000;
