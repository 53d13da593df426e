//! Limits of the service node, and what happens at each.

use std::time::Duration;

use coppice_api::limits::{NODES_MAX, PSET_NODES_MAX, RANKS_PER_NODE_MAX};

/// Streams of ended jobs that wait for their readers. Beyond that the oldest are forgotten.
pub const UNCLAIMED_MAX: usize = 64;

/// Jobs that wait for nodes. A further one is refused at submission.
pub const JOBS_QUEUED_MAX: usize = 1000;

/// Orders to forget programs that wait for answers of nodes at the same time. A further one is refused.
pub const FORGETS_MAX: usize = 16;

/// How long an order to forget programs waits for answers of nodes; then it is answered with those that are silent.
pub const FORGET_TIME_MAX: Duration = Duration::from_secs(10);

/// Whoever ordered it still waits for that answer.
const _: () = assert!(FORGET_TIME_MAX.as_secs() < coppice_api::limits::FORGET_ANSWER_TIME_MAX.as_secs());

/// Orders about links that wait for the fabric at the same time. A further one is refused.
pub const LINK_ORDERS_MAX: usize = 64;

/// How long the fabric may take for an order about links; then whoever gave it is told so.
pub const LINK_TIME_MAX: Duration = Duration::from_secs(5);

/// Whoever gave it still waits for that.
const _: () = assert!(LINK_TIME_MAX.as_secs() < coppice_api::limits::ANSWER_TIME_MAX.as_secs());

/// The fabric makes links as ours may be.
const _: () = assert!(coppice_api::limits::LINK_LATENCY_NS_MAX == coppice_fabric::limits::LATENCY_NS_MAX);
/// Files on their way to nodes that are to keep them. A further one is refused.
pub const KEEPS_MAX: usize = 16;

/// Orders to forget that a node owes answers to. Of a node that owes more, the answers to the oldest are ignored.
pub const DISCARDS_OWED_MAX: usize = 64;

/// Arguments and environment of the ranks of a job on one node, bytes of its memory all together. Refused at
/// submission: a node is told of all of them at once.
pub const LAUNCH_BYTES_PER_NODE_MAX: usize = 2 * 1024 * 1024;

/// What each of these takes of a node's memory besides its bytes, with its place in a list that may be half full.
pub const LAUNCHED_TEXT_BYTES: usize = 48;

/// How long a submitted job waits for its stream to be opened; then it is killed.
pub const ATTACH_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a job that a rank wants may wait for nodes that are too few while others of its family run, which may be
/// about to end.
pub const JOIN_NODES_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the nodes of a job may take to know those of one that a rank of it wants; then it is not started. So long
/// at most one that is wanted waits for others, too.
pub const JOIN_TIME_MAX: Duration = Duration::from_secs(20);

/// Ranks that wait for others to be started; a further one is refused.
pub const WISHES_MAX: usize = 256;

/// The same of one job: it does not keep all others from that.
pub const WISHES_PER_JOB_MAX: usize = 128;

/// How long a job that I/O nodes were told of may go without any news of its launch – a rank that was launched, more of
/// a staged file – before all of its ranks run; then it is ended, and its reason names a node that does not launch.
pub const LAUNCH_TIME_MAX: Duration = Duration::from_secs(300);

/// The same of one that goes on from a checkpoint: nodes are given 900 s for that.
pub const RESTORE_TIME_MAX: Duration = Duration::from_secs(1200);

/// How long the ranks of a killed job may take to end; then their nodes count as lost and are rebooted.
pub const KILL_TIME_MAX: Duration = Duration::from_secs(15);

/// Longest `--timeout` of a job.
pub const JOB_TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long a node may take from the start of its machine until it is ready; then the machine is ended and the boot
/// counts as failed.
pub const BOOT_TIME_MAX: Duration = Duration::from_secs(60);

/// Failed boots of a node in a row after which it is given up: jobs do not wait for it any more.
pub const BOOT_ATTEMPTS_MAX: u32 = 4;

/// How long a node waits after its first failed boot; four times as long after each further one.
pub const BOOT_RETRY_TIME_MIN: Duration = Duration::from_millis(250);

