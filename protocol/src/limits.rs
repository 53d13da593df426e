//! Every limit of the protocols, in one place, with what happens at it.

/// Longest message body (the postcard part), bytes. A longer one is not sent (`E2BIG` to the program, an error to the
/// user); a peer that announces one is disconnected.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// Most raw bytes behind one message. Longer reads and writes are split by the node. Announcing more: disconnected.
pub const BULK_BYTES_MAX: usize = 128 * 1024;

/// Longest path a program may pass, bytes with the terminating zero, as in Linux: `ENAMETOOLONG`.
pub const PATH_BYTES_MAX: usize = 4096;

/// Longest path that an I/O node is asked about, bytes: a working directory, and a path from there. `ENAMETOOLONG`.
pub const SHIPPED_PATH_BYTES_MAX: usize = 2 * PATH_BYTES_MAX;

/// Longest single path component, bytes: `ENAMETOOLONG`.
pub const NAME_BYTES_MAX: usize = 255;

/// Arguments and environment of a job together, with a pointer to each, bytes. Refused at submission.
pub const ARGUMENT_BYTES_MAX: usize = 128 * 1024;

/// Program pages asked for in one request.
pub const PAGES_PER_REQUEST_MAX: u16 = 32;

/// Nodes of a program's hash tree that come with pages. More than the longest program needs; with more, the pages are
/// refused (`EIO`).
pub const TREE_NODES_PER_REPLY_MAX: usize = 40;

/// Programs whose page tables a node retains; beyond, the one that ran longest ago goes.
pub const RETAINED_PROGRAMS_MAX: usize = 8;

/// Files that a node keeps without a job; beyond, the one that was used longest ago goes.
pub const KEPT_FILES_MAX: usize = 8;

/// Transfers of files to be kept that a node takes part in at once; a further one is refused.
pub const KEEPS_PER_NODE_MAX: usize = 4;

/// Requests a node may have under way on its shipping connection; further ones wait in the node.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 16;

/// As many more for what others wait for: what it has not written of a file, leases that it gives back.
pub const REQUESTS_OWED_MAX: usize = 4;

/// Of the [`REQUESTS_IN_FLIGHT_MAX`], requests of one rank if the node has several; further ones wait in the node.
pub const REQUESTS_PER_RANK_MAX: usize = 12;

/// Open handles of one rank at the I/O node: `EMFILE`.
pub const HANDLES_PER_RANK_MAX: usize = 1024;

/// Of these, those that a rank always gets; what it opens beyond them is the job's share of what the I/O node can have
/// open, and `ENFILE` when that is used up.
pub const HANDLES_PER_RANK_KEPT: usize = 16;

/// Output bytes of a job that the I/O node may have sent and the user not yet taken; then writers wait, in the order in
/// which they came.
pub const OUTPUT_WINDOW_BYTES: usize = 1024 * 1024;

/// Input bytes buffered for a job at the I/O node; then the sender waits.
pub const INPUT_WINDOW_BYTES: usize = 256 * 1024;

/// Bytes of text in a RAS event; longer ones are cut.
pub const RAS_TEXT_BYTES_MAX: usize = 512;

/// RAS events a node keeps while it cannot send them; the oldest go first, and the number lost is reported.
pub const RAS_QUEUE_MAX: usize = 64;

/// Distinct system-call numbers counted per rank; the rest are counted together under number −1.
pub const SYSCALL_NUMBERS_MAX: usize = 512;

/// TCP port of the I/O node's control service.
pub const CONTROL_PORT: u16 = 7001;

/// TCP port of the I/O node's function-shipping service.
pub const SHIP_PORT: u16 = 7002;

/// How often the I/O node asks each node whether it is alive, ns.
pub const HEARTBEAT_INTERVAL_NS: u64 = 2_000_000_000;

/// A node that answered nothing for this long is dead to its pset, ns. For as long the rest of a frame may not come:
/// then the connection is broken off.
pub const HEARTBEAT_DEAD_NS: u64 = 12_000_000_000;

/// What comes of a frame between two looks at least, bytes, if its rest does come: less is what somebody says now and
/// then on a connection on which the lengths of a frame were changed.
pub const FRAME_REST_BYTES_MIN: usize = 4096;

