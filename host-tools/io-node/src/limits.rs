//! Limits of the I/O node's own, with what happens at each. Those that nodes see are in [`coppice_protocol::limits`].

use std::time::Duration;

use coppice_protocol::limits::HEARTBEAT_DEAD_NS;

/// Frames taken from the fabric before the stack sees them; the rest waits in the socket, and its senders with it.
pub const FRAMES_PER_WAKE_MAX: usize = 64;

/// Frames queued for the fabric while its socket is full; then the stack waits.
pub const FRAMES_QUEUED_MAX: usize = 256;

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

/// A ready node that lost a connection may be back this soon without being reported lost: as soon as one must be heard
/// again that is silent. An attempt of the node's to connect that fails takes some seconds, and nodes break connections
/// off themselves, also over links that lose much. A node that reboots is never back: its new boot is another
/// generation.
pub const RECONNECT_GRACE: Duration = Duration::from_nanos(HEARTBEAT_DEAD_NS);

/// How long an I/O node that was told to end waits for its nodes to take their last message.
pub const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// Messages queued for the service node; then whoever has one waits, and so do its node's requests.
pub const OUTBOX_MESSAGES_MAX: usize = 256;

/// Programs, each with the root it is run from, of which is kept what they look up; of more, what was used longest ago
/// goes.
pub const MANIFESTS_MAX: usize = 64;

/// Jobs known at a time, and jobs that have ended while threads of theirs still wait for mounts that do not answer;
/// further ones are refused.
pub const JOBS_MAX: usize = 4096;

/// Signals of a job that are sent again to a node that comes back, in case they were lost with its connection; older
/// ones are not.
pub const SIGNALS_KEPT_MAX: usize = 64;

/// How long a call on a file waits for nodes to give leases back, which may have to write what they have not written
/// yet; then it fails (`EIO`). A node that does not answer at all is lost before.
pub const RECALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How often it is looked whether the host has changed files that nodes have leases of …
pub const LOOK_TIME: Duration = Duration::from_secs(1);

/// … and how many of them at a time; with more, each has its turn later.
pub const LOOKS_MAX: usize = 64;

/// Threads of one job that wait for its disk, which may not answer; its further calls wait. They are made when they are
/// wanted.
pub const BLOCKING_THREADS_PER_JOB_MAX: usize = 16;

/// Those of one rank; its further calls wait, and no others with them.
pub const BLOCKING_THREADS_PER_RANK_MAX: usize = 4;

/// All of them: as many as all jobs, transfers and broadcasts may have, so that none waits for another's.
pub const BLOCKING_THREADS_MAX: usize =
    JOBS_MAX * BLOCKING_THREADS_PER_JOB_MAX + TRANSFERS_MAX * READS_PER_TRANSFER_MAX + BROADCASTS_MAX;

/// Threads that put and get objects of checkpoints, for all jobs: they share the disk. What one settles holds up one.
pub const OBJECT_THREADS: usize = 4;

/// Such calls, beside those that are made, that wait for a disk which may not answer: several jobs' share of its
/// threads. Further ones fail with `EBUSY`.
pub const OBJECT_CALLS_MAX: usize = 64 * BLOCKING_THREADS_PER_JOB_MAX;

/// Of these threads, those that pull from nodes' regions or wipe there at once, which takes long: jobs' calls find
/// others. Further orders wait.
pub const REGION_THREADS_MAX: usize = OBJECT_THREADS / 2;

/// Threads that store what is pulled from one region: making an object's name and compressing it takes longer than
/// writing it.
pub const PULL_THREADS_MAX: usize = 4;

/// Orders about regions that wait; further ones are refused. A node has few at a time.
pub const REGION_ORDERS_MAX: usize = 4096;

/// Bytes of a table or an index of a region that are read: enough for some millions of objects. A longer one is
/// damaged.
pub const REGION_TABLE_BYTES_MAX: u64 = 256 << 20;

/// Parts that are pulled with one order, so that the answer is a message; a table with more is refused.
pub const REGION_PARTS_MAX: usize = 16 * 1024;