/// How often a node that was given up is tried again while the cluster is up.
pub const BOOT_RETRY_TIME_GIVEN_UP: Duration = Duration::from_secs(60);

/// Failed starts of the fabric or an I/O node in a row after which the cluster is given up.
pub const HELPER_ATTEMPTS_MAX: u32 = 5;

/// How long the fabric or an I/O node may take to be listening; then it is ended and the start counts as failed.
pub const HELPER_START_TIME_MAX: Duration = Duration::from_secs(10);

/// How often the fabric and I/O nodes are asked whether they are alive.
pub const HELPER_ASK_INTERVAL: Duration = Duration::from_secs(5);

/// How long one of them may be silent then; after that it hangs, is killed and started anew. Long enough for a host
/// that is busy with other things.
pub const HELPER_ANSWER_TIME_MAX: Duration = Duration::from_secs(15);

/// How late the service node may be with what is due. If it is later, it did not run in between, as it was stopped or
/// its host was busy, and what others have said meanwhile may lie there unheard.
pub const LATE_TIME_MAX: Duration = Duration::from_millis(100);

/// How long it only hears then, before it does what is due.
pub const HEARING_TIME: Duration = Duration::from_secs(1);

/// How often in a row it does so: on a host that is always late, what is due is done in the end.
pub const HEARINGS_MAX: u32 = 5;

/// How long nodes, I/O nodes and fabric may take to end by themselves when the cluster goes down; then they are killed.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(3);

/// How long a service node that starts waits for the lock of one that does not answer any more; then it gives up.
pub const LOCK_TIME_MAX: Duration = Duration::from_secs(2);

/// How often it tries.
pub const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Messages that wait to be written to an I/O node. One that does not read that many counts as lost.
pub const PSET_MESSAGES_MAX: usize = 8192;

/// The fabric has a port for each node and, at worst, as many I/O nodes; and takes the paths that ours may have.
const _: () = assert!(2 * NODES_MAX as usize <= coppice_fabric::limits::LINKS_MAX);
const _: () = assert!(coppice_api::limits::SOCKET_PATH_BYTES_MAX == coppice_fabric::limits::SOCKET_PATH_BYTES_MAX);

/// Commands that wait to be written to the fabric. One that does not read that many counts as lost.
pub const FABRIC_COMMANDS_MAX: usize = 4096;

/// Longest line that the fabric says, bytes: what it counted on all links. One that says more is of no more use and
/// replaced.
pub const FABRIC_LINE_BYTES_MAX: usize = coppice_fabric::limits::LINKS_MAX * LINK_COUNT_BYTES_MAX;

/// What it says of one, bytes.
const LINK_COUNT_BYTES_MAX: usize = 2048;

/// Of the connections of the API, one in so many is kept back from jobs, for questions and orders that are answered
/// soon. When only these are left, further submissions are refused.
pub const CONNECTIONS_KEPT_ONE_IN: usize = 4;

/// Connections that a job has while it is under way: its output and its input.
pub const CONNECTIONS_PER_JOB: usize = 2;

/// Connections over which metrics are scraped by TCP at a time. Further ones wait in the socket's backlog.
pub const METRICS_CONNECTIONS_MAX: usize = 8;

/// For them and their socket the limit of open files has room.
const _: () = assert!(coppice_api::descriptors::SERVICE_NODE_METRICS as usize == METRICS_CONNECTIONS_MAX + 1);

/// How long such a connection may take from its beginning to its end; then it is broken off, whatever its peer does.
pub const METRICS_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest head of a request over such a connection, bytes. A longer one is refused.
pub const METRICS_HEAD_BYTES_MAX: usize = 8192;

/// Lines that such a head may have. One with more is refused.
pub const METRICS_HEAD_LINES_MAX: usize = 64;

/// Nodes that metrics are told of one by one. Those behind are left out, and counted.
pub const METRICS_NODES_MAX: usize = 1024;

/// Jobs under way that metrics are told of one by one. Those that came later are left out, and counted.
pub const METRICS_JOBS_MAX: usize = 256;

/// Helper processes that metrics are told of one by one. Those behind are left out, and counted.
pub const METRICS_HELPERS_MAX: usize = 256;

