//! Every limit of the switch, in one place, with what happens at it.

/// Longest Ethernet frame that is forwarded, bytes: an MTU of 9000, header, VLAN tag and room. Longer: dropped,
/// counted.
pub const FRAME_BYTES_MAX: usize = 9216;

/// Shortest frame that can be forwarded, bytes: two addresses and a type. Shorter: dropped, counted as malformed.
pub const FRAME_BYTES_MIN: usize = 14;

/// Links of one switch. One more is refused; and so is one for whose two sockets the limit of open files has no room.
pub const LINKS_MAX: usize = 32_768;

/// Addresses learned from traffic, beyond the configured ones. Further ones are not learned, their frames are flooded.
pub const LEARNED_ADDRESSES_MAX: usize = 4096;

/// Frames read from one link before the next ready link has its turn.
pub const BURST_FRAMES: usize = 32;

/// Bytes that wait for a station which reads slower than it is sent to; further frames are dropped, counted.
pub const OUT_QUEUE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Frames that wait for a station which reads slower than it is sent to; further frames are dropped, counted.
pub const OUT_QUEUE_FRAMES_MAX: usize = 8192;

/// Bytes that may wait for one direction of a link with a bandwidth; further frames are dropped, counted.
pub const LINK_BACKLOG_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Bytes under way on all shaped links together; further frames are dropped, counted.
pub const UNDER_WAY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Longest latency of one direction of a link, ns. More is refused.
pub const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Empty frame buffers kept for the next frame that has to wait; more are given back to the system.
pub const SPARE_BUFFERS_MAX: usize = 256;

/// Longest command line, bytes. The rest of a longer one is skipped and it is answered with a failure.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Bytes of replies that wait for whoever reads them; then no more commands are read, and events are dropped and
/// counted.
pub const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Size at which a recording ends when its command names none, bytes.
pub const PCAP_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;

/// Recordings at a time, those whose disk does not answer any more among them. One more is refused.
pub const RECORDINGS_MAX: usize = 64;

/// Bytes of a recording that wait for the disk; further frames are not recorded, and counted as missed.
pub const RECORDING_QUEUE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Longest path of a unix socket, bytes (the size of `sun_path` without its terminating zero).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
