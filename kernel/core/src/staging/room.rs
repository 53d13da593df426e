//! Memory for a file that is staged: its bytes, and beside them what shows of each piece that it is the file's.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::PAGE_BYTES;
use coppice_protocol::distribution::Plan;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::tree::{self, NODE_BYTES, TreeNode};

use crate::executor;
use crate::memory::SharedMemory;
use crate::memory::limits::STEP_PAGES;
use crate::process::NodeFacts;

/// See this module.
pub(super) struct Room {
    /// The bytes.
    pub(super) bytes: Arc<SharedMemory>,
    /// The proofs, one behind the other, each with as much room as the longest takes.
    proofs: SharedMemory,
    plan: Plan,
    content: ProgramId,
}

/// The pages of a piece: the first, and how many.
fn pages(plan: &Plan, piece: u32) -> (u64, u64) {
    let first = u64::from(piece) * u64::from(plan.piece_bytes) / PAGE_BYTES as u64;
    (first, u64::from(plan.piece_length(piece)).div_ceil(PAGE_BYTES as u64))
}

impl Room {
    /// Memory for all of a file, or nothing if there is not so much.
    pub(super) async fn reserve(plan: &Plan, content: ProgramId, node: &NodeFacts) -> Option<Self> {
        let memory = || SharedMemory::new(node.frames, Arc::clone(&node.retention), 0, None);
        let room = Self { bytes: Arc::new(memory()), proofs: memory(), plan: *plan, content };
        let proofs = u64::from(plan.pieces()) * u64::from(plan.proof_bytes());
        for (memory, bytes) in [(&*room.bytes, plan.bytes), (&room.proofs, proofs)] {
            let step = u64::from(STEP_PAGES) * PAGE_BYTES as u64;
            for offset in (0..bytes).step_by(step as usize) {
                memory.allocate(offset, step.min(bytes - offset), true).ok()?;
                executor::yield_now().await;
            }
        }
        Some(room)
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

    /// Whether a piece, all of whose packets were kept, is the file's. Others have their turns meanwhile. What it takes
    /// to see that is charged with the transfers.
    pub(super) async fn is_right(&self, piece: u32) -> bool {
        let (first, count) = pages(&self.plan, piece);
        let (mut leaves, mut page) = (Vec::with_capacity(count as usize), vec![0; PAGE_BYTES]);
        let end = u64::from(piece) * u64::from(self.plan.piece_bytes) + u64::from(self.plan.piece_length(piece));
        for number in first..first + count {
            let offset = number * PAGE_BYTES as u64;
            let length = (end - offset).min(PAGE_BYTES as u64) as usize;
            self.bytes.read(offset, &mut page[..length]);
            leaves.push(tree::leaf(self.plan.bytes, number, &page[..length]));
            if leaves.len().is_multiple_of(HASHED_PAGES) {
                executor::yield_now().await;
            }
        }
        coppice_hal::scrub::bytes(&mut page);
        let mut beside = vec![TreeNode::default(); tree::beside(self.plan.bytes, first, count).len()];
        self.proofs.read(u64::from(piece) * u64::from(self.plan.proof_bytes()), beside.as_flattened_mut());
        tree::program_of(self.plan.bytes, first, &leaves, &beside) == Some(self.content)
    }
}

/// Pages that are hashed in one go.
const HASHED_PAGES: usize = 4;
