//! Every limit of the kernel's own machinery, in one place, with what happens at it. Those of the protocols are in
//! [`coppice_protocol::limits`].

use coppice_protocol::limits::{OVERLAY_TALLIED_MAX, RANKS_PER_NODE_MAX};
use coppice_protocol::overlay::Values;

/// Threads of a rank. Beyond, `EAGAIN`.
pub const THREADS_MAX: usize = 512;

/// Ids that a rank's threads take in turn: more than there are threads, so that one that ended is not soon taken for
/// another.
pub const THREAD_IDS: u32 = 4 * THREADS_MAX as u32;

/// Tasks alive on one core: programs' threads, and the kernel's own. Beyond, [`crate::executor::spawn`] refuses.
pub const TASKS_MAX: usize = 2048;

/// How long a program may have the core while another wants it, ns.
pub const TURN_NS: u64 = 5_000_000;

/// What programs have of core 0 at least, ns, before the network goes on that had more to do than it may do at once
/// ([`coppice_endpoint::limits::FRAMES_PER_POLL_MAX`]). They have as long as the network had, if that was longer.
pub const PROGRAMS_BETWEEN_FRAMES_NS: u64 = 250_000;

/// Signals that a process has pending with what they say. Beyond, sigqueue(3) and its like fail with `EAGAIN`, and
/// other signals are pending without what they say.
pub const SIGNALS_QUEUED_MAX: usize = 1024;

/// Locks of files that a process has. Beyond, `ENOLCK`.
pub const LOCKS_MAX: usize = 4096;

/// What a lock of a file is charged with, bytes.
pub const LOCK_BYTES: usize = 128;

/// Locks of files that are among what a process is charged with.
pub const LOCKS_FREE: usize = 8;

/// Files of the I/O node of which a job's ranks on a node know something; of those that are closed, the one that was
/// closed first is forgotten. So many more may be known as are open.
pub const FILES_KNOWN_MAX: usize = 512;

/// Files that jobs have read and of which the node keeps pages for jobs that come; of more, what was used longest ago
/// is given back.
pub const FILES_LEFT_MAX: usize = 4096;

/// Bytes of a file, and of all files of a job's ranks on a node, that were written and are not at the I/O node yet; who
/// writes more waits, and if that does not help has it written at once.
pub const UNWRITTEN_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// See [`UNWRITTEN_BYTES_MAX`].
pub const JOB_UNWRITTEN_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How long a call waits for what other calls have written to other files, ns, and a rank that was killed for what it
/// wrote: a disk may not answer.
pub const SETTLE_NS_MAX: u64 = 5_000_000_000;

/// What a job's ranks on a node keep of what they were told of names and attributes, entries; who is told more forgets
/// the others.
pub const NAMES_KEPT_MAX: usize = 8192;

/// Programs of which a node keeps what they look up, for jobs that come; of more, what was told longest ago goes.
pub const MANIFESTS_LEFT_MAX: usize = 4;

/// How long after a job began what its program is going to look up is asked for again when it is too old, ns: later it
/// looks up other names.
pub const MANIFEST_TIME_NS: u64 = 60_000_000_000;

/// Longest path of which anything is kept, bytes: most are far shorter, and all together are to be bounded.
pub const KEPT_PATH_BYTES_MAX: usize = 512;

/// How long bytes that were written wait for more, ns; then they are written back.
pub const WRITE_BACK_NS: u64 = 250_000_000;

/// The same of what mappings of files have written, ns.
pub const MAPPED_WRITE_BACK_NS: u64 = 1_000_000_000;

/// Timers of timer_create(2) that a process has. Beyond, `EAGAIN`.
pub const TIMERS_MAX: usize = 64;

/// Timers of processor time are looked at no more often than this, ns.
pub const PROCESSOR_TIMER_NS_MIN: u64 = 1_000_000;

/// Cores a node may have.
pub use coppice_hal::CORES_MAX;

/// What users are told is what the kernel has room for.
const _: () = assert!(CORES_MAX == coppice_protocol::limits::CORES_MAX as usize);

/// How often pages of a mapped file are read because the file was written meanwhile; then they are taken as they are.
pub const READ_AGAIN_MAX: u32 = 8;

/// Receive and transmit buffer of the function-shipping connection, bytes each.
pub const SHIP_BUFFER_BYTES: usize = 256 * 1024;

