//! What is kept of a job's output, and how to ask for it.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::limits::{OUTPUT_LOGS_BYTES_MAX, OUTPUT_LOGS_MAX};

/// What is kept of a job's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputView {
    /// Room that its log may take on the disk, bytes. Each piece of output takes a few more than it has.
    pub limit: u64,
    /// Bytes of output that are kept. Not known while the log is written.
    pub bytes: Option<u64>,
    /// Bytes of output behind them that are not.
    #[serde(default)]
    pub dropped: u64,
    /// Why the log ends before the output, if it does.
    #[serde(default)]
    pub cut: Option<OutputCut>,
    /// The log was removed to make room for later ones.
    #[serde(default)]
    pub given_back: bool,
}

impl OutputView {
    /// Of a job whose log may take so much room, and that has written nothing yet.
    #[must_use]
    pub fn limited(limit: u64) -> Self {
        Self { limit, bytes: None, dropped: 0, cut: None, given_back: false }
    }
}

/// Why a log ends before the output does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputCut {
    /// It has as much room as the job may have.
    Limit,
    /// The logs of the cluster's jobs have as much as all may have, and none of them could be given back.
    Logs,
    /// It could not be written: the disk is full or fails.
    Disk,
    /// The service node ended.
    ServiceNode,
    /// The disk did not take it for so long that the job went on without it.
    Late,
}

impl fmt::Display for OutputCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit => "its log has all the room that --keep-output gives it",
            Self::Logs => "the logs of all jobs have all the room there is for them",
            Self::Disk => "its log could not be written, see `coppice ras`",
            Self::ServiceNode => "the service node ended",
            Self::Late => "the disk did not take it in time, and the job went on without its log, see `coppice ras`",
        })
    }
}

/// Why the log of a job is not there any more, in words.
#[must_use]
pub fn given_back(job: u64) -> String {
    format!(
        "the output of job {job} was removed to make room for that of later jobs; a cluster keeps the output of at \
         most {OUTPUT_LOGS_MAX} jobs and {} GiB",
        OUTPUT_LOGS_BYTES_MAX >> 30
    )
}

/// One of a rank's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What is asked for of a job's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Until the job ends, also what is still to come.
    #[serde(default)]
    pub follow: bool,
    /// Only of this rank.
    pub rank: Option<u32>,
    /// Only of this stream.
    pub stream: Option<OutputStream>,
}
