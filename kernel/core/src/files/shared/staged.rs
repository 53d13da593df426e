//! A job's staged files ([`crate::staging`]), which lie among those of `/dev/shm`: sealed, and their names are absolute
//! paths.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use coppice_hal::heap::block_bytes;
use coppice_protocol::control::Launch;
use coppice_protocol::text::ByteString;

use super::{Facts, Named, SharedFile, SharedFiles, now, seals};
use crate::errno::Errno;
use crate::files::serial;
use crate::limits::NAME_PLACE_BYTES;
use crate::memory::SharedMemory;
use crate::quota::{Quota, shared_bytes};
use crate::sync::{LockLevel, Mutex};

/// Whether a name is that of a staged file: such are absolute paths.
pub(super) fn is_staged(name: &[u8]) -> bool {
    name.starts_with(b"/")
}

impl SharedFiles {
    /// Adds a file that is staged at an absolute path: it is read, and nothing else. No name in `/dev/shm` is like it.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC`, `ENOMEM`.
    pub(crate) fn add_staged(
        &self,
        path: &[u8],
        memory: Arc<SharedMemory>,
        order: &Launch,
        quota: &Arc<Quota>,
    ) -> Result<(), Errno> {
        let charge = quota.charge(shared_bytes::<SharedFile>() + SharedMemory::BYTES)?;
        let name = quota.charge(block_bytes(path.len()) + NAME_PLACE_BYTES)?;
        let now = now();
        let facts = Facts { mode: 0o444, links: 1, accessed: now, modified: now, changed: now, seals: seals::ALL };
        let file = SharedFile {
            memory,
            inode: serial(),
            user: order.user,
            group: order.group,
            facts: Mutex::new(LockLevel::Fact, facts),
            label: None,
            _charge: charge,
        };
        let mut names = self.names.lock();
        if names.contains_key(path) {
            return Err(Errno::EEXIST);
        }
        names.insert(path.to_vec(), Named { file: Arc::new(file), _charge: name });
        self.has_staged.store(true, Ordering::Release);
        Ok(())
    }

    /// The name of the file that is staged at an absolute path, if one is.
    pub(crate) fn staged(&self, path: &[u8]) -> Option<ByteString> {
        if !self.has_staged.load(Ordering::Acquire) {
            return None;
        }
        let mut name = Vec::new();
        for part in path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")) {
            name.push(b'/');
            name.extend_from_slice(part);
        }
        self.names.lock().contains_key(&name).then(|| name.into())
    }
}
