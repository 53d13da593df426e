//! Checkpoints: what a job was at one moment, kept where its nodes' ends do not reach it.
//!
//! What is kept is *objects*: up to [`OBJECT_BYTES_MAX`] bytes each, named by their BLAKE3 hash. Whoever reads one sees
//! by its name whether it is what was written, and what two checkpoints have in common is kept once.
//!
//! A job's ranks, and what the ranks of a node share, are *parts* ([`Part`]). A part is a [`Listing`] of objects, which
//! is an object itself: first those of its record, which says what the part was, then those of its pages, which the
//! record names by their places in the list. So whoever knows nothing of records knows what belongs to a part. The node
//! makes it, has its I/O node keep it ([`crate::ship::Call::PutObject`]), and tells its name to the service node
//! ([`crate::inspect::Answer::Saving`]), which writes a manifest of all parts. There is a checkpoint when there is its
//! manifest, and not before.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::limits::BULK_BYTES_MAX;
use crate::region::SlotKey;

/// Bytes of an object at most: so many go in one request.
pub const OBJECT_BYTES_MAX: usize = BULK_BYTES_MAX;

/// Objects that one list has at most, for it to be an object.
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

/// The objects of a part, or some of them: postcard of this is an object itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Bytes of the part's record, which is cut into objects of [`OBJECT_BYTES_MAX`]: they are the first.
    pub record_bytes: u64,
    /// Objects in order, at most [`LISTED_MAX`].
    pub objects: Vec<ObjectId>,
    /// The list that goes on behind this one.
    pub next: Option<ObjectId>,
}

impl Listing {
    /// How many objects of the part are its record's.
    #[must_use]
    pub const fn record_objects(&self) -> u64 {
        self.record_bytes.div_ceil(OBJECT_BYTES_MAX as u64)
    }

    /// What an object says that is a listing.
    ///
    /// # Errors
    /// It is none.
    pub fn read(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (listing, rest): (Self, _) = postcard::take_from_bytes(bytes)?;
        let fits = rest.is_empty() && listing.objects.len() <= LISTED_MAX;
        fits.then_some(listing).ok_or(postcard::Error::DeserializeBadEncoding)
    }

    /// As an object.
    ///
    /// # Errors
    /// Never for one of at most [`LISTED_MAX`] objects, but for want of memory.
    pub fn bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(self)
    }
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
    /// It is over: all parts that the node keeps, on stable storage, or none, as `failed` says.
    pub parts: Option<Vec<Part>>,
    /// All of it lies in the node's region, from where its I/O node is to pull it; then `parts` says nothing.
    pub local: Option<SlotKey>,
    /// Why nothing is kept, one line.
    pub failed: Option<alloc::string::String>,
}

impl Saving {
    /// Whether the node is done with it, well or not.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.parts.is_some() || self.local.is_some() || self.failed.is_some()
    }
}

/// How what ranks are is to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeping {
    /// There is the checkpoint that was led by this one: pages that were not written since need not be kept again.
    pub since: Option<u64>,
    /// Ranks do not go on before all of it lies in the region or is with the I/O node, so that none of it need be
    /// copied for them. Meanwhile the region's engine has so many requests to do at most, the threshold T of the
    /// published algorithm, and the processor copies what is more.
    pub copy: Option<u8>,
    /// All of it is given to the I/O nodes: what is in regions may be wiped at any time.
    pub elsewhere: bool,
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
    /// Files that have grown since stay as they are.
    pub keep_files: bool,
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
        let id = ObjectId([1; 32]);
        let objects = alloc::vec![id; super::LISTED_MAX];
        let longest = Listing { record_bytes: u64::MAX, objects, next: Some(id) };
        let bytes = longest.bytes().expect("encodes");
        assert!(bytes.len() <= OBJECT_BYTES_MAX);
        assert_eq!(Listing::read(&bytes), Ok(longest));
        assert!(Listing::read(&[&bytes[..], &[0]].concat()).is_err());
    }
}
