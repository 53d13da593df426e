//! Pieces in memory: their bytes, with the nodes of the file's tree that show that they are the file's; and a few of
//! them that are kept, because each goes to several members.

use std::collections::VecDeque;
use std::rc::Rc;

use coppice_protocol::distribution::Plan;
use coppice_protocol::program::PAGE_BYTES;
use rustix::io::Errno;

use crate::disk::{PagesStart, Program};
use crate::files::Result;
use crate::limits::PIECES_KEPT_PER_TRANSFER;

/// A piece, in memory.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) proof: Vec<u8>,
}

impl Piece {
    /// Begins to read a piece, without waiting.
    ///
    /// # Errors
    /// As pread(2).
    pub(super) fn start(plan: &Plan, file: &Program, piece: u32) -> Result<PagesStart> {
        // A plan's pieces are whole pages: see [`super::staged::open`].
        let pages = u64::from(plan.piece_bytes) / PAGE_BYTES;
        let first = u64::from(piece).checked_mul(pages).ok_or(Errno::INVAL)?;
        file.part(first, pages)
    }

    /// Reads the rest of it, however long that takes.
    ///
    /// # Errors
    /// As pread(2); `EIO` if the file has another length by now.
    pub(super) fn finish(plan: &Plan, piece: u32, start: PagesStart) -> Result<Self> {
        let (bytes, beside) = start.wait()?;
        let proof = beside.as_flattened().to_vec();
        let is_right = bytes.len() as u64 == u64::from(plan.piece_length(piece))
            && proof.len() as u64 <= u64::from(plan.proof_bytes());
        if is_right { Ok(Self { bytes, proof }) } else { Err(Errno::IO) }
    }

    /// The bytes of one of its packets.
    pub(super) fn packet(&self, plan: &Plan, piece: u32, packet: u32) -> Option<&[u8]> {
        if plan.is_proof(piece, packet) {
            return Some(&self.proof);
        }
        let index = usize::try_from(packet).ok()?;
        self.bytes.chunks(usize::try_from(plan.packet_bytes.max(1)).ok()?).nth(index)
    }
}

/// The pieces that were wanted last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pieces: VecDeque<(u32, Rc<Piece>)>,
}

impl Kept {
    /// One of them.
    pub(super) fn get(&mut self, piece: u32) -> Option<Rc<Piece>> {
        let index = self.pieces.iter().position(|(kept, _)| *kept == piece)?;
        let found = self.pieces.remove(index)?;
        let content = Rc::clone(&found.1);
        self.pieces.push_back(found);
        Some(content)
    }

    /// One more, instead of the one that nobody wanted for longest.
    pub(super) fn keep(&mut self, piece: u32, content: Rc<Piece>) {
        if self.pieces.len() >= PIECES_KEPT_PER_TRANSFER {
            self.pieces.pop_front();
        }
        self.pieces.push_back((piece, content));
    }
}
