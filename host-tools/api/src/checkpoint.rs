//! Checkpoints of jobs: what is asked for, what there is.

use std::fmt;
use std::str::FromStr;

use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::cut::CutStep;
use crate::schema::{Text, written};

/// A checkpoint by its job and its number, written `JOB@NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CheckpointName {
    /// The job it was made of.
    pub job: u64,
    /// Which of the job's, counted from 1.
    pub number: u32,
}

/// A text that names no checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a job's number, or JOB@NUMBER for one of its checkpoints, such as 7@2")]
pub struct NoCheckpointName;

impl fmt::Display for CheckpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.job, self.number)
    }
}

impl FromStr for CheckpointName {
    type Err = NoCheckpointName;

    fn from_str(text: &str) -> Result<Self, NoCheckpointName> {
        match text.parse()? {
            CheckpointChoice { job, number: Some(number) } => Ok(Self { job, number }),
            CheckpointChoice { number: None, .. } => Err(NoCheckpointName),
        }
    }
}

impl TryFrom<String> for CheckpointName {
    type Error = NoCheckpointName;

    fn try_from(text: String) -> Result<Self, NoCheckpointName> {
        text.parse()
    }
}

impl PartialSchema for CheckpointName {
    fn schema() -> RefOr<Schema> {
        written("A checkpoint by its job and its number, counted from 1: `JOB@NUMBER`.", "^[0-9]+@[0-9]+$", "7@2")
    }
}

impl ToSchema for CheckpointName {}

impl From<CheckpointName> for String {
    fn from(name: CheckpointName) -> Self {
        name.to_string()
    }
}

/// A checkpoint of a job, `JOB@NUMBER`, or none in particular, `JOB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointChoice {
    /// The job.
    pub job: u64,
    /// Which of its checkpoints, if one is named.
    #[serde(default)]
    pub number: Option<u32>,
}

impl FromStr for CheckpointChoice {
    type Err = NoCheckpointName;

    fn from_str(text: &str) -> Result<Self, NoCheckpointName> {
        let (job, number) = text.split_once('@').map_or((text, None), |(job, number)| (job, Some(number)));
        Ok(Self { job: parse(job)?, number: number.map(parse).transpose()? })
    }
}

/// Digits alone: what the standard takes besides is no name.
fn parse<T: FromStr>(digits: &str) -> Result<T, NoCheckpointName> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| are_digits).ok_or(NoCheckpointName)
}

/// Checkpoints that the service node makes of a job by itself, and what it does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointPolicy {
    /// From the beginning of one to the beginning of the next, ms.
    pub every_ms: u64,
    /// Checkpoints of the job that stay when a new one is whole: so many, the newest.
    pub keep: u32,
    /// How often it is restarted from the newest when it has lost a node. Each restarted job may be once less.
    #[serde(default)]
    pub max_restarts: u32,
    /// How long a node lasts on average, ms: from this, and from what the last one cost, it is chosen how soon the next
    /// one is made. Then [`CheckpointPolicy::every_ms`] is for the first alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_mtbf_ms: Option<u64>,
}

/// Checkpoints that were made of a job; by now they may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointsMade {
    /// How many.
    pub count: u32,
    /// The last one.
    pub last: CheckpointName,
    /// What that cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CheckpointCost>,
    /// From the beginning of one to that of the next, if that is chosen by what they cost, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
}

/// What a checkpoint cost its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointCost {
    /// How long its ranks stood, µs: from the order to stop until all nodes had them go on.
    pub pause_us: u64,
    /// Pages that are in it.
    pub pages: u64,
    /// Bytes of objects that nodes gave for it; with other checkpoints it shares what they have in common.
    pub bytes: u64,
    /// When nodes had no more to do with it, ms from the order to stop: all of it lay in their regions or was with I/O
    /// nodes.
    pub local_ms: u64,
    /// When all of it was on stable storage, and it was a checkpoint, ms from the order to stop.
    pub drain_ms: u64,
    /// How long processors of I/O nodes took, all together, to hold what lay in regions against its checks and to name
    /// it, ms. `None`: nothing lay there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_ms: Option<u64>,
}

/// How ranks are kept from changing what is to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointMode {
    /// They go on at once, and a page that they write is copied first (copy on write).
    #[default]
    Cow,
    /// They stand until all of it lies in regions or is with I/O nodes.
    Copy,
}

/// An order to make a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MakeOrder {
    /// How.
    #[serde(default)]
    pub mode: CheckpointMode,
    /// While ranks stand for all of it ([`CheckpointMode::Copy`]), their nodes' processors copy what finds so many
    /// requests with the region's engine: with 0 all of it. `None`: as many as an engine takes.
    #[serde(default)]
    pub dma_pending: Option<u8>,
}

impl MakeOrder {
    /// Whether ranks stand for all of it, and then how many requests an engine has at most.
    #[must_use]
    pub fn copied(self) -> Option<u8> {
        (self.mode == CheckpointMode::Copy).then(|| self.dma_pending.unwrap_or(u8::MAX))
    }
}

/// How a job goes on that has lost a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Continuation {
    /// As this job.
    pub job: u64,
    /// From this checkpoint.
    pub checkpoint: CheckpointName,
    /// The node that was lost.
    pub lost_node: u32,
}

