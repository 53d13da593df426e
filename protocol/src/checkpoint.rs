//! Checkpoints: what a job was at one moment, kept where its nodes' ends do not reach it.
//!
//! What is kept is *objects*: up to [`OBJECT_BYTES_MAX`] bytes each, named by their BLAKE3 hash. Whoever reads one sees
//! by its name whether it is what was written, and what two checkpoints have in common is kept once. What is longer is
//! kept as several objects and a [`Listing`] of them, which is an object too, so that it has one name again.
//!
//! A job's ranks, and its nodes, are such *parts* ([`Part`]): the node makes them, has its I/O node keep them
//! ([`crate::ship::Call::PutObject`]), and tells their names to the service node ([`crate::inspect::Answer::Saving`]),
//! which writes them into the checkpoint's manifest. What is in them is the kernel's own. A checkpoint is whole when its
//! manifest is there, and was not made before.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::limits::BULK_BYTES_MAX;

/// Bytes of an object at most: so many go in one request.
pub const OBJECT_BYTES_MAX: usize = BULK_BYTES_MAX;

/// Objects that are listed at most, for the list to be an object.
pub const LISTED_MAX: usize = OBJECT_BYTES_MAX / 32 - 8;

/// The name of an object: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// That of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// A text that is no object's name: those are 64 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of an object: 64 hexadecimal digits")]
pub struct NoObjectId;

impl FromStr for ObjectId {
    type Err = NoObjectId;

    fn from_str(text: &str) -> Result<Self, NoObjectId> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(NoObjectId);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = core::str::from_utf8(digits).map_err(|_| NoObjectId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoObjectId)?;
        }
        Ok(Self(bytes))
    }
}

/// Something longer, as objects: postcard of this is an object itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Bytes in all.
    pub length: u64,
    /// Its objects in order, at most [`LISTED_MAX`].
    pub objects: Vec<ObjectId>,
}

/// Of what a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PartOf {
    /// A rank.
    Rank(Rank),
    /// What the ranks of one node share, by the node's number in the job ([`crate::ids::JobNode`]).
    Node(u32),
}

/// A part of a checkpoint that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Of what.
    pub of: PartOf,
    /// Its [`Listing`].
    pub object: ObjectId,
}

/// How far a node is with keeping what was cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    /// Pages that are kept so far, and that there are to be kept.
    pub pages: (u64, u64),
    /// Bytes of objects that the I/O node was given so far.
    pub bytes: u64,
    /// Barriers of PMI that the job's nodes have left: all of them have to say the same.
    pub barriers: u64,
    /// It is over: all that the node keeps, on stable storage, or nothing, as `failed` says.
    pub parts: Option<Vec<Part>>,
    /// Why nothing is kept, one line.
    pub failed: Option<alloc::string::String>,
}

/// What a rank is to be made from instead of its program's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    /// The rank's part.
    pub rank: ObjectId,
    /// Its node's.
    pub node: ObjectId,
    /// Who leads it through the rest of the cut ([`crate::inspect::cut`]): makes connections and lets it go on.
    pub by: u64,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::{Listing, NoObjectId, OBJECT_BYTES_MAX, ObjectId};

    #[test]
    fn names_are_read_as_they_are_written() {
        let id = ObjectId::of(b"a");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "zz", &"A".repeat(64), &"0".repeat(63), &"+1".repeat(32)] {
            assert_eq!(wrong.parse::<ObjectId>(), Err(NoObjectId), "{wrong}");
        }
    }

    #[test]
    fn the_longest_listing_is_an_object() {
        let longest = Listing { length: u64::MAX, objects: alloc::vec![ObjectId([1; 32]); super::LISTED_MAX] };
        assert!(postcard::to_allocvec(&longest).expect("encodes").len() <= OBJECT_BYTES_MAX);
    }
}
