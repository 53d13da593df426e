//! Files that nodes keep in their memory without a job.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::Text;
use crate::stream::StagingProgress;

/// An order to have nodes keep a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeepOrder {
    /// The file on the host, absolute.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub file: PathBuf,
    /// The nodes, each once; none: all that take jobs or have one.
    pub nodes: Vec<u32>,
}

/// What is said of a [`KeepOrder`] that was taken, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeepNews {
    /// How far the file is. Said now and then.
    Staging(StagingProgress),
    /// What came of it; nothing follows.
    Kept(KeepReport),
    /// It was given up; nothing follows.
    Refused {
        /// HTTP status that fits.
        status: u16,
        /// One line: why.
        error: String,
    },
}

/// What came of a [`KeepOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeepReport {
    /// BLAKE3 hash of the file's bytes, hexadecimal.
    pub hash: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// Nodes that have it now.
    pub nodes: u32,
    /// Those of them that had it before.
    pub had: u32,
    /// Nodes that do not have it.
    pub failed: Vec<NotKept>,
    /// From the order to the last answer, ns.
    pub took_ns: u64,
}

/// A node that does not have a file, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotKept {
    /// The node.
    pub node: u32,
    /// Why, one line.
    pub reason: String,
}
