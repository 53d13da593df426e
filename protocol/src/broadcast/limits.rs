//! Limits of broadcasts.

/// Shortest file that is sent to all nodes of a job because they read it ([`super`]), bytes: of shorter ones
/// each node asks for all with a few calls at once.
pub const BROADCAST_BYTES_MIN: u64 = 1024 * 1024;

/// So many nodes have begun to read it before that.
pub const BROADCAST_NODES_MIN: u32 = 2;

/// Files that are sent so in the life of a job; nodes read further ones each by itself.
pub const BROADCASTS_PER_JOB_MAX: u8 = 128;
