//! Names of what clients ask for and of what they direct calls with, as `pmix_common.h` has them.

/// All that begins like this is what servers say, and not what ranks put.
pub const RESERVED: &[u8] = b"pmix";

/// A fence brings what its members have put.
pub const COLLECT_DATA: &[u8] = b"pmix.collect";
/// How long to wait at most, s.
pub const TIMEOUT: &[u8] = b"pmix.timeout";
/// Not to wait at all.
pub const IMMEDIATE: &[u8] = b"pmix.immediate";

/// A group is to have a number.
pub const ASSIGN_CONTEXT_ID: &[u8] = b"pmix.grp.actxid";

/// The names of all jobs.
pub const QUERY_NAMESPACES: &[u8] = b"pmix.qry.ns";
/// Whether a job goes on.
pub const QUERY_JOB_STATUS: &[u8] = b"pmix.qry.jst";
/// Its processes.
pub const QUERY_PROC_TABLE: &[u8] = b"pmix.qry.ptable";
/// Those of this node.
pub const QUERY_LOCAL_PROC_TABLE: &[u8] = b"pmix.qry.lptable";
/// How many sets of processes were named when it was started.
pub const QUERY_NUM_PSETS: &[u8] = b"pmix.qry.psetnum";
/// Their names.
pub const QUERY_PSET_NAMES: &[u8] = b"pmix.qry.psets";
/// Who is in a group.
pub const QUERY_GROUP_MEMBERSHIP: &[u8] = b"pmix.qry.pgrpmems";
/// What may be asked.
pub const QUERY_SUPPORTED_KEYS: &[u8] = b"pmix.qry.keys";
/// Of which job.
pub const NSPACE: &[u8] = b"pmix.nspace";
/// Of which group.
pub const GROUP_ID: &[u8] = b"pmix.grp.id";

/// For whom an event is.
pub const EVENT_CUSTOM_RANGE: &[u8] = b"pmix.evrange";
/// It is not for who has asked for whatever happens.
pub const EVENT_NON_DEFAULT: &[u8] = b"pmix.evnondef";
/// It is not for who asks for it later.
pub const EVENT_DO_NOT_CACHE: &[u8] = b"pmix.evnocache";
/// A server has handled it already.
pub const SERVER_INTERNAL_NOTIFY: &[u8] = b"pmix.srvr.internal.notify";
/// Whom an event is about.
pub const EVENT_AFFECTED_PROC: &str = "pmix.evproc";
/// How it has ended.
pub const PROC_TERM_STATUS: &str = "pmix.proc.term.status";
/// Its exit status.
pub const EXIT_CODE: &str = "pmix.exit.code";

/// What is looked up is waited for.
pub const WAIT: &[u8] = b"pmix.wait";

/// Ranks of the job.
pub const JOB_SIZE: &str = "pmix.job.size";
/// The same, where a job can have no more.
pub const MAX_PROCS: &str = "pmix.max.size";
/// The same: a job has its nodes for itself.
pub const UNIV_SIZE: &str = "pmix.univ.size";
/// The job's name.
pub const JOBID: &str = "pmix.jobid";
/// Programs of the job.
pub const JOB_NUM_APPS: &str = "pmix.job.napps";
/// Ranks of the program.
pub const APP_SIZE: &str = "pmix.app.size";
/// The lowest of them.
pub const APPLDR: &str = "pmix.aldr";
/// Which program of the job.
pub const APPNUM: &str = "pmix.appnum";
/// Nodes of the job.
pub const NUM_NODES: &str = "pmix.num.nodes";
/// Their names, with commas.
pub const NODE_LIST: &str = "pmix.nlist";
/// Which ranks are on which node, as PMI-1 says it.
pub const ANL_MAP: &str = "pmix.anlmap";
/// Where the job's ranks are in a universe of many.
pub const NPROC_OFFSET: &str = "pmix.offset";
/// What is known of a node.
pub const NODE_INFO_ARRAY: &str = "pmix.node.arr";
/// Its name.
pub const HOSTNAME: &str = "pmix.hname";
/// Its index.
pub const NODEID: &str = "pmix.nodeid";
/// Its ranks, with commas.
pub const LOCAL_PEERS: &str = "pmix.lpeers";
/// How many they are.
pub const LOCAL_SIZE: &str = "pmix.local.size";
/// The same, of all jobs.
pub const NODE_SIZE: &str = "pmix.node.size";
/// The lowest of them.
pub const LOCALLDR: &str = "pmix.lldr";
/// What is known of a rank.
pub const PROC_BLOB: &str = "pmix.pblob";
/// Its number.
pub const RANK: &str = "pmix.rank";
/// The same, among all of its program.
pub const APP_RANK: &str = "pmix.apprank";
/// The same, in a universe of many jobs.
pub const GLOBAL_RANK: &str = "pmix.grank";
/// Its number among those of its node.
pub const LOCAL_RANK: &str = "pmix.lrank";
/// The same, of all jobs.
pub const NODE_RANK: &str = "pmix.nrank";
/// How often it was started before.
pub const REINCARNATION: &str = "pmix.reinc";