/// Receive and transmit buffer of the control connection, bytes each.
pub const CONTROL_BUFFER_BYTES: usize = 32 * 1024;

/// Bytes that the function-shipping session may have queued before further calls wait for some to leave. Less than the
/// protocol's own limit: a node's memory is small.
pub const QUEUED_BYTES_MAX: usize = 192 * 1024;

/// How long a shipped call waits for the connection to the I/O node to come (back), ns; then `EIO`.
pub const SHIP_CONNECT_WAIT_NS: u64 = 5_000_000_000;

/// How long a connection to the I/O node may take to be made and to be greeted, ns.
pub const CONNECT_TIMEOUT_NS: u64 = 5_000_000_000;

/// A control connection that was silent for this long (heartbeats come far more often) is probed, ns: an I/O node that
/// was restarted answers with a reset.
pub const KEEP_ALIVE_NS: u64 = 5_000_000_000;

/// First pause before another attempt to connect, ns. It doubles at each failure …
pub const RECONNECT_PAUSE_NS: u64 = 20_000_000;

/// … up to this, ns.
pub const RECONNECT_PAUSE_NS_MAX: u64 = 1_000_000_000;

/// Launches and ends that wait to be sent over the control connection, and as many that were sent and may still be lost
/// with it; the oldest are forgotten. Enough for all ranks of a job, each launched, ended and asked about again.
pub const CONTROL_QUEUE_MAX: usize = 4 * RANKS_PER_NODE_MAX as usize;

/// Reports of ended processes that the agent keeps to answer repeated orders with; the oldest go first. Enough for all
/// ranks of a job, and for a few jobs of one rank before it.
pub const REPORTS_KEPT_MAX: usize = RANKS_PER_NODE_MAX as usize + JOBS_KEPT_MAX;

/// Jobs whose reports are kept; those of the oldest go first.
pub const JOBS_KEPT_MAX: usize = 8;

/// Answers to orders to retain that the agent keeps for orders that come twice; the oldest go first, and a repeated
/// order is then carried out again, which changes nothing.
pub const RETAIN_ANSWERS_KEPT_MAX: usize = 8;

/// Answers to orders to keep files that the agent keeps for orders that come twice; the oldest go first. A repeated
/// order then finds the file there, or has it come once more.
pub const KEEP_ANSWERS_KEPT_MAX: usize = 16;

/// How long the replies to an ended process's calls may take, ns; then the connection is broken off. As long, the
/// network card may take to be done with its frames; then they are lost.
pub const SCRUB_WAIT_NS_MAX: u64 = 1_000_000_000;

/// How often it is looked whether they have come, ns.
pub const SCRUB_PAUSE_NS: u64 = 50_000;

/// Pages that the heap gives back at once. Each is looked for among the free blocks, unmapped and zeroed.
pub const SHRINK_PAGES: usize = 32;

/// How long an ended process's connections may take to tell their peers what it sent, ns; then they are broken off, and
/// the process's report says so. Only a peer that lives and does not read takes as long: one that has ended refuses.
pub const DELIVER_NS_MAX: u64 = 30_000_000_000;

/// When an event says that they take long, ns.
pub const DELIVER_SAID_NS: u64 = 1_000_000_000;

/// Longest pause between looks whether they have, ns.
pub const DELIVER_PAUSE_NS_MAX: u64 = 10_000_000;

/// The line in a process's report that says why it ended, bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 512;

/// Queues of a job's threads on a node that sleep at words of memory, a power of two. They have room for all.
pub const FUTEX_QUEUES: usize = 256;

/// Entries of a thread's robust list that are looked at when it ends, as on Linux. Those behind are left alone.
pub const ROBUST_ENTRIES_MAX: usize = 2048;

/// Wakers that wait for one open file: all threads of a process, and as many epolls. Beyond, the one that has waited
/// longest is woken, and may register again.
pub const WATCHERS_MAX: usize = 2 * THREADS_MAX;

/// Wakers for which each open file has memory. That for more is charged, and if there is none, waiting fails with
/// `ENOMEM`.
pub const WATCHERS_FREE: usize = 4;

/// How often epoll looks at a file that it could not be registered with for want of memory, ns.
pub const WATCH_AGAIN_NS: u64 = 1_000_000;

