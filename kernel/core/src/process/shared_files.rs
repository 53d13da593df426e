//! What the files in `/dev/shm` are told of processes: who makes one, and whose memory shows one.

use alloc::sync::Arc;

use crate::files::shared::{Maker, Viewers};
use crate::memory::SharedMemory;
use crate::process::{JobOnNode, NodeFacts, Process};

impl Process {
    /// As who it makes shared files.
    pub(crate) fn as_maker(&self) -> Maker<'_> {
        let NodeFacts { frames, retention, quota, .. } = &self.node;
        Maker { frames, retention, quota, user: self.identity.user, group: self.identity.group }
    }
}

impl Viewers for JobOnNode {
    fn may_write(&self, memory: &Arc<SharedMemory>) -> bool {
        self.processes().iter().any(|process| process.space.lock().may_write(memory))
    }

    async fn forget(&self, memory: &Arc<SharedMemory>, first: u64) {
        for process in self.processes() {
            process.forget_shared(memory, first).await;
        }
    }
}
