//! How many bytes a rank sends to which other nodes, while somebody wants to know.

use core::net::Ipv4Addr;

use coppice_protocol::ids::JobNode;
use coppice_protocol::overlay::Peers;

use super::Process;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(crate) struct SentTo {
    is_measured: AtomicBool,
    peers: Mutex<Peers>,
}

impl SentTo {
    /// Nobody wants to know.
    pub(crate) fn none() -> Self {
        Self { is_measured: AtomicBool::new(false), peers: Mutex::new(LockLevel::Fact, Peers::none()) }
    }

    /// Somebody does from now on, or nobody.
    pub(super) fn measure(&self, on: bool) {
        self.is_measured.store(on, Ordering::Relaxed);
        if !on {
            drop(core::mem::take(&mut *self.peers.lock()));
        }
    }

    /// What was sent since somebody wants to know.
    pub(crate) fn so_far(&self) -> Peers {
        self.peers.lock().clone()
    }
}

impl Process {
    /// Bytes went to that address of another node.
    pub(crate) fn sent_to(&self, address: Ipv4Addr, bytes: u64) {
        if self.sent_to.is_measured.load(Ordering::Relaxed) {
            let node = JobNode::of(address).and_then(|node| self.job.world.id_of(node));
            self.sent_to.peers.lock().add(node, bytes);
        }
    }
}