/// What programs make the kernel keep (threads, pipes, counters, what epoll watches, areas, what waiting calls hold)
/// may take so many parts in sixteen of the kernel's heap. Beyond, `ENOMEM`, `EAGAIN` for threads and signals, or no
/// larger buffers. With the sockets' buffers it may take what the heap promises at most.
pub const QUOTA_SIXTEENTHS: usize = 11;

/// What a process is charged with is taken from the heap in steps of so many bytes.
pub const QUOTA_STEP_BYTES: usize = 16 * 1024;

/// The same where the heap has no limit, bytes.
pub const QUOTA_BYTES_DEFAULT: usize = 16 * 1024 * 1024;

/// Questions about ranks that a node answers at once. A further one is answered with that.
pub const INSPECTIONS_MAX: usize = 8;

/// How long the answer to one may take, ns: until threads are held, or pages have come. Less than it is waited for.
pub const INSPECT_NS_MAX: u64 = 3_000_000_000;

/// How long it is waited until all threads of a process are held, ns: what the I/O node does for them comes first.
pub const HOLD_NS_MAX: u64 = 5_000_000_000;

/// How long it is waited for what is on its way and nobody acknowledges, when a job is cut, ns.
pub const CUT_MOMENT_NS: u64 = 2_000_000;

/// What a thread is charged with beside its future, its vector registers and its state, bytes: places in queues and
/// tables, each of which may grow to twice of what it holds, and a small part of a transfer that is under way
/// ([`PART_CALL_BYTES`] with its bytes).
pub const THREAD_EXTRA_BYTES: usize = 2048;

/// What a part of a transfer is charged with beside its bytes, bytes: its call to the I/O node, and who waits for that.
pub const PART_CALL_BYTES: usize = 1600;

/// What a call for pages of the program takes while it waits, bytes: charged with the pages.
pub const PAGES_CALL_BYTES: usize = 2048;

/// What a process is charged with before there is anything of it, bytes: itself, the first of what is charged as it
/// grows, and a page that is read when nothing more can be charged.
pub const PROCESS_BYTES: usize = 30 * 1024;

/// What a process is charged with for each of its cores, bytes: the counts of its calls there.
pub const PROCESS_CORE_BYTES: usize = 8 * 1024;

/// What a signal that is pending with what it says is charged with, bytes: at worst a thread's first one.
pub const SIGNAL_BYTES: usize = 640;

/// Signals that a process may have pending with what they say without being charged for them.
pub const SIGNALS_FREE: usize = 8;

/// What an area of a process's memory is charged with, bytes: its place in a node that is half full, and shared memory
/// that nothing else stands for.
pub const AREA_BYTES: usize = 384;

/// What a timer is charged with, with its signal, bytes.
pub const TIMER_BYTES: usize = 512 + SIGNAL_BYTES;

/// Areas that are not charged.
pub const AREAS_FREE: usize = 32;

/// What a number for descriptors is charged with, bytes: its place in tables that may grow to twice of what they hold.
pub const DESCRIPTOR_BYTES: usize = 48;

/// Numbers for descriptors that are not charged: PMI's is among them.
pub const DESCRIPTORS_FREE: usize = 256;

/// What a socket is charged with apart from its open file and its buffers, bytes: itself, its port, and its place among
/// those that listen or take datagrams, in a node that is half full.
pub const SOCKET_BYTES: usize = 960;

/// What an alarm is charged with, bytes: its place in a node that is half full.
pub const ALARM_BYTES: usize = 128;

/// What a place in an epoll is charged with apart from the interest itself, bytes: in the table, in a node that is half
/// full, and in the queue.
pub const INTEREST_PLACE_BYTES: usize = 192;

/// What an epoll is charged with for its first place beyond that, bytes: a node of the table for it alone.
pub const POLLER_NODE_BYTES: usize = 768;

/// What a name in `/dev/shm` is charged with apart from its bytes: its place in a node that is half full.
pub const NAME_PLACE_BYTES: usize = 256;

/// What a pipe holds at most unless a program says otherwise, bytes, as on Linux: then writers wait.
pub const PIPE_BYTES_MAX: usize = 64 * 1024;

/// Packets that a pipe holds at most that keeps apart what was written apart, as on Linux: then writers wait.
pub const PIPE_PACKETS_MAX: usize = 16;

/// The most that a program can have a pipe hold (`F_SETPIPE_SZ`), bytes, as on Linux: `EPERM`.
pub const PIPE_BYTES_LIMIT: usize = 1024 * 1024;