/// A connection whose handshake is not done after this is closed, ns.
pub const HANDSHAKE_TIMEOUT_NS: u64 = 5_000_000_000;

/// Longest body of a handshake frame, bytes. Announcing more: disconnected.
pub const HANDSHAKE_BODY_BYTES_MAX: usize = 64;

/// Bytes queued in a session above which whoever sends waits until some have left.
pub const SEND_QUEUE_BYTES: usize = 512 * 1024;

/// Bytes queued in a session above which it takes no further message (`SendError::Full`).
pub const SEND_QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Nodes that a cluster could have, by the addresses there are for them (`10.64.0.1` to `10.127.255.254`).
pub const NODE_ADDRESSES_MAX: u32 = 0x003f_fffe;

/// Psets that a cluster could have, by the addresses there are for them (`10.0.0.1` to `10.63.255.255`).
pub const PSET_ADDRESSES_MAX: u32 = 0x003f_ffff;

/// Smallest MTU of a node's link, bytes: the least that every IPv4 host takes.
pub const MTU_BYTES_MIN: u16 = 576;

/// Longest program file that nodes can be told of, bytes. Refused at submission; so are shorter ones that are too long
/// for the store.
pub const PROGRAM_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Loadable segments of a program. Refused at submission.
pub const PROGRAM_SEGMENTS_MAX: usize = 16;

/// TCP port of each node where the other nodes of its jobs call about barriers.
pub const PMI_PEER_PORT: u16 = 7003;

/// TCP port of each node where its own ranks reach PMI if they do not use the descriptor that they inherit.
pub const PMI_PORT: u16 = 7004;

/// TCP port of each node where its own ranks reach PMIx.
pub const PMIX_PORT: u16 = 7006;

/// Cores of a node. More are refused when the cluster comes up, and left out by a node that has more.
pub const CORES_MAX: u32 = 64;

/// Ranks of a job on one node. More are refused at submission.
pub const RANKS_PER_NODE_MAX: u32 = 64;

/// Ranges of ranks in a message. What is said of more is said in several.
pub const RANK_RANGES_MAX: usize = 1024;

/// Ends of ranks that are told in one message, bytes: more are told in several.
pub const ENDS_BYTES_MAX: usize = 48 * 1024;

/// Launches and ends of ranks are told at once when no other of the node is about to be, and else so much later, ns:
/// what comes meanwhile is told with them.
pub const TOLD_TOGETHER_NS: u64 = 2_000_000;

/// Longest name of a key-value space of PMI, bytes: a longer one is no job's. Also of a name that is published, which
/// is refused (`rc=-1`).
pub const PMI_NAME_BYTES_MAX: usize = 256;

/// Longest key, bytes: the put is refused (`rc=-1`).
pub const PMI_KEY_BYTES_MAX: usize = 64;

/// Longest value, bytes: the put is refused (`rc=-1`).
pub const PMI_VALUE_BYTES_MAX: usize = 1024;

/// Longest value of `PMI_process_mapping`, bytes: MPICH has room for 674. A longer one is not said.
pub const PMI_MAPPING_BYTES_MAX: usize = 512;

/// Longest line of a rank, bytes: dropped and answered with `rc=-1`.
pub const PMI_LINE_BYTES_MAX: usize = 2048;

/// Longest message of PMI version 2, bytes: of a longer one the beginning is kept, and it is answered with `rc=-1`.
pub const PMI_LONG_MESSAGE_BYTES_MAX: usize = 4096;

/// Longest mark of a command of PMI version 2, bytes: those of MPICH are addresses. With a longer one it is answered
/// with `rc=-1`, unmarked.
pub const PMI_MARK_BYTES_MAX: usize = 32;

/// Threads of a rank that wait for attributes of their node at once; a further one is answered with `rc=-1`.
pub const PMI_WAITS_MAX: usize = 64;

/// Attributes of a node for a job (PMI version 2): a put beyond is refused (`rc=-1`).
pub const PMI_ATTRIBUTES_MAX: usize = 1024;

