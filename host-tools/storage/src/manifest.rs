//! What a checkpoint is: which job, when, and its parts.

use std::fmt;

use coppice_protocol::checkpoint::{ObjectId, Part, PartOf};
use coppice_protocol::ids::{JobId, ProgramId, Rank};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A checkpoint of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`Manifest::VERSION`].
    pub version: u32,
    /// The job.
    pub job: JobId,
    /// Which of its checkpoints.
    pub number: u32,
    /// When the job was cut, ns since 1970.
    pub time_ns: u64,
    /// What the job was submitted with, in the words of whoever saved it.
    pub submission: Value,
    /// Its program.
    #[serde(with = "program")]
    pub program: ProgramId,
    /// How long that is, bytes.
    pub program_bytes: u64,
    /// Its ranks.
    pub ranks: u32,
    /// How many of them are on a node.
    pub ranks_per_node: u32,
    /// Barriers of PMI that it had left.
    pub barriers: u64,
    /// How long it stood, µs.
    pub pause_us: u64,
    /// Pages that were kept.
    pub pages: u64,
    /// Bytes of objects that nodes gave for it, those counted that were there already.
    pub bytes: u64,
    /// Its parts.
    pub parts: Vec<ManifestPart>,
}

impl Manifest {
    /// The version that is written. Another is not read.
    pub const VERSION: u32 = 1;
}

/// A part of a checkpoint; see [`Part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPart {
    /// What it is of.
    pub of: PartKind,
    /// Of which.
    pub number: u32,
    /// Where it begins.
    #[serde(with = "object")]
    pub object: ObjectId,
}

/// See [`PartOf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// A rank.
    Rank,
    /// What the ranks of a node share.
    Node,
}

impl From<Part> for ManifestPart {
    fn from(Part { of, object }: Part) -> Self {
        let (of, number) = match of {
            PartOf::Rank(rank) => (PartKind::Rank, rank.0),
            PartOf::Node(node) => (PartKind::Node, node),
        };
        Self { of, number, object }
    }
}

impl From<ManifestPart> for Part {
    fn from(ManifestPart { of, number, object }: ManifestPart) -> Self {
        let of = match of {
            PartKind::Rank => PartOf::Rank(Rank(number)),
            PartKind::Node => PartOf::Node(number),
        };
        Self { of, object }
    }
}

impl fmt::Display for ManifestPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.of {
            PartKind::Rank => "rank",
            PartKind::Node => "node",
        };
        write!(f, "{kind} {}", self.number)
    }
}

/// What a manifest's file holds.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    /// The hash of the manifest's text: a number that was changed on the disk would be one that may be right.
    #[serde(with = "object")]
    blake3: ObjectId,
    /// The manifest.
    #[serde(borrow)]
    manifest: &'a RawValue,
}

/// Version alone, which is looked at before all else.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The file of a manifest.
pub(crate) fn to_file(manifest: &Manifest) -> serde_json::Result<Vec<u8>> {
    let text = serde_json::to_string_pretty(manifest)?;
    let blake3 = ObjectId::of(text.as_bytes());
    let mut file = serde_json::to_vec(&Sealed { blake3, manifest: &RawValue::from_string(text)? })?;
    file.push(b'\n');
    Ok(file)
}

/// What a manifest's file says, or what is wrong with it.
pub(crate) fn of_file(file: &[u8]) -> Result<Manifest, String> {
    let sealed: Sealed<'_> = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let text = sealed.manifest.get();
    if ObjectId::of(text.as_bytes()) != sealed.blake3 {
        return Err("it was changed".to_owned());
    }
    let Versioned { version } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if version != Manifest::VERSION {
        return Err(format!("it has version {version}, this Coppice knows {}", Manifest::VERSION));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The name of an object in JSON.
mod object {
    use coppice_protocol::checkpoint::ObjectId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &ObjectId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The name of a program in JSON. Both are BLAKE3 hashes.
mod program {
    use coppice_protocol::ids::ProgramId;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &ProgramId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ProgramId, D::Error> {
        super::object::deserialize(deserializer).map(|id| ProgramId(id.0))
    }
}
