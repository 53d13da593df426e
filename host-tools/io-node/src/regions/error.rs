//! What goes wrong with a node's region, in one line each.

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::ids::NodeId;
use coppice_protocol::region::SlotKey;
use coppice_storage::StorageError;

use crate::limits::REGION_PARTS_MAX;

/// What is done with a region, or why not.
pub(super) type Result<T> = core::result::Result<T, RegionError>;

/// See this module.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegionError {
    /// The directory of regions cannot be used, for that reason.
    #[error("{0}")]
    Unusable(String),
    /// There is none.
    #[error("node {0} has no region")]
    NoRegion(NodeId),
    /// Something else has its name.
    #[error("what should be the region of node {0} is no file")]
    NoFile(NodeId),
    /// It does not begin as one does.
    #[error("the region of node {0} is damaged, or of another version")]
    Version(NodeId),
    /// A header says that nothing is there, or nothing.
    #[error("slot {} of the region of node {node} has no checkpoint, or is damaged", of.slot)]
    Empty {
        /// Whose region.
        node: NodeId,
        /// What was to be there.
        of: SlotKey,
    },
    /// It is not the filling that is meant.
    #[error(
        "slot {} of the region of node {node} has another checkpoint, {found:#x} instead of {:#x}", of.slot, of.key
    )]
    Other {
        /// Whose region.
        node: NodeId,
        /// What was to be there.
        of: SlotKey,
        /// The key of what is.
        found: u64,
    },
    /// A table is none.
    #[error("the region of node {node} is damaged: the table of slot {slot} says what it cannot")]
    Table {
        /// Whose region.
        node: NodeId,
        /// Which slot.
        slot: u8,
    },
    /// An object is not what was written.
    #[error("the region of node {node} is damaged at {offset}")]
    Object {
        /// Whose region.
        node: NodeId,
        /// Where, bytes from its start.
        offset: u64,
    },
    /// It relies on an object that is kept, and which is not.
    #[error("the checkpoint in the region of node {node} goes on from object {object}, which is not kept any more")]
    NotKept {
        /// Whose region.
        node: NodeId,
        /// Which.
        object: ObjectId,
    },
    /// There are too many to be answered with.
    #[error("the checkpoint in the region of node {node} has {parts} parts; {REGION_PARTS_MAX} at most are pulled")]
    Parts {
        /// Whose region.
        node: NodeId,
        /// How many.
        parts: usize,
    },
    /// The host does not do it.
    #[error("cannot {what} the region of node {node}: {error}")]
    Host {
        /// What was to be done.
        what: &'static str,
        /// Whose region.
        node: NodeId,
        /// What the host says.
        error: std::io::Error,
    },
    /// Objects cannot be stored.
    #[error(transparent)]
    Storage(#[from] StorageError),
}
