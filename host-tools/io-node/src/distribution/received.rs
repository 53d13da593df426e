//! A file that comes from another pset, to be passed on: in memory, as far as it is there, and only as long as somebody
//! may want it. Nothing of it is given to anybody before it was held against the file's tree. One that is broadcast was
//! taken into memory, and is there as a whole ([`Sent`]).

use std::collections::BTreeMap;
use std::rc::Rc;

use coppice_protocol::distribution::Plan;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::tree::TreeNode;
use coppice_protocol::program::{PAGE_BYTES, tree};
use coppice_protocol::staging::Roster;
use tokio::sync::OwnedSemaphorePermit;

use super::piece::Piece;

/// A file that is sent from memory.
#[derive(Debug)]
pub(crate) struct Sent {
    /// How.
    pub(crate) plan: Plan,
    /// To whom.
    pub(crate) roster: Roster,
    /// What it is.
    pub(crate) content: ProgramId,
    /// All of it.
    pub(crate) pieces: Vec<Piece>,
    /// For that.
    pub(crate) room: OwnedSemaphorePermit,
}

/// What a file of these pieces is, and they with what shows that they are its.
///
/// # Errors
/// They are not what is planned.
pub(crate) fn cut(plan: &Plan, pieces: Vec<Vec<u8>>) -> Result<(ProgramId, Vec<Piece>), String> {
    if !u64::from(plan.piece_bytes).is_multiple_of(PAGE_BYTES) {
        return Err("its pieces are not whole pages".to_owned());
    }
    let pages = pieces.iter().flat_map(|piece| piece.chunks(PAGE_BYTES as usize));
    let leaves: Vec<TreeNode> = (0..).zip(pages).map(|(page, bytes)| tree::leaf(plan.bytes, page, bytes)).collect();
    let nodes = tree::build(plan.bytes, &leaves);
    let content = ProgramId(*nodes.first().ok_or("its pieces are not all of it")?);
    let piece_pages = u64::from(plan.piece_bytes) / PAGE_BYTES;
    let piece = |(number, bytes): (u64, Vec<u8>)| {
        let pages = (bytes.len() as u64).div_ceil(PAGE_BYTES);
        let beside = tree::beside(plan.bytes, number * piece_pages, pages);
        let node = |place: &u64| usize::try_from(*place).ok().and_then(|place| nodes.get(place)).copied();
        let proof: Option<Vec<TreeNode>> = beside.iter().map(node).collect();
        Some(Piece { bytes, proof: proof?.as_flattened().to_vec() })
    };
    let pieces: Option<Vec<Piece>> = (0..).zip(pieces).map(piece).collect();
    Ok((content, pieces.ok_or("its tree is not whole")?))
}

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

    /// All of a file.
    pub(super) fn whole(plan: Plan, content: ProgramId, pieces: Vec<Piece>, room: OwnedSemaphorePermit) -> Self {
        let whole = (0..).zip(pieces.into_iter().map(Rc::new)).collect();
        Self { plan, content, coming: BTreeMap::new(), whole, _room: room }
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