/// What making a checkpoint took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointReport {
    /// What was made.
    pub checkpoint: CheckpointName,
    /// Nodes that the job is on.
    pub nodes: u32,
    /// The steps through which its nodes were led, in order.
    pub steps: Vec<CutStep>,
    /// How ranks were kept from changing it.
    pub mode: CheckpointMode,
    /// What it cost.
    #[serde(flatten)]
    pub cost: CheckpointCost,
}

/// How far a checkpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointState {
    /// Its nodes have all of it in their regions or gave it away, and its ranks go on. It is none yet: what is in
    /// regions is on its way to stable storage.
    Local,
    /// All of it is on stable storage.
    #[default]
    Drained,
    /// All of it was read there once more and is what was written.
    Verified,
}

/// How much of a checkpoint is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// Objects that are stored.
    pub objects: u64,
    /// Objects of regions that there are, as far as is known.
    pub of: u64,
}

/// A checkpoint that there is, or will be soon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointView {
    /// Which.
    pub checkpoint: CheckpointName,
    /// How far it is.
    #[serde(default)]
    pub state: CheckpointState,
    /// How much of it is stored, while it is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Drained>,
    /// When it was made, ns since 1970.
    pub at_ns: u64,
    /// The program's path as the user gave it.
    #[schema(value_type = Text)]
    pub name: ByteString,
    /// Arguments, the program's name not included.
    #[schema(value_type = Vec<Text>)]
    pub arguments: Vec<ByteString>,
    /// Hash of the program, hexadecimal.
    pub program: String,
    /// Ranks of the job.
    pub ranks: u32,
    /// Ranks on each of its nodes; the last node may have fewer.
    pub ranks_per_node: u32,
    /// How long the ranks stood for it, µs.
    pub pause_us: u64,
    /// Pages that are in it.
    pub pages: u64,
    /// Bytes of objects that nodes had I/O nodes keep; with other checkpoints it shares what they have in common.
    pub bytes: u64,
    /// Why it is of no use, if it is not; then nothing else is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

impl CheckpointView {
    /// One of which nothing is known.
    #[must_use]
    pub fn unknown(checkpoint: CheckpointName) -> Self {
        Self {
            checkpoint,
            state: CheckpointState::default(),
            drained: None,
            at_ns: 0,
            name: ByteString::new(),
            arguments: Vec::new(),
            program: String::new(),
            ranks: 0,
            ranks_per_node: 0,
            pause_us: 0,
            pages: 0,
            bytes: 0,
            damaged: None,
        }
    }
}

/// Which checkpoints to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CheckpointsQuery {
    /// Those of this job; without it, of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// What became of checkpoints that were to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// Those that are gone.
    pub checkpoints: Vec<CheckpointName>,
    /// Room on the disk that was given back: what no other checkpoint has, bytes.
    pub bytes: u64,
    /// Why room is not given back yet, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Which nodes may still have what was in it in their regions, and why, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_wiped: Option<String>,
}

/// What became of checkpoints that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// Those all of which is what was written.
    pub checkpoints: Vec<CheckpointName>,
    /// What is wrong with others, one line each.
    pub damaged: Vec<String>,
}

/// An order to have a new job go on from a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestartOrder {
    /// The number of the checkpoint; without it, the job's newest.
    #[serde(default)]
    pub checkpoint: Option<u32>,
    /// Read all that is in it before, and refuse if something is not what was written.
    #[serde(default)]
    pub verify: bool,
    /// Do not cut files back that have grown since the checkpoint.
    #[serde(default)]
    pub keep_files: bool,
    /// The nodes to run on, in order of the ranks; empty: any.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// As [`crate::job::Submission::detached`].
    #[serde(default)]
    pub detached: bool,
    /// As [`crate::job::Submission::keep_output`].
    #[serde(default)]
    pub keep_output: Option<u64>,
    /// As [`crate::job::Submission::core_file`].
    #[serde(default)]
    pub core_file: bool,
    /// As [`crate::job::Submission::timeout_ms`], from the new job's start; without it as the job had it.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// As [`crate::job::Submission::checkpoint_policy`]; without it as the job had it.
    #[serde(default)]
    pub checkpoint_policy: Option<CheckpointPolicy>,
}

/// Answer to an order to restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restarted {
    /// The new job's number.
    pub job: u64,
    /// What it goes on from.
    pub checkpoint: CheckpointName,
    /// It has a rank that reads standard input.
    pub reads_input: bool,
}

#[cfg(test)]
mod tests {
    use super::{CheckpointChoice, CheckpointName, NoCheckpointName};

    #[test]
    fn checkpoints_are_named_by_job_and_number() {
        let name = CheckpointName { job: 7, number: 2 };
        assert_eq!("7@2".parse(), Ok(name));
        assert_eq!(serde_json::to_string(&name).expect("plain data"), "\"7@2\"");
        assert_eq!(serde_json::from_str::<CheckpointName>("\"7@2\"").expect("what was written"), name);
        assert_eq!("7".parse(), Ok(CheckpointChoice { job: 7, number: None }));
        assert_eq!("7@2".parse(), Ok(CheckpointChoice { job: 7, number: Some(2) }));
        assert_eq!("7".parse::<CheckpointName>(), Err(NoCheckpointName));
        for bad in ["", "@", "7@", "@2", "7@2@3", "+7", "7@+2", "x", "7@x", " 7"] {
            assert_eq!(bad.parse::<CheckpointChoice>(), Err(NoCheckpointName), "{bad}");
        }
    }
}