/// What each direction of a socketpair(2) holds at most, bytes, as on Linux: then writers wait.
pub const PAIR_BYTES_MAX: usize = 212_992;

/// Answers that wait to be read from a netlink socket, bytes. Beyond, requests are answered with `ENOBUFS`.
pub const NETLINK_BYTES_MAX: usize = 32 * 1024;

/// The longest request to a netlink socket, bytes: `EMSGSIZE`.
pub const NETLINK_REQUEST_BYTES_MAX: usize = 4096;

/// What an answer of a netlink socket takes while it is made, bytes, beside the request that errors say again.
pub const NETLINK_ANSWER_BYTES: usize = 1024;

/// What a pipe or a direction of a socketpair(2) holds at first, and all it ever holds if there is no memory for more,
/// bytes. Also the longest write to a pipe that comes out in one piece (`PIPE_BUF`).
pub const CHANNEL_BYTES_MIN: usize = 4096;

/// Messages that a direction of a socketpair(2) holds at most: then writers wait.
pub const CHANNEL_MESSAGES_MAX: usize = 64;

/// What programs' connections may take of the kernel's heap: so many parts in eight, enough for a thousand in the
/// memory that nodes have by default. Beyond, `ENOBUFS`.
pub const SOCKETS_EIGHTHS: usize = 5;

/// A peer that a program wants to be asked for signs of life (`SO_KEEPALIVE`) is asked at least this often, ns: well
/// within the time after which one that says nothing is given up.
pub const SOCKET_KEEP_ALIVE_NS_MAX: u64 = 5_000_000_000;

/// Files that one epoll(7) watches. Beyond, `ENOSPC`.
pub const INTERESTS_MAX: usize = 4096;

/// Other epolls among them, and epolls that watch one. Beyond, `ENOSPC`.
pub const NESTED_MAX: usize = 64;

/// Epolls one above the other, each watched by the next, beside the lowest: as on Linux. Beyond, `ELOOP`.
pub const NESTED_DEPTH_MAX: usize = 4;

/// Names in a job's `/dev/shm` on a node. Beyond, `ENOSPC`.
pub const SHARED_FILES_MAX: usize = 1024;

/// What the files in a job's `/dev/shm` may take of the node's memory: one part in so many, as on Linux. Beyond,
/// `ENOSPC`, and `SIGBUS` for touching a page of a mapped one.
pub const SHARED_MEMORY_SHARE: u32 = 2;

/// Receive and transmit buffer of a connection between nodes about barriers, bytes each. A longer frame goes in parts.
pub const PMI_CONNECTION_BUFFER_BYTES: usize = 16 * 1024;

/// What a job's PMI is charged with on a node, bytes, and how much more at a time when ranks put much. If there is no
/// memory for more, the job ends with a reason.
pub const PMI_CHARGE_BYTES: usize = 64 * 1024;

/// Connections that other nodes made and that wait to be accepted; further ones are refused, and tried again.
pub const PMI_BACKLOG_MAX: usize = 64;

/// Connections that other nodes made, about barriers. A node is called by at most twice as many as the size of a job
/// has binary digits. Further ones are broken off, and tried again.
pub const PMI_CALLERS_MAX: usize = 64;

/// What of that is charged ahead for names that ranks publish, bytes: more than one line or letter can bring. Without
/// it publishing is refused.
pub const PMI_NAMES_AHEAD_BYTES: usize = PMI_CHARGE_BYTES / 4;

/// Connections of this node's programs to PMI_PORT, one for each rank. Further ones are closed.
pub const PMI_LOCAL_CALLERS_MAX: usize = RANKS_PER_NODE_MAX as usize;

/// How long a connection of another node may be without a frame, or with one for a job that this node does not know,
/// ns; then it is closed. The launches of a job may be that far apart without anything having to be sent again.
pub const PMI_STRANGER_NS_MAX: u64 = 10_000_000_000;

/// How long a frame of another node may take to come once it has begun, ns; then the connection is closed, and what is
/// needed is said again on another. A length that was changed on its way is found out by that, in half the time that a
/// node may be silent.
pub const PMI_FRAME_NS_MAX: u64 = coppice_protocol::limits::PMI_SILENCE_NS / 2;

