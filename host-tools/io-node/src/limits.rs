//! Limits of the I/O node's own, with what happens at each. Those that nodes see are in [`coppice_protocol::limits`].

use std::time::Duration;

/// Frames taken from the fabric before the stack sees them; the rest waits in the socket, and its senders with it.
pub const FRAMES_PER_WAKE_MAX: usize = 64;

/// Frames queued for the fabric while its socket is full; then the stack waits.
pub const FRAMES_QUEUED_MAX: usize = 256;

/// Longest frame, bytes; a longer one is cut by the socket and dropped by the stack.
pub const FRAME_BYTES_MAX: usize = 65_536;

/// Connections that wait to be accepted on one port; further ones are refused, and their nodes try again.
pub const BACKLOG: usize = 32;

/// Connections whose handshake is under way; further ones are cut at once.
pub const HANDSHAKES_MAX: usize = 128;

/// Buffers of a control connection, bytes each way.
pub const CONTROL_BUFFER_BYTES: usize = 64 * 1024;

/// Buffers of a function-shipping connection, bytes each way.
pub const SHIP_BUFFER_BYTES: usize = 512 * 1024;

/// Bytes taken from a connection before its requests are looked at.
pub const BYTES_PER_READ_MAX: usize = 64 * 1024;

/// Pause after a connection could not be accepted for want of sockets.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A ready node that lost a connection may be back this soon without being reported lost. A node that reboots is never
/// back: its new boot is another generation.
pub const RECONNECT_GRACE: Duration = Duration::from_millis(1500);

/// How long an I/O node that was told to end waits for its nodes to take their last message.
pub const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// Messages queued for the service node; then whoever has one waits, and so do its node's requests.
pub const OUTBOX_MESSAGES_MAX: usize = 256;

/// Jobs known at a time; further ones are refused. Each has a thread.
pub const JOBS_MAX: usize = 4096;

/// Signals of a job that are sent again to a node that comes back, in case they were lost with its connection; older
/// ones are not.
pub const SIGNALS_KEPT_MAX: usize = 64;

/// Threads for calls that wait for the disk; further calls wait for one of them. They are made when they are wanted.
pub const BLOCKING_THREADS_MAX: usize = 128;

/// Of these, threads of one job, whose disk may not answer; its further calls wait.
pub const BLOCKING_THREADS_PER_JOB_MAX: usize = 16;

/// RAS events about peers that failed to authenticate, per [`BAD_PEER_WINDOW`]; further ones are counted only.
pub const BAD_PEER_EVENTS_MAX: u32 = 4;

/// See [`BAD_PEER_EVENTS_MAX`].
pub const BAD_PEER_WINDOW: Duration = Duration::from_secs(10);

/// Threads that open roots and programs of jobs. As long as all wait for mounts that do not answer, further jobs are
/// refused.
pub const OPENINGS_MAX: usize = 32;

/// How long it may take to open a job's root and program; then the job is refused.
pub const OPEN_TIME_MAX: Duration = Duration::from_secs(30);