/// Names that ranks of a job publish and one of its nodes keeps: publishing one beyond is refused (`rc=-1`). Which node
/// keeps a name follows from it.
pub const PMI_NAMES_MAX: usize = 256;

/// Longest port that is published under a name, bytes: MPICH has room for 256. Longer ones are refused (`rc=-1`).
pub const PMI_PORT_NAME_BYTES_MAX: usize = 512;

/// What a rank may want with names at once, before it has its answers; a further one is answered with `rc=-1`.
pub const PMI_ASKS_MAX: usize = 16;

/// Longest letter about a name or a key between nodes, bytes: with a name and a port, or a key and its value.
/// Announcing more: disconnected.
pub const PMI_LETTER_BYTES_MAX: usize = 1280;

/// Bytes of letters about names that wait to be sent, of a node about a job; further ones are lost, as if on the way.
pub const PMI_LETTERS_BYTES_MAX: usize = 256 * 1024;

/// What the texts of a rank's wish for more ranks may take, bytes: arguments, and keys for those ranks. With more it is
/// refused.
pub const SPAWN_TEXTS_BYTES_MAX: usize = 64 * 1024;

/// What each of these texts takes beside its bytes, about, bytes.
pub const SPAWN_TEXT_BYTES: usize = 32;

/// Ranges in which nodes may have come to the network of a job's family, one after the other; beyond, ranks that would
/// bring more are refused.
pub const FAMILY_RANGES_MAX: usize = 1024;

/// Bytes of answers that a rank may leave unread; beyond, what it says is not read either.
pub const PMI_ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Longest message of an `abort`, bytes; longer ones are cut.
pub const PMI_MESSAGE_BYTES_MAX: usize = 256;

/// Keys of a job, shared out evenly to its nodes: a put beyond is refused (`rc=-1`).
pub const PMI_KEYS_PER_JOB_MAX: usize = 8192;

/// Bytes of a job's keys and values, shared out evenly to its nodes: a put beyond is refused (`rc=-1`).
pub const PMI_BYTES_PER_JOB_MAX: usize = 1024 * 1024;

/// Ranks of a job of which barriers bring all what all have put; in a larger one whoever wants a key asks for it,
/// unless it was wanted otherwise.
pub const PMI_FULL_MODEX_RANKS_MAX: u32 = 4096;

/// Keys that a node keeps for its job when barriers do not bring them: a put beyond is refused (`rc=-1`).
pub const PMI_KEYS_PER_HOME_MAX: usize = 8192;

/// The same, bytes of keys and values.
pub const PMI_BYTES_PER_HOME_MAX: usize = 1024 * 1024;

/// Longest body of a frame between nodes, bytes; more is split. Announcing more: disconnected.
pub const PMI_FRAME_BODY_BYTES_MAX: usize = 16 * 1024;

/// Patterns that keys and values in such a body may have. Whoever writes one says no more; with more: disconnected.
pub const PMI_PATTERNS_MAX: usize = 64;

/// Numbers in such a pattern. What has more has none; with more: disconnected.
pub const PMI_PATTERN_NUMBERS_MAX: usize = 16;

/// Rows of keys that are alike in such a body, and rows of values: of each the last one is kept. A further one takes
/// the place of the one that was used the longest ago.
pub const PMI_ROWS_MAX: usize = 8;

/// Places in which two of a row may differ. Whoever writes a body has the last one reach as far as it must; with more:
/// disconnected.
pub const PMI_HOLES_MAX: usize = 32;

/// Frames that one step of a barrier may be split into. More than a job's puts can need; announcing more: disconnected.
pub const PMI_PARTS_MAX: u32 = 256;

/// Longest body of a step in one frame that its receiver need not say has come, bytes: the sender keeps it until the
/// barrier after that is through. Of longer ones he is told, and keeps them no longer.
pub const PMI_UNCONFIRMED_BYTES_MAX: usize = 1024;

/// Frames without a body that wait to be sent, of a node about a job, beyond four for each step of a barrier; further
/// ones are lost, as if on the way.
pub const PMI_SHORT_FRAMES_MAX: usize = 256;