/// Datagrams of transfers of staged files that wait on a node, bytes with their overhead: those that came, and as many
/// that are to go. What comes beyond is lost, and asked for again.
pub const STAGING_QUEUE_BYTES: usize = 256 * 1024;

/// What transfers of staged files are charged with while there are any, bytes: both queues, and what is known of
/// transfers. Without memory for that the job is not started.
pub const STAGING_CHARGE_BYTES: usize = 3 * STAGING_QUEUE_BYTES;

/// Datagrams of transfers that are looked at before others have a turn.
pub const STAGING_DATAGRAMS_MAX: usize = 16;

/// How long the end of a rank waits, ns, until home says that all nodes have the job's staged files or are given up;
/// home decides that, and whoever does not hear of home asks for some seconds only. Then they are without this node.
pub const STAGING_SETTLE_NS_MAX: u64 = 120_000_000_000;

/// Who reads a file that is broadcast waits for bytes so far behind the first that is missing, rather than to ask the
/// I/O node for them.
pub const BROADCAST_AHEAD_BYTES: u32 = 2 * 1024 * 1024;

/// How long it waits if none come, at least, ns.
pub const BROADCAST_PATIENCE_NS: u64 = 2_000_000_000;

/// Broadcasts of a job that the node takes part in at a time; in more it has no part.
pub const BROADCASTS_AT_ONCE_MAX: usize = 8;

/// The node takes part in a broadcast if one of so many of its frames stays free.
pub const BROADCAST_SPARE_SHARE: u64 = 8;

/// Objects of a checkpoint that a rank's node writes or reads at once. Each is in memory meanwhile.
pub const CHECKPOINT_CALLS: usize = 2;

/// The longest record of a part of a checkpoint that is read, bytes: all but pages.
pub const CHECKPOINT_RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long the ranks of a node that are made from a checkpoint wait for those of other nodes, ns; then they go on with
/// what could be made.
pub const RESTORE_NS_MAX: u64 = 900_000_000_000;

/// How long the region's engine may take for something, ns. The service node gives up a checkpoint of which so long
/// nothing more is kept somewhat later.
pub const REGION_SILENCE_NS: u64 = 20_000_000_000;

/// How often a header of the region is looked at that says nothing: the I/O node may be writing it. Then it is taken
/// for one that was torn when the node went.
pub const REGION_LOOKS: u32 = 10;

/// How long that is waited for each time, ns.
pub const REGION_LOOK_NS: u64 = 10_000_000;

/// Process id of rank 0, and the highest that there is, as on Linux. Those of the ranks of a job differ, so that names
/// made from them do.
pub const PROCESS_IDS: (u32, u32) = (1000, 4_194_303);

/// What a job's overlay on a node is charged with, bytes: its processes, parts that wait, and connections.
pub const OVERLAY_NODE_BYTES: usize = 256 * 1024;

/// What it is charged with for each rank that the node may have of the job, bytes: what it has done, to which nodes it
/// has sent, and what it has called: of [`OVERLAY_TALLIED_MAX`] of both twice.
pub const OVERLAY_RANK_BYTES: usize = 8 * 1024;
const _: () = assert!(4 * OVERLAY_TALLIED_MAX * 24 + 4 * size_of::<Values>() <= OVERLAY_RANK_BYTES);

/// What it is charged with besides for stacks, if ranks are sampled, bytes: for those of its ranks, and for those that
/// each of its processes brings together.
pub const OVERLAY_STACKS_BYTES: usize = 256 * 1024;

/// Frames that wait to be said to a node. Further ones push out the oldest, which count as lost.
pub const OVERLAY_LINE_FRAMES_MAX: usize = 16;

/// Bytes of these together, if they are more than one.
pub const OVERLAY_LINE_BYTES_MAX: usize = 64 * 1024;

/// Receive and transmit buffer of a connection between nodes for an overlay, bytes each.
pub const OVERLAY_BUFFER_BYTES: usize = 8 * 1024;

/// How long a frame may take to get into the buffer of a connection, ns; then it is broken off, with what waits for it.
pub const OVERLAY_WRITE_NS_MAX: u64 = 5_000_000_000;

/// Connections that wait to be accepted; a further one is refused.
pub const OVERLAY_BACKLOG_MAX: usize = 16;

/// How long a connection may be there without having said for which job it is, ns.
pub const OVERLAY_STRANGER_NS_MAX: u64 = 5_000_000_000;