/// How long a rank's end waits until its files are closed. All ranks of a node together are far from a node's silence.
pub const CLOSE_TIME_MAX: Duration = Duration::from_millis(100);

/// Open files that the I/O node keeps back for itself: sockets, logs, roots that are opened, paths that are walked, and
/// files that were closed while a call on them was under way.
pub const DESCRIPTORS_OWN: usize = 512;

/// Open files of a job beside those of its ranks: its root, its program, the program's tree, and one to open them by.
pub const DESCRIPTORS_PER_JOB: usize = 4;

/// Open files of a staged file that has its home here: itself, and its tree.
pub const DESCRIPTORS_PER_STAGED_FILE: usize = 2;

/// Staged files that are sent from here at once, until their jobs end, or nodes keep them; more are refused.
pub const TRANSFERS_MAX: usize = coppice_protocol::limits::TRANSFERS_PER_PSET_MAX;

/// Files on their way to be kept by nodes of the pset; further ones are refused.
pub const KEEPS_MAX: usize = 64;

/// Packets of pieces, as often as they are sent, that wait in one transfer until the piece is read from a disk that may
/// not answer, and so at most the threads that read; until then nothing else is sent in it.
pub const READS_PER_TRANSFER_MAX: usize = 4;

/// Files that are broadcast from here at once, of which each may have a thread that waits for its disk; more are not.
pub const BROADCASTS_MAX: usize = 16;

/// Memory for files that are broadcast, MiB: longer ones are not, nor are further ones while others are.
pub const BROADCAST_MIB_MAX: usize = 512;

/// Reads of a file that wait while it is taken into memory to be broadcast; further ones are made.
pub const HELD_MAX: usize = 4096;

/// And how long they wait for it.
pub const HELD_TIME_MAX: Duration = Duration::from_millis(500);

/// Files of a job of which is known who reads them from their start, so as to [broadcast](coppice_protocol::broadcast)
/// them; at the limit all is forgotten of those that are not broadcast.
pub const FILES_WATCHED_MAX: usize = 256;

/// Memory for files of which the host has none and whose bytes come from another pset, to be passed on, MiB: jobs that
/// need more are refused.
pub const RECEIVED_MIB_MAX: usize = 4096;

/// Pieces of a transfer kept in memory, since each goes to several nodes.
pub const PIECES_KEPT_PER_TRANSFER: usize = 8;

/// How often it is said of a transfer, or of a region that is pulled from, how far it is, at most.
pub const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

/// Such words that nobody has taken; further ones are not said.
pub const PROGRESS_QUEUED_MAX: usize = 16;

/// Datagrams taken in a transfer that does not get to send; further ones are lost.
pub const HEARD_PER_TRANSFER_MAX: usize = 1024;

/// Datagrams of transfers taken before others have their turn.
pub const DATAGRAMS_PER_WAKE_MAX: usize = 64;

/// Queues of the port for transfers, bytes each way: what comes beyond is lost, what is to go beyond waits.
pub const DISTRIBUTION_QUEUE_BYTES: usize = 4 << 20;

/// RAS events about peers that failed to authenticate, per [`BAD_PEER_WINDOW`]; further ones are counted only.
pub const BAD_PEER_EVENTS_MAX: u32 = 4;

/// See [`BAD_PEER_EVENTS_MAX`].
pub const BAD_PEER_WINDOW: Duration = Duration::from_secs(10);

/// Threads that open roots and programs of jobs. As long as all wait for mounts that do not answer, further jobs are
/// refused.
pub const OPENINGS_MAX: usize = 32;

/// How long it may take to open a job's root and program; then the job is refused.
pub const OPEN_TIME_MAX: Duration = Duration::from_secs(30);

/// Symbolic links followed in one path, as in Linux: then `ELOOP`.
pub const SYMLINKS_MAX: u32 = 40;

/// How often a path is walked again because its last component became a link meanwhile: then `ELOOP`.
pub const WALKS_MAX: u32 = 8;

/// How often a path is resolved in one call because the host renamed something meanwhile; then it is walked.
pub const RESOLUTIONS_MAX: u32 = 8;

/// How often an open starts again because a file came and went meanwhile.
pub const OPENS_MAX: u32 = 16;