/// A rank that waits in a barrier for this long has that said to those who know which ranks have ended, ns.
pub const PMI_TELL_NS: u64 = 200_000_000;

/// How often a node that waits in a barrier, or for the answer to a letter, asks the one that it waits for, ns.
pub const PMI_ASK_NS: u64 = 2_000_000_000;

/// A node that answers nothing for this long to one that waits for it in a barrier ends the job, ns. Who waits for an
/// answer about a name waits no longer either, and has the rank told.
pub const PMI_SILENCE_NS: u64 = 20_000_000_000;

/// How often a node says that it is there to whoever watches it, ns. One of which nothing was heard for twice as long,
/// and which has not answered during nearly half of that either, counts as dead: all nodes of the job are told.
pub const PMI_WATCH_NS: u64 = 9_000_000_000;

/// Nodes of a job that share a core of a host, beyond which they do not watch each other: a node that gets a small part
/// of a core may be silent for long.
pub const PMI_WATCHED_PER_CORE_MAX: u32 = 4;

/// How often a node asks one that it watches and that is late, and tells one of a death that has not said that it knows
/// of it, ns.
pub const PMI_WATCH_ASK_NS: u64 = 500_000_000;

/// Deaths of which a node tells another at a time, and words about them that wait to be sent there. It tells of no
/// further ones; other nodes do, too.
pub const PMI_NEWS_MAX: usize = 1024;

/// Longest message of a PMIx client, bytes. Announcing more: disconnected.
pub const PMIX_MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// What a PMIx client says is heard in pieces of at most so many bytes.
pub const PMIX_HEARD_BYTES_MAX: usize = 16 * 1024;

/// Values of PMIx in each other: what lies deeper is refused.
pub const PMIX_DEPTH_MAX: usize = 16;

/// Processes that a PMIx call may name; with more it is answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_MEMBERS_MAX: usize = 4096;

/// Directives of a PMIx call; with more it is answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_INFOS_MAX: usize = 256;

/// Longest key that a PMIx client may wait for, bytes: OpenPMIx has 511.
pub const PMIX_KEY_BYTES_MAX: usize = 511;

/// PMIx calls of a rank that wait at once; a further one is answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_WAITS_MAX: usize = 256;

/// What the ranks of a node may have put with PMIx, bytes: a commit beyond is answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_CARDS_BYTES_MAX: usize = 256 * 1024;

/// Calls of some ranks together, PMIx fences of a part of a job, in which a node takes part at once; a further one is
/// answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_COLLECTIVES_MAX: usize = 256;

/// Groups that ranks of a node have made with PMIx; making a further one is answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_GROUPS_MAX: usize = 256;

/// What all members of such a call may bring, bytes, shared out evenly to their nodes: who brings more is answered
/// `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_COLLECTIVE_BYTES_MAX: usize = 1024 * 1024;

/// Pieces in which what a rank has put with PMIx goes to another node, bytes at most.
pub const PMIX_PIECE_BYTES_MAX: usize = 12 * 1024;

/// Bytes of parcels about what ranks have put that wait to be sent, of a node about a job; further ones are lost, as
/// if on the way, and asked for again.
pub const PMIX_PARCELS_BYTES_MAX: usize = 2 * PMIX_CARDS_BYTES_MAX;

/// What a node keeps of what ranks of others have put and was fetched from there, bytes: beyond, some is forgotten, and
/// fetched again when it is wanted.
pub const PMIX_KNOWN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a PMIx client may ask about its job in one call; with more it is answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_QUERIES_MAX: usize = 32;

/// Codes of events that a rank has asked for with PMIx; asking for a further one is answered
/// `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_HANDLERS_MAX: usize = 256;

/// What a rank may say with an event, bytes; with more it is answered `PMIX_ERR_OUT_OF_RESOURCE`.
pub const PMIX_EVENT_BYTES_MAX: usize = 8 * 1024;

/// Events of a job's ranks on a node that some other node does not have yet; a further one is answered
/// `PMIX_ERR_OUT_OF_RESOURCE`. Those of ranks that end come on top of that.
pub const PMIX_EVENTS_UNDER_WAY_MAX: usize = 64;

