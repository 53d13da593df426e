//! A core file of a rank, as Linux would write it: what the rank's node says of it, put as debuggers expect it.
//!
//! [`headers`] lays the file out and makes all of it that is not memory, with the [`notes`] on the process and its
//! threads; [`file`] is where it grows, without a name until it is whole; [`mod@take`] asks the node, and writes.

mod file;
mod headers;
mod notes;
mod take;

use coppice_api::inspect::held::{HeldProcess, HeldThread, MappedArea};

use self::file::CoreFile;
use self::headers::{Layout, Piece, TooManyAreas};
pub(crate) use self::notes::{IN_CALL, NO_CALL, spelled_out};
pub(crate) use self::take::{name, take};

/// All that is known of a held process but its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) process: HeldProcess,
    /// The first is the one that debuggers show first.
    pub(crate) threads: Vec<HeldThread>,
    /// By their addresses.
    pub(crate) areas: Vec<MappedArea>,
}

/// Appends numbers as the processor has them.
trait Put {
    fn put<const N: usize>(&mut self, bytes: [u8; N]);
    /// Zeros up to a multiple of `unit` bytes.
    fn align(&mut self, unit: usize);
}

impl Put for Vec<u8> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.extend_from_slice(&bytes);
    }

    fn align(&mut self, unit: usize) {
        self.resize(self.len().next_multiple_of(unit), 0);
    }
}
