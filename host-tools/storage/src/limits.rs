//! Limits of what is kept, and what happens at each.

use coppice_protocol::checkpoint::OBJECT_BYTES_MAX;

/// Bytes of an object's file: one for the encoding, and at most those of the object, as what does not become shorter
/// is kept as it is. A longer one is damaged.
pub const OBJECT_FILE_BYTES_MAX: usize = 1 + OBJECT_BYTES_MAX;

/// Bytes of objects in a pack, and how many objects: what is more goes into the next. Another pack of more objects is
/// damaged.
pub const PACK_BYTES_MAX: u64 = 64 << 20;
/// The same.
pub const PACK_OBJECTS_MAX: usize = 1 << 14;

/// Packs that are open at once while objects are taken out of them: then it goes on with others.
pub const PACKS_OPEN_MAX: usize = 64;

/// Bytes of a manifest: far more than one of a million ranks has. A longer one is not written, and damaged if it is
/// found.
pub const MANIFEST_BYTES_MAX: usize = 256 << 20;

/// How often another name is tried for a file in `temporary`, as somebody left one there; then that is an error.
pub const NAMES_TRIED_MAX: usize = 1000;