/// Longest label of a metric, characters as shown. What is behind is cut off, and that is seen.
pub const METRICS_LABEL_CHARACTERS_MAX: usize = 256;

/// Events that wait for the controller; their senders wait then.
pub const EVENTS_MAX: usize = 1024;

/// Pieces of output that wait between a job's feed and its HTTP connection.
pub const STREAM_PIECES_MAX: usize = 4;

/// Bytes of standard input in one message to an I/O node.
pub const INPUT_PIECE_BYTES_MAX: usize = 64 * 1024;

/// Bytes all stored programs may have together; the ones unused for longest go first, those of jobs under way never.
pub const STORE_BYTES_MAX: u64 = 4 << 30;

/// Programs that are stored at most; the ones unused for longest go first, those of jobs under way never.
pub const STORE_PROGRAMS_MAX: usize = 5000;

/// Programs of which something is recorded. Of those beyond it that are neither stored nor named by what is recorded of
/// a job or a node, the ones unused for longest are forgotten.
pub const PROGRAMS_KEPT_MAX: u64 = 10_000;

/// Longest program that is stored, bytes. A longer one is refused.
pub const STORED_PROGRAM_BYTES_MAX: u64 = 1 << 30;

/// What is stored can be launched.
const _: () = assert!(STORED_PROGRAM_BYTES_MAX <= coppice_protocol::limits::PROGRAM_BYTES_MAX);

/// Threads that look at files users name. As long as all wait for files that do not answer, further requests are
/// refused.
pub const HOST_FILE_THREADS_MAX: usize = 64;

/// Both the API and the controller have threads of their own, and read programs of their own: for these the limit of
/// open files has room.
const _: () = assert!(coppice_api::descriptors::SERVICE_NODE_THREADS as usize == 2 * HOST_FILE_THREADS_MAX);
const _: () = assert!(coppice_api::descriptors::SERVICE_NODE_IMPORTS as usize == 2 * IMPORTS_MAX);

/// For what the fabric records there is room, too.
const _: () = assert!(coppice_api::descriptors::FABRIC_RECORDINGS as usize == coppice_fabric::limits::RECORDINGS_MAX);

/// How long it may take to look at a file or directory that a user names.
pub const HOST_FILE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long it may take to read and hash a program.
pub const IMPORT_TIME_MAX: Duration = Duration::from_secs(600);

/// Bandwidth that transfers of staged files begin with on links of which nobody said how fast they are, bytes/s.
pub const LINK_BYTES_PER_SECOND_DEFAULT: u64 = 40_000_000;

/// What a frame takes from node to node at least besides its links, ns: the switch, and those who send and receive.
pub const HOP_NS: u64 = 50_000;

/// How long a node may stand still, as its machine does while the host runs others, ns.
pub const STALL_NS: u32 = 500_000_000;

/// Programs that are read and hashed at the same time; further submissions wait.
pub const IMPORTS_MAX: usize = 2;

/// Files whose hash is remembered; the ones unused for longest are forgotten, and hashed again when they come back.
pub const KNOWN_FILES_MAX: u64 = 10_000;

/// RAS events that are kept; the oldest go first.
pub const RAS_EVENTS_KEPT_MAX: u64 = 100_000;

/// Ended jobs that are kept; the oldest go first.
pub const ENDED_JOBS_KEPT_MAX: u64 = 100_000;

/// How long the database's lock is waited for; then records wait instead. The controller stands still meanwhile.
pub const LOCK_WAIT_MAX: Duration = Duration::from_millis(20);

/// How soon records that wait are tried again, at first.
pub const RECORDS_RETRY_TIME_MIN: Duration = Duration::from_millis(100);

/// How soon they are tried again at the latest.
pub const RECORDS_RETRY_TIME_MAX: Duration = Duration::from_secs(5);

/// Records that wait until the database can be written. Beyond it only jobs' histories are kept, which the jobs under
/// way bound; others are counted as lost.
pub const RECORDS_WAITING_MAX: usize = 10_000;

/// How long a cluster that comes up waits until its records can be written; then it is given up, with the reason.
pub const STARTING_RECORDS_TIME_MAX: Duration = Duration::from_secs(5);

