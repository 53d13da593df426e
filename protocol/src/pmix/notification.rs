//! Something that ranks are to be told: what one of them wants others to know (`PMIx_Notify_event`), or that one of
//! them has ended. How a client reads it is in `pmix_client_notify_recv`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::dialect::Dialect;
use super::key;
use super::reader::Process;
use super::status::Status;
use super::writer::{Value, Writer};
use crate::ids::Rank;
use crate::limits::{PMIX_EVENT_BYTES_MAX, PMIX_INFOS_MAX, RANKS_PER_NODE_MAX};

/// What a client calls to have others told, and what begins a message that tells them.
const COMMAND: u8 = 12;
/// `PMIX_RANGE_NAMESPACE`.
const RANGE_NAMESPACE: u8 = 3;
/// Added to a signal's number, as shells do.
const SIGNAL_BASE: i32 = 128;
/// What one takes of memory beyond its bytes, about.
const OVERHEAD_BYTES: usize = 192;

/// See this module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notification {
    pub(super) source: Source,
    /// For whom it is; for all ranks if that is not said.
    pub(super) targets: Option<Box<[Rank]>>,
    pub(super) matter: Matter,
}

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Source {
    Rank(Rank),
    /// The server of the job's node with this index.
    Node(u32),
}

/// What it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Matter {
    /// What a rank says, as it wrote it.
    Said {
        status: i32,
        range: u8,
        dialect: Dialect,
        /// How many of them are in `bytes`.
        infos: u32,
        bytes: Box<[u8]>,
        /// Who has asked for whatever happens is told as well.
        is_for_defaults: bool,
        /// Who asks for it later is told then.
        is_kept: bool,
    },
    /// A rank has ended before it had finalized, or ends the job.
    Left { rank: Rank, how: Ending },
}

/// How a rank has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// It exited with this status.
    Status(u8),
    /// A signal ended it.
    Signal(u8),
    /// It could not be started.
    NotStarted,
    /// It has the job ended, with this code.
    Abort(i32),
    /// Its node is gone.
    NodeLost,
}

impl Ending {
    /// Under what it may be asked for, the narrowest first.
    const fn codes(self) -> [i32; 3] {
        let narrow = match self {
            Self::Status(_) => Status::PROC_TERM_WO_SYNC,
            Self::Signal(_) => Status::PROC_ABORTED_BY_SIG,
            Self::NotStarted => Status::PROC_FAILED_TO_START,
            Self::Abort(_) => Status::REQUESTED_ABORT,
            Self::NodeLost => Status::NODE_DOWN,
        };
        [narrow.0, Status::PROC_ABORTED.0, Status::PROC_TERMINATED.0]
    }

    /// As a shell would show it.
    fn exit_code(self) -> i32 {
        match self {
            Self::Status(status) => status.into(),
            Self::Signal(signal) => SIGNAL_BASE + i32::from(signal),
            Self::NotStarted | Self::NodeLost => SIGNAL_BASE - 1,
            Self::Abort(code) => code,
        }
    }
}

impl Notification {
    /// Of the server of node `me`, about a rank that has ended.
    pub(crate) const fn of_end(me: u32, rank: Rank, how: Ending) -> Self {
        Self { source: Source::Node(me), targets: None, matter: Matter::Left { rank, how } }
    }

    /// The rank whose end it tells of, and how that ended.
    pub(super) fn rank_that_ended(&self) -> Option<(Rank, Ending)> {
        match self.matter {
            Matter::Left { rank, how } => Some((rank, how)),
            Matter::Said { .. } => None,
        }
    }

    /// For whom it is; for all ranks if that is not said.
    pub(crate) fn targets(&self) -> Option<&[Rank]> {
        self.targets.as_deref()
    }

    /// Whether a rank is to hear it, if it has asked for such things. Who says something knows it.
    pub(super) fn is_for(&self, rank: Rank) -> bool {
        let is_about = match self.matter {
            Matter::Left { rank, .. } => Source::Rank(rank),
            Matter::Said { .. } => self.source,
        };
        is_about != Source::Rank(rank) && self.targets.as_ref().is_none_or(|targets| targets.contains(&rank))
    }

    /// Under what it may be asked for, the narrowest first.
    pub(super) fn codes(&self) -> Vec<i32> {
        match &self.matter {
            Matter::Said { status, .. } => Vec::from([*status]),
            Matter::Left { how, .. } => how.codes().to_vec(),
        }
    }

    /// Whether who has asked for whatever happens is told as well.
    pub(super) const fn is_for_defaults(&self) -> bool {
        match self.matter {
            Matter::Said { is_for_defaults, .. } => is_for_defaults,
            Matter::Left { .. } => true,
        }
    }

    /// Whether who asks for it later is told then.
    pub(super) const fn is_kept(&self) -> bool {
        match self.matter {
            Matter::Said { is_kept, .. } => is_kept,
            Matter::Left { .. } => true,
        }
    }

    /// What it takes of memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = match &self.matter {
            Matter::Said { bytes, .. } => bytes.len(),
            Matter::Left { .. } => 0,
        };
        OVERHEAD_BYTES + bytes + self.targets.as_ref().map_or(0, |targets| size_of_val(&**targets))
    }

    /// Whether it is within the limits, if others have written it down, in a job of so many nodes; for the ranks of
    /// one node, or of all.
    pub(super) fn is_within_limits(&self, nodes: u32, is_for_one_node: bool) -> bool {
        let are_few = |targets: &[Rank]| !is_for_one_node || targets.len() <= RANKS_PER_NODE_MAX as usize;
        let is_short = match &self.matter {
            Matter::Said { bytes, infos, .. } => {
                bytes.len() <= PMIX_EVENT_BYTES_MAX && *infos as usize <= PMIX_INFOS_MAX
            }
            Matter::Left { .. } => true,
        };
        let is_there = !matches!(self.source, Source::Node(node) if node >= nodes);
        is_short && is_there && self.targets.as_ref().is_none_or(|targets| are_few(targets))
    }

    /// The message that tells it to a client under this code. What was written otherwise than the client reads is left
    /// out: it hears that it happened, and who says so.
    pub(super) fn message(&self, code: i32, dialect: Dialect, space: &[u8], server: &[u8]) -> Writer {
        let mut message = Writer::new(dialect);
        let source = match self.source {
            Source::Rank(rank) => Process { space, rank: rank.0 },
            Source::Node(index) => Process { space: server, rank: index },
        };
        message.packed(1).byte(COMMAND).status(Status(code)).packed(1).process(source);
        let range = match &self.matter {
            Matter::Said { range, infos, bytes, dialect: written, .. } => {
                let infos = if *written == dialect { *infos as usize } else { 0 };
                message.packed(1).size(infos);
                if infos > 0 {
                    message.packed(infos).put(bytes);
                }
                *range
            }
            Matter::Left { rank, how } => {
                let process = Process { space, rank: rank.0 };
                let infos = [
                    (key::EVENT_AFFECTED_PROC, Value::Process(process)),
                    (key::PROC_TERM_STATUS, Value::Status(Status(how.codes()[0]))),
                    (key::EXIT_CODE, Value::Int(how.exit_code())),
                ];
                message.packed(1).size(infos.len()).packed(infos.len());
                for (key, value) in infos {
                    message.info(key, &value);
                }
                RANGE_NAMESPACE
            }
        };
        // For servers that hand it on.
        message.packed(1).byte(range);
        message
    }
}
