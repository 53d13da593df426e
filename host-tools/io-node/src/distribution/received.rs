//! A file that comes from another pset, to be passed on: in memory, as far as it is there, and only as long as somebody
//! may want it. Nothing of it is given to anybody before it was held against the file's tree.

use std::collections::BTreeMap;
use std::rc::Rc;

use coppice_protocol::distribution::Plan;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::{PAGE_BYTES, tree};
use tokio::sync::OwnedSemaphorePermit;

use super::piece::Piece;

/// See this module.
#[derive(Debug)]
pub(super) struct Received {
    plan: Plan,
    content: ProgramId,
    /// Pieces of which something came.
    coming: BTreeMap<u32, Piece>,
    /// Pieces that are right.
    whole: BTreeMap<u32, Rc<Piece>>,
    /// For all of them.
    _room: OwnedSemaphorePermit,
}

impl Received {
    /// Nothing yet of a file with that hash. There is to be room for all of it.
    pub(super) const fn new(plan: Plan, content: ProgramId, room: OwnedSemaphorePermit) -> Self {
        Self { plan, content, coming: BTreeMap::new(), whole: BTreeMap::new(), _room: room }
    }

    /// A packet of a piece came.
    pub(super) fn keep(&mut self, piece: u32, packet: u32, bytes: &[u8]) {
        self.coming.entry(piece).or_default().keep(&self.plan, piece, packet, bytes);
    }

    /// Whether a piece, all of whose packets came, is right; then it is there from now on.
    pub(super) fn check(&mut self, number: u32) -> bool {
        let Some(piece) = self.coming.remove(&number) else { return false };
        let first = u64::from(number) * (u64::from(self.plan.piece_bytes) / PAGE_BYTES);
        let is_right = piece.program(self.plan.bytes, first) == Some(self.content);
        if is_right {
            self.whole.insert(number, Rc::new(piece));
        }
        is_right
    }

    /// A piece that is there.
    pub(super) fn get(&self, piece: u32) -> Option<Rc<Piece>> {
        self.whole.get(&piece).map(Rc::clone)
    }
}

impl Piece {
    /// Puts a packet where it belongs.
    fn keep(&mut self, plan: &Plan, piece: u32, packet: u32, packet_bytes: &[u8]) {
        if plan.is_proof(piece, packet) {
            self.proof = packet_bytes.to_vec();
            return;
        }
        // Both are no longer than a piece.
        let start = packet as usize * plan.packet_bytes as usize;
        let length = plan.piece_length(piece) as usize;
        self.bytes.resize(length, 0);
        if let Some(place) = self.bytes.get_mut(start..start + packet_bytes.len()) {
            place.copy_from_slice(packet_bytes);
        }
    }

    /// What file of so many bytes it belongs to, if its first page is that one; `None` if its proof is none.
    fn program(&self, file_bytes: u64, first: u64) -> Option<ProgramId> {
        let pages = (first..).zip(self.bytes.chunks(PAGE_BYTES as usize));
        let leaves: Vec<_> = pages.map(|(page, bytes)| tree::leaf(file_bytes, page, bytes)).collect();
        let (beside, rest) = self.proof.as_chunks();
        if rest.is_empty() { tree::program_of(file_bytes, first, &leaves, beside) } else { None }
    }
}