/// Room on the disk that is taken beforehand for records that wait, bytes. Records beyond it wait in memory alone.
pub const RESERVE_BYTES: usize = 1 << 20;

/// New rows between two looks at the limits of the tables.
pub const ROWS_BETWEEN_TRIMS: u64 = 1000;

/// Bytes of a console's end that go into the RAS event of a lost node.
pub const CONSOLE_TAIL_BYTES: usize = 300;

/// Bytes of a console's end in which a panic of the kernel is looked for: its cause, registers and callers take less.
/// And of a helper's log in which the reason of its end is.
pub const LAST_WORDS_BYTES: u64 = 8192;

/// Size at which the service node's log is put aside at its start (one older log is kept), bytes.
pub const LOG_BYTES_MAX: u64 = 16 << 20;

/// Questions about ranks that wait for nodes; one who leads a job asks all of its nodes. A further one is refused.
pub const INSPECTIONS_MAX: usize = 32 + NODES_MAX as usize;

/// Checkpoints that are made at the same time; a job has one at a time. A further one is refused.
pub const CHECKPOINTS_MAX: usize = 4;

/// How soon it is asked how far the nodes are with keeping what they recorded, at first; then each time later.
pub const SAVING_ASK_INTERVAL_MIN: Duration = Duration::from_millis(5);

/// And how often at least.
pub const SAVING_ASK_INTERVAL_MAX: Duration = Duration::from_millis(50);

/// How long nodes may keep nothing more and not be done; then the checkpoint is given up.
pub const SAVING_SILENCE_MAX: Duration = Duration::from_secs(60);

/// The same of the ranks that stand while it is kept.
pub const COPYING_SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long the pulls of a pset's regions may come no further; then the checkpoint is given up.
pub const PULL_SILENCE_MAX: Duration = SAVING_SILENCE_MAX;

/// How long it is waited until a region is wiped. Then a checkpoint is begun without room, or it is said that a deleted
/// one still lies there.
pub const WIPE_TIME_MAX: Duration = Duration::from_secs(10);

/// Orders about regions that wait for I/O nodes. A further one is refused: room for all nodes that checkpoints are made
/// of at a time to be pulled from and wiped, and for one to be deleted.
pub const REGION_ORDERS_MAX: usize = (2 * CHECKPOINTS_MAX + 1) * NODES_MAX as usize;

/// How long it may take to read all of a checkpoint, or to look which objects of which there are.
pub const STORAGE_TIME_MAX: Duration = Duration::from_secs(3600);

/// How often a checkpoint is begun anew by itself when its nodes had not left the same barriers.
pub const CHECKPOINT_TRIES: u32 = 3;

/// How long a checkpoint that is made by itself waits for its turn when [`CHECKPOINTS_MAX`] others are being made; then
/// it counts as failed.
pub const CHECKPOINT_TURN_TIME_MAX: Duration = Duration::from_secs(60);

/// How often it tries.
pub const CHECKPOINT_TURN_INTERVAL: Duration = Duration::from_millis(100);

/// Least time from the beginning of a checkpoint to that of the next, if that is chosen by what they cost.
pub const CHECKPOINT_INTERVAL_CHOSEN_MIN: Duration = Duration::from_secs(10);

/// And most.
pub const CHECKPOINT_INTERVAL_CHOSEN_MAX: Duration = Duration::from_secs(24 * 3600);

/// Checkpoints of a job that its ranks ask for begin so long after one another at least: one that is asked for sooner
/// waits until then.
pub const ASKED_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// Checkpoints that are tried for a job that has lost a node, the newest first. If none of them can be used it stays
/// ended.
pub const RESTART_CHECKPOINTS_MAX: usize = 4;

/// How long it may take to have such a job go on, with all that is read for it; then it stays ended.
pub const RESTART_TIME_MAX: Duration = Duration::from_secs(600);

/// How much of that it waits at most for a checkpoint of the job that lies in regions to be drained; then it goes on
/// from an older one.
pub const RESTART_DRAIN_TIME_MAX: Duration = Duration::from_secs(300);
const _: () = assert!(RESTART_DRAIN_TIME_MAX.as_secs() < RESTART_TIME_MAX.as_secs());

