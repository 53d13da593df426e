//! Open files as what mappings show.

use alloc::sync::Arc;

use super::open_file::{Object, OpenFile, Shipped};
use crate::memory::{FileIdentity, FileSource, SharedMemory};

impl FileSource for OpenFile {
    fn identity(&self) -> FileIdentity {
        match &self.object {
            Object::Shipped(shipped) => shipped.identity(),
            // Nothing else that is mapped ever changes.
            _ => FileIdentity { device: u64::MAX, inode: 0 },
        }
    }

    fn is_shown_by(&self, memory: &Arc<SharedMemory>) {
        if let Some(cached) = self.as_shipped().and_then(Shipped::cached) {
            cached.is_shown_by(memory);
        }
    }
}
