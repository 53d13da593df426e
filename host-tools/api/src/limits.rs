//! Limits of the API, and what happens at each.

use std::time::Duration;

/// Longest JSON body of a request, bytes: arguments and environment of a job with room to spare. Longer: refused.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// Longest JSON answer the client reads, bytes; a listing asks for fewer rows to stay below.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Longest line that says the state of a cluster, bytes: it names all of its processes but machines, at worst an I/O
/// node for each node. The client gives up one that says more.
pub const STATE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Longest line with which a service node says how its start went, bytes; what says more is none.
pub const REPORT_BYTES_MAX: usize = 64 * 1024;

/// Longest piece of output or event in one stream frame, bytes. The sender splits; a receiver that sees a longer one
/// gives the stream up.
pub const STREAM_FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Least time from the beginning of a checkpoint that is made by itself to that of the next, ms.
pub const CHECKPOINT_INTERVAL_MS_MIN: u64 = 1000;

/// When the first is made, if how often they are is to be found out by what it costs, ms after all ranks run.
pub const CHECKPOINT_FIRST_MS: u64 = 60_000;

/// How long a node lasts on average, if nobody says, ms: 30 days.
pub const NODE_MTBF_MS_DEFAULT: u64 = 30 * 24 * 3_600_000;

/// Least and most that can be said, ms: a second, a hundred years.
pub const NODE_MTBF_MS_MIN: u64 = 1000;
/// See [`NODE_MTBF_MS_MIN`].
pub const NODE_MTBF_MS_MAX: u64 = 100 * 366 * 24 * 3_600_000;

/// Checkpoints of a job that stay when a new one was made by itself, if nobody says.
pub const CHECKPOINTS_KEPT_DEFAULT: u32 = 2;

/// Most that can be asked for.
pub const CHECKPOINTS_KEPT_MAX: u32 = 1000;

/// How often a job can be restarted by itself at most.
pub const RESTARTS_MAX: u32 = 1000;

/// Least and most often that ranks are sampled, times a second.
pub const SAMPLE_HZ_MIN: u32 = 1;
/// See [`SAMPLE_HZ_MIN`].
pub const SAMPLE_HZ_MAX: u32 = 1000;

/// Room that the log of a job's output may take on the disk if nobody says, bytes. Behind it the log is cut.
pub const OUTPUT_LOG_BYTES_DEFAULT: u64 = 64 << 20;

/// Least that can be asked for, bytes.
pub const OUTPUT_LOG_BYTES_MIN: u64 = 4096;

/// Room that the logs of all jobs of a cluster may take together, bytes. Those of jobs that ended first go first.
pub const OUTPUT_LOGS_BYTES_MAX: u64 = 4 << 30;

/// A log of its own may take as much as all.
pub const OUTPUT_LOG_BYTES_MAX: u64 = OUTPUT_LOGS_BYTES_MAX;

/// Logs of jobs' output that a cluster keeps. Those of jobs that ended first go first.
pub const OUTPUT_LOGS_MAX: usize = 1000;

/// How long an answer is waited for that needs nothing but the service node itself. A busy host may take seconds; one
/// that is silent for longer hangs or was stopped.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the answer to an order to forget programs is waited for. The service node itself waits less long for nodes.
pub const FORGET_ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest latency of one direction of a link, ns. More is refused.
pub const LINK_LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Bytes that are read of the record of which machine has a cluster. A longer one makes no sense.
pub const HOLDER_BYTES_MAX: u64 = 4096;

/// Longest name of a cluster, bytes.
pub const CLUSTER_NAME_BYTES_MAX: usize = 32;

/// Longest path of a Unix socket on Linux, bytes without the terminating zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Longest name of a socket below a cluster's runtime directory, bytes with the slash in front.
pub const SOCKET_NAME_BYTES_MAX: usize = 16;

/// Most nodes of a cluster: each and, at worst, an I/O node of its own need a port of the fabric. With as many ranks as
/// a node may have, a job has 2^20 at most.
pub const NODES_MAX: u32 = 16_384;

/// Nodes of a cluster if nobody says.
pub const NODES_DEFAULT: u32 = 4;

/// Most nodes of one pset.
pub const PSET_NODES_MAX: u32 = 256;

/// Nodes of a pset if nobody says.
pub const PSET_NODES_DEFAULT: u32 = 64;

/// Machines that boot at the same time, per processor of the host. More would only slow each other down.
pub const BOOTS_PER_PROCESSOR: usize = 2;

/// Machines that may boot at the same time on any host.
pub const BOOTS_MIN: usize = 4;

/// Connections of the API that are open at the same time. Further ones wait in the socket's backlog, and when that is
/// full the client says that the service node does not answer.
pub const API_CONNECTIONS_MAX: u32 = 4096;

/// Of these, those that the limit of open files must leave room for; a cluster does not come up without.
pub const API_CONNECTIONS_MIN: u32 = 256;

/// What nodes keep to.
pub use coppice_protocol::limits::{CORES_MAX, RANKS_PER_NODE_MAX};

/// Hexadecimal digits that a program's hash is known by at least; fewer are taken for a path.
pub const HASH_DIGITS_MIN: usize = 4;

/// Least memory of a node, bytes.
pub const NODE_MEMORY_BYTES_MIN: u64 = 32 << 20;

/// Most memory of a node, bytes: what lies below the PCI hole of the machine.
pub const NODE_MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Least length of a node's region, bytes.
pub use coppice_protocol::region::REGION_BYTES_MIN as NODE_REGION_BYTES_MIN;

/// Most, bytes: what a machine can have.
pub const NODE_REGION_BYTES_MAX: u64 = 64 << 30;

/// Length of a node's region if nobody says, in its memories: two checkpoints of all of it.
pub const NODE_REGION_MEMORIES_DEFAULT: u64 = 2;

/// Rows a listing gives if it is not asked for another number.
pub const LISTING_ROWS_DEFAULT: u32 = 100;

/// Rows a listing gives at most.
pub const LISTING_ROWS_MAX: u32 = 100_000;