/// Events that a node keeps for its ranks of a job, those that do not read and those that ask later: beyond, the oldest
/// is forgotten.
pub const PMIX_EVENTS_KEPT_MAX: usize = 256;

/// The same, bytes.
pub const PMIX_EVENTS_KEPT_BYTES_MAX: usize = 256 * 1024;

/// For how long an event is told to ranks that ask for it later, ns: as OpenPMIx's server does.
pub const PMIX_EVENTS_KEPT_NS: u64 = 120_000_000_000;

/// Ranks of a job of which each PMIx client is told when it begins; in a larger one, of those of its node.
pub const PMIX_INFORMED_RANKS_MAX: u32 = 4096;

/// UDP port of nodes and I/O nodes where transfers of staged files go.
pub const DISTRIBUTION_PORT: u16 = 7005;

/// Files that a job may have staged, its program included. More are refused at submission.
pub const STAGED_FILES_MAX: usize = 16;

/// Staged files that go through the I/O node of a pset at once, until their jobs end; jobs with more are refused.
pub const TRANSFERS_PER_PSET_MAX: usize = 64;

/// Nodes that the end of a transfer names of those that were given up; of more it says how many.
pub const LOST_NAMED_MAX: usize = 16;

/// Pieces of a distributed file, so that a set of them fits into a packet: refused before it begins.
pub const PIECES_PER_TRANSFER_MAX: u32 = 8192;

/// Time that a piece of a distributed file may take on a link, ns: refused before it begins.
pub const PIECE_NS_MAX: u64 = 4_000_000_000;

/// Time from one look of a member of a transfer for what is missing to the next, ns, however fast its link is and short
/// its pieces are.
pub const LOOK_NS_MIN: u64 = 20_000;

/// Members of a transfer: refused before it begins.
pub const MEMBERS_PER_TRANSFER_MAX: u32 = 1 << 21;

/// Pieces that a member of a transfer has sent to one below it, of which that one has not said that they came. More are
/// sent when it has, or one by one while it says nothing.
pub const PIECES_UNDER_WAY_MAX: usize = 6;

/// Pieces that came from one above, of which something is missing, beyond which it sends no more.
pub const PIECES_OPEN_MAX: usize = 12;

/// Pieces that a member of a transfer puts together at once; beyond, the one that had no packet for longest goes.
pub const ASSEMBLIES_PER_MEMBER_MAX: usize = 32;

/// What a member of a transfer may have asked for and not got; more is asked for later.
pub const ASKS_PER_MEMBER_MAX: usize = 24;

/// What others may have asked of a member of a transfer and not got; whoever asks for more is told to ask elsewhere.
pub const ANSWERS_PER_MEMBER_MAX: usize = 64;

/// Members of a transfer that one does not ask because they did not answer; the first of them are asked again.
pub const SUSPECTS_PER_MEMBER_MAX: usize = 16;

/// Ranges of members in a report of who is whole, and four times as many that a member keeps for its own; the others
/// home asks for.
pub const REPORT_RANGES_MAX: usize = 64;

/// Members that home has asked for a sign of life and that have not answered; the others are asked later.
pub const PROBES_MAX: usize = 64;

/// Communication processes of an overlay.
pub const OVERLAY_PROCESSES_MAX: usize = 65_536;

/// Others that a communication process, or the front end, has below it.
pub const OVERLAY_CHILDREN_MAX: usize = 64;

/// Connections of other nodes of a job that have something to say to the processes on a node; a further one is broken
/// off. A tree in which there would be more is not made.
pub const OVERLAY_CALLERS_MAX: usize = 64;

/// Ranks with the largest values of a metric that a summary names.
pub const OVERLAY_TOP_RANKS_MAX: usize = 4;

/// Ranks that are named of those that behave alike: the first ones.
pub const OVERLAY_ALIKE_RANKS_MAX: usize = 4;

/// Names of counters that a rank may offer to an overlay, and that a part tells of: the first ones in their order.
pub const OVERLAY_COUNTERS_MAX: usize = 16;

/// Single ranks of which an epoch tells what they have done so far.
pub const OVERLAY_TOTALS_MAX: usize = 32;