/// An I/O node is told of all its ranks of a job at once. That message has room for what each of as many as there can
/// be is made from, for what it says of nodes, and for arguments and environment.
const _: () = assert!(
    (PSET_NODES_MAX * RANKS_PER_NODE_MAX) as usize * RESTORED_RANK_BYTES
        + (PSET_NODES_MAX + NODES_MAX) as usize * NODE_OF_JOB_BYTES
        + coppice_protocol::limits::ARGUMENT_BYTES_MAX
        <= coppice_protocol::pset::MESSAGE_BYTES_MAX
);

/// What such a message says of what a rank is made from, bytes.
const RESTORED_RANK_BYTES: usize = 32;

/// What it may say of a node of the job, wherever that is, bytes.
const NODE_OF_JOB_BYTES: usize = 16;

/// How long it is waited for a node's answer about a rank.
pub const INSPECT_TIME_MAX: Duration = Duration::from_secs(5);

/// How long it is waited for the disk to take some of a job's output. Then the job goes on, and nothing more of it is
/// kept.
pub const LOG_TIME_MAX: Duration = Duration::from_secs(30);

/// Readers that a job's output may have besides whoever runs it. A further one is refused.
pub const READERS_PER_JOB_MAX: usize = 16;

/// Longest record of a log of a job's output, bytes: what an I/O node may send in one message, and more than what is
/// put together of several.
pub const LOG_RECORD_BYTES_MAX: usize = coppice_protocol::pset::MESSAGE_BYTES_MAX;

/// Short pieces of a rank's output that wait to be written become one record of at most so many bytes.
pub const LOG_MERGED_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a log that are read at a time, about.
pub const LOG_READ_BYTES: usize = 128 * 1024;

/// Parts of a log that wait for the connection of whoever reads it, besides the one that is being sent.
pub const LOG_PARTS_MAX: usize = 1;

/// Threads that read logs of output; further readers wait.
pub const LOG_THREADS_MAX: usize = 8;

/// For them the limit of open files has room.
const _: () = assert!(coppice_api::descriptors::SERVICE_NODE_LOG_THREADS as usize == LOG_THREADS_MAX);

/// What is read of a log becomes frames of a stream.
const _: () = assert!(LOG_RECORD_BYTES_MAX <= coppice_api::limits::STREAM_FRAME_BYTES_MAX);

/// Messages of nodes to a job's overlay that make no sense and are told as events; all are counted.
pub const OVERLAY_LIES_TOLD_MAX: u64 = 16;

/// Epochs of overlays that wait to be recorded. A further one is not recorded, and counted.
pub const PROFILE_ORDERS_MAX: usize = 1024;

/// Epochs that are recorded in one transaction.
pub const PROFILE_TOGETHER_MAX: usize = 128;

/// Epochs that are kept of a job. Beyond, every second one of the older half goes.
pub const PROFILE_EPOCHS_MAX: i64 = 7200;

/// Different stacks that are kept of a start of a job's overlay. Of further ones it is counted what was innermost.
pub const PROFILE_STACKS_MAX: u64 = 4096;

/// Different addresses that are innermost in those further ones. The others are counted together.
pub const PROFILE_INNERMOST_MAX: u64 = 1024;

/// Deepest stack that is kept, addresses. Of a deeper one the outer ones are left out.
pub const PROFILE_FRAMES_MAX: usize = 256;

/// Different stacks that are told of a job. Those that were seen least often are counted together.
pub const PROFILE_STACKS_TOLD_MAX: usize = 16_384;

/// How long it is kept what overlays have gathered.
pub const PROFILE_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long it is waited for a lock of the database of profiles.
pub const PROFILE_LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long whoever asks for what overlays have gathered waits for what is still to be written.
pub const PROFILE_WRITE_TIME_MAX: Duration = Duration::from_secs(2);

/// Bars of a histogram of what ranks did in an epoch.
pub const OVERLAY_BARS_MAX: usize = 16;

/// Epochs of an overlay after each of which it is looked whether they come in time.
pub const OVERLAY_PACE_EPOCHS: u32 = 16;
