//! Memory for a file that is staged: its bytes, and beside them what shows of each piece that it is the file's.

use alloc::sync::{Arc, Weak};
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::scrub;
use coppice_protocol::distribution::Plan;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::tree::{self, NODE_BYTES, TreeNode};
use coppice_protocol::trees::Topology;

use super::site::Site;
use crate::executor;
use crate::memory::SharedMemory;
use crate::memory::limits::STEP_PAGES;
use crate::quota::{Charge, shared_bytes};

/// See this module.
pub(crate) struct Room {
    /// The bytes.
    pub(super) bytes: Arc<SharedMemory>,
    /// The proofs, one behind the other, each with as much room as the longest takes.
    proofs: SharedMemory,
    plan: Plan,
    /// What the file is.
    pub(super) content: ProgramId,
    /// What it takes of the kernel's heap.
    _charge: Charge,
}

/// What a member of a transfer has of a file's room.
pub(super) enum Hold {
    /// The room stays.
    Firm(Arc<Room>),
    /// It is there as long as nobody wants its memory.
    Loose(Weak<Room>),
}

impl Hold {
    /// The room, if it is there, for a moment.
    pub(super) fn get(&self) -> Option<Arc<Room>> {
        match self {
            Self::Firm(room) => Some(Arc::clone(room)),
            Self::Loose(room) => room.upgrade(),
        }
    }
}

/// The pages of a piece: the first, and how many.
fn pages(plan: &Plan, piece: u32) -> (u64, u64) {
    let first = u64::from(piece) * u64::from(plan.piece_bytes) / PAGE_BYTES as u64;
    (first, u64::from(plan.piece_length(piece)).div_ceil(PAGE_BYTES as u64))
}

/// Makes frames for all of a file. False if there are not so many, or its room was given back.
pub(super) async fn reserve(hold: &Hold, plan: &Plan) -> bool {
    let proofs = u64::from(plan.pieces()) * u64::from(plan.proof_bytes());
    let step = u64::from(STEP_PAGES) * PAGE_BYTES as u64;
    for (is_proof, bytes) in [(false, plan.bytes), (true, proofs)] {
        for offset in (0..bytes).step_by(step as usize) {
            let made = hold.get().is_some_and(|room| {
                let memory = if is_proof { &room.proofs } else { &*room.bytes };
                memory.allocate(offset, step.min(bytes - offset), true).is_ok()
            });
            if !made {
                return false;
            }
            executor::yield_now().await;
        }
    }
    true
}

/// What there was for a file that has no room, bytes: what is free, and what it has of that.
pub(super) fn free_bytes(hold: &Hold, site: Site<'_>) -> u64 {
    let taken = hold.get().map_or(0, |room| room.frames());
    (u64::from(site.frames.available_frames()) + taken) * PAGE_BYTES as u64
}

/// Whether a piece, all of whose packets were kept, is the file's; it is not if its room was given back. Others have
/// their turns meanwhile. What it takes to see that is charged with the transfers.
pub(super) async fn is_right(hold: &Hold, plan: &Plan, piece: u32) -> bool {
    let (first, count) = pages(plan, piece);
    let (mut leaves, mut page) = (Vec::with_capacity(count as usize), vec![0; PAGE_BYTES]);
    let end = u64::from(piece) * u64::from(plan.piece_bytes) + u64::from(plan.piece_length(piece));
    for number in first..first + count {
        let offset = number * PAGE_BYTES as u64;
        let length = (end - offset).min(PAGE_BYTES as u64) as usize;
        let read = hold.get().map(|room| room.bytes.read(offset, &mut page[..length]));
        if read != Some(length) {
            break;
        }
        leaves.push(tree::leaf(plan.bytes, number, &page[..length]));
        if leaves.len().is_multiple_of(HASHED_PAGES) {
            executor::yield_now().await;
        }
    }
    scrub::bytes(&mut page);
    let Some(room) = hold.get().filter(|_| leaves.len() as u64 == count) else { return false };
    let mut beside = vec![TreeNode::default(); tree::beside(plan.bytes, first, count).len()];
    room.proofs.read(u64::from(piece) * u64::from(plan.proof_bytes()), beside.as_flattened_mut());
    tree::program_of(plan.bytes, first, &leaves, &beside) == Some(room.content)
}

impl Room {
    /// What one takes of the heap, bytes.
    const BYTES: usize = shared_bytes::<Self>() + 2 * SharedMemory::BYTES;

    /// Room for a file, without any frames yet. `None` if the heap has no memory for it.
    pub(super) fn new(plan: &Plan, content: ProgramId, site: Site<'_>) -> Option<Self> {
        let charge = site.quota.charge(Self::BYTES).ok()?;
        // It may outlive the transfer, whose members are no matter here.
        let plan = Plan { topology: Topology::one_pset(), ..plan.clone() };
        let memory = || SharedMemory::new(site.frames, Arc::clone(site.retention), 0, None);
        Some(Self { bytes: Arc::new(memory()), proofs: memory(), plan, content, _charge: charge })
    }

    /// Whether the pieces of another transfer of the file lie as they do here.
    pub(super) fn fits(&self, plan: &Plan) -> bool {
        let shape = |plan: &Plan| (plan.bytes, plan.piece_bytes, plan.packet_bytes);
        shape(&self.plan) == shape(plan)
    }

    /// Frames that it takes, page tables included.
    pub(super) fn frames(&self) -> u64 {
        self.bytes.frames() + self.proofs.frames()
    }

    fn place(&self, piece: u32, packet: u32) -> (&SharedMemory, u64) {
        if self.plan.is_proof(piece, packet) {
            (&self.proofs, u64::from(piece) * u64::from(self.plan.proof_bytes()))
        } else {
            let inside = u64::from(packet) * u64::from(self.plan.packet_bytes);
            (&self.bytes, u64::from(piece) * u64::from(self.plan.piece_bytes) + inside)
        }
    }

    /// Keeps a packet.
    pub(super) fn write(&self, piece: u32, packet: u32, bytes: &[u8]) {
        let (memory, offset) = self.place(piece, packet);
        // There are frames for all of it.
        let _ = memory.write(Some(offset), bytes);
    }

    /// Puts a packet of a piece that is there into `out`. False if there is none such, or no memory for it.
    pub(super) fn read(&self, piece: u32, packet: u32, out: &mut Vec<u8>) -> bool {
        let Some(most) = self.plan.packet_length(piece, packet) else { return false };
        let length = if self.plan.is_proof(piece, packet) {
            let (first, count) = pages(&self.plan, piece);
            tree::beside(self.plan.bytes, first, count).len() * NODE_BYTES
        } else {
            most as usize
        };
        out.clear();
        if out.try_reserve(length).is_err() {
            return false;
        }
        out.resize(length, 0);
        let (memory, offset) = self.place(piece, packet);
        memory.read(offset, out) == length
    }
}

/// Pages that are hashed in one go.
const HASHED_PAGES: usize = 4;