/// Nodes of which a node knows how many bytes a rank has sent to each, and calls by number of which it knows how often
/// a rank has made each: the first ones.
pub const OVERLAY_TALLIED_MAX: usize = 64;

/// Of how many of these it is told: those of which there was most.
pub const OVERLAY_TALLIED_TOLD_MAX: usize = 8;

/// Length of such a name, bytes.
pub const OVERLAY_COUNTER_NAME_BYTES_MAX: usize = 31;

/// A message of an overlay, bytes: it fits into a frame of any channel. Nearly all are far shorter; a part that is
/// longer is lost, and counted.
pub const OVERLAY_MESSAGE_BYTES_MAX: usize = 240 << 10;

/// Communication processes of an overlay on one node.
pub const OVERLAY_NODE_PROCESSES_MAX: usize = 64;

/// Length of an epoch, ns: at least this …
pub const OVERLAY_PERIOD_NS_MIN: u64 = 10_000_000;

/// … and at most that.
pub const OVERLAY_PERIOD_NS_MAX: u64 = 3_600_000_000_000;

/// Orders of a front end that an I/O node keeps for each node of a job, to say them again when a connection was lost;
/// the oldest go first.
pub const OVERLAY_ORDERS_KEPT_MAX: usize = 256;

/// Epochs for which a front end knows which ranks were missing since then; beyond, the two last ones count as one.
pub const OVERLAY_MISSING_SINCE_MAX: usize = 64;

/// Port on which nodes listen for those that are below their communication processes.
pub const OVERLAY_PORT: u16 = 7007;

/// How long an epoch waits at a process for parts that are late, from the first one on, for each process on the way
/// from there to the back ends, ns.
pub const OVERLAY_GRACE_NS: u64 = 100_000_000;

/// How many epochs somebody may be ahead of most of the others below the same process; what is further ahead is not
/// heard.
pub const OVERLAY_AHEAD_EPOCHS_MAX: u64 = 64;

/// Epochs for which a process waits at a time.
pub const OVERLAY_OPEN_EPOCHS_MAX: usize = 4;

/// Parts that a process or a node keeps after it has sent them, to say them again when the one above it has died.
pub const OVERLAY_KEPT_PARTS_MAX: usize = 4;

/// Parts that wait to be sent. Further ones push out the oldest, which the front end misses then.
pub const OVERLAY_WAITING_PARTS_MAX: usize = 64;

/// Closed epochs to which the front end still adds what comes late.
pub const OVERLAY_LATE_EPOCHS_MAX: u64 = 8;

/// Epochs for which it is kept what ranks did that ended in them, until they are closed. Beyond, those that are
/// furthest ahead go.
pub const OVERLAY_LAST_EPOCHS_MAX: usize = 8;

/// Parts of earlier epochs that a node says again when its last rank has ended: the latest ones. Those of the ranks
/// that a node may have, and as many stacks as there may be, fit into one message.
pub const OVERLAY_LAST_PARTS_MAX: usize = 8;

/// How long the front end waits for the nodes of a job to say that they are there, and then for processes, ns.
pub const OVERLAY_START_NS: u64 = 5_000_000_000;

/// Parts of those of whom a process does not know yet that they are below it; and parts that wait at the front end for
/// their epoch to be closed.
pub const OVERLAY_STRANGERS_MAX: usize = 64;

/// How often it is looked where a thread is in its program, ns of its time there: at most this often.
pub const OVERLAY_SAMPLE_PERIOD_NS_MIN: u64 = 200_000;

/// Code addresses of a stack. Of one that is deeper the outer ones are left out.
pub const OVERLAY_STACK_DEPTH_MAX: usize = 64;

/// Different stacks of more than one address that are told apart; of what is beyond the innermost address is kept.
pub const OVERLAY_STACKS_MAX: usize = 512;

/// Addresses of all these stacks together; beyond, as there.
pub const OVERLAY_STACK_ADDRESSES_MAX: usize = 8192;

/// Different addresses that are told apart of which nothing else is known; what is beyond is elsewhere.
pub const OVERLAY_LEAVES_MAX: usize = 1024;
