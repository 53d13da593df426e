//! Programs the service node keeps.

use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};

/// One program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramView {
    /// BLAKE3 hash of its bytes, hexadecimal.
    pub hash: String,
    /// Length of its file, bytes.
    pub bytes: u64,
    /// Memory its segments take when all of it was touched, bytes.
    pub memory_bytes: u64,
    /// Where it was last submitted from.
    pub path: ByteString,
    /// When it was last used, ns since 1970.
    pub used_at_ns: u64,
    /// Whether its bytes are still in the store.
    pub stored: bool,
    /// Nodes that hold pages of it.
    pub nodes: Vec<u32>,
    /// Pages they hold, all together.
    pub retained_pages: u64,
    /// Memory that takes on them, page tables included, bytes.
    pub retained_bytes: u64,
}
