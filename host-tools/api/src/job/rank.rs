//! What became of each rank of a job.

use coppice_protocol::control::RankCounters;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::retain::RetainAnswer;
use crate::schema;

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RankOutcome {
    /// It exited.
    Exited,
    /// A signal ended it.
    Signalled,
    /// It could not be started.
    NotStarted,
    /// Its node was lost.
    Lost,
}

/// What became of one rank, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankView {
    /// The rank.
    pub rank: u32,
    /// The node it ran on.
    pub node: u32,
    /// How it ended.
    pub outcome: RankOutcome,
    /// Its exit status, if it exited.
    pub exit: Option<u8>,
    /// The signal that ended it, if one did.
    pub signal: Option<u8>,
    /// Why, one line, when that is not obvious.
    pub reason: Option<String>,
    /// What it took.
    #[serde(flatten)]
    #[schema(value_type = schema::RankCounters)]
    pub counters: RankCounters,
    /// What the node answered when it was told to retain the program; nothing if it was not told. It is told once, and
    /// the first of its ranks has the answer.
    #[serde(default)]
    pub retain: Option<RetainAnswer>,
    /// Pages of the program that it found in the node's memory when it started.
    #[serde(default)]
    pub pages_retained: u64,
    /// Pages of the program that the node kept when it ended.
    #[serde(default)]
    pub pages_kept: u64,
    /// Page-table entries that were dropped when it ended.
    #[serde(default)]
    pub pages_dropped: u64,
    /// Frames that were zeroed when it ended, page tables included.
    #[serde(default)]
    pub pages_zeroed: u64,
    /// Time that took, ns of the node's clock.
    #[serde(default)]
    pub walk_ns: u64,
    /// System calls it made.
    pub syscalls: Vec<SyscallView>,
}

impl RankView {
    /// What became of a rank of which nothing else is known.
    #[must_use]
    pub fn ended(rank: u32, node: u32, outcome: RankOutcome, reason: Option<String>) -> Self {
        Self {
            rank,
            node,
            outcome,
            exit: None,
            signal: None,
            reason,
            counters: RankCounters::default(),
            retain: None,
            pages_retained: 0,
            pages_kept: 0,
            pages_dropped: 0,
            pages_zeroed: 0,
            walk_ns: 0,
            syscalls: Vec::new(),
        }
    }
}

/// How often a rank made one system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SyscallView {
    /// Linux's number for x86-64; −1 for all numbers too large to be counted one by one.
    pub number: i32,
    /// Its name; nothing for a number Linux does not have.
    pub name: Option<String>,
    /// How often it was made.
    pub calls: u64,
    /// How often it was refused because Coppice does not have it.
    pub unknown: u64,
}
