//! Programs that the service node knows, and files that nodes keep.

use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::Text;

/// One program or file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgramView {
    /// BLAKE3 hash of its bytes, hexadecimal.
    pub hash: String,
    /// Length of its file, bytes.
    pub bytes: u64,
    /// Memory its segments take when all of it was touched, bytes; 0 if it was only kept as a file.
    pub memory_bytes: u64,
    /// Where it was last submitted from.
    #[schema(value_type = Text)]
    pub path: ByteString,
    /// When it was last used, ns since 1970.
    pub used_at_ns: u64,
    /// Whether its bytes are still in the store.
    pub stored: bool,
    /// Nodes that hold pages of it, of those it left there when it ran.
    pub nodes: Vec<u32>,
    /// Pages they hold, all together.
    pub retained_pages: u64,
    /// Memory that takes on them, page tables included, bytes.
    pub retained_bytes: u64,
    /// Nodes that keep all of the file.
    #[serde(default)]
    pub kept_nodes: Vec<u32>,
    /// Memory that takes on them, page tables included, bytes.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Pages of files that jobs of it have read, libraries among them, that nodes hold, all together.
    #[serde(default)]
    pub read_pages: u64,
    /// Memory that takes on them, bytes.
    #[serde(default)]
    pub read_bytes: u64,
}
