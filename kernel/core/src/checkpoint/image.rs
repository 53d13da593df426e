//! What the parts of a checkpoint say: the records that go before their pages.

use alloc::vec::Vec;

use coppice_endpoint::record::OrphanRecord;
use coppice_protocol::ids::ProgramId;
use serde::{Deserialize, Serialize};

use crate::files::asks::Counts;
use crate::files::record::outside::OutsideRecord;
use crate::files::shared::record::SharedFileRecord;
use crate::memory::Window;

/// What records begin with: another kernel may write others.
pub(super) const VERSION: u32 = 7;

/// A rank.
#[derive(Serialize, Deserialize)]
pub(super) struct RankImage {
    pub(super) version: u32,
    /// Its program, whose own pages are not in it.
    pub(super) program: ProgramId,
    /// See [`crate::process::record`].
    pub(super) process: Vec<u8>,
    /// What carries its sockets' bytes, see [`crate::files::record::transports`].
    pub(super) transports: Vec<u8>,
    pub(super) outside: Vec<OutsideRecord>,
    /// The numbers of memories that it shows, in the order of its record.
    pub(super) memories: Vec<u64>,
    /// Its pages; those that have bytes are the part's objects, in order.
    pub(super) windows: Vec<Window>,
}

/// What the ranks of a node share.
#[derive(Serialize, Deserialize)]
pub(super) struct NodeImage {
    pub(super) version: u32,
    /// Its checkpoints before this one.
    pub(super) checkpoints: Counts,
    /// Connections that their programs have closed.
    pub(super) orphans: Vec<OrphanRecord>,
    /// See [`coppice_protocol::pmi::ServerRecord`].
    pub(super) pmi: Vec<u8>,
    pub(super) files: Vec<SharedFileRecord>,
    pub(super) memories: Vec<MemoryImage>,
}

/// Memory that several may show.
#[derive(Serialize, Deserialize)]
pub(super) struct MemoryImage {
    pub(super) id: u64,
    /// Bytes.
    pub(super) length: u64,
    /// Its pages count with those of `/dev/shm`.
    pub(super) is_counted: bool,
    /// As those of a rank; behind those of the memories before it.
    pub(super) windows: Vec<Window>,
}
