//! A job's `/dev/shm` as data, but for the bytes of its files.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;
use serde::{Deserialize, Serialize};

use super::{Facts, SharedFile, SharedFiles, is_staged};
use crate::errno::Errno;
use crate::memory::{Budget, SharedMemory};
use crate::quota::{Quota, shared_bytes};
use crate::sync::{LockLevel, Mutex};

/// A file. A staged one is staged again by whoever stages files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SharedFileRecord {
    inode: u64,
    /// The number of its memory.
    pub(crate) memory: u64,
    names: Vec<Vec<u8>>,
    user: u32,
    group: u32,
    facts: Facts,
    label: Option<Vec<u8>>,
}

impl SharedFiles {
    /// All that have names, and these, which may have none, each with its memory unless it is staged.
    pub(crate) fn record(&self, open: &[Arc<SharedFile>]) -> Vec<(SharedFileRecord, Option<Arc<SharedMemory>>)> {
        let mut files: Vec<(Arc<SharedFile>, Vec<Vec<u8>>)> = Vec::new();
        let mut add = |file: &Arc<SharedFile>, name: Option<&[u8]>| {
            let known = files.iter().position(|(known, _)| Arc::ptr_eq(known, file));
            let index = known.unwrap_or_else(|| {
                files.push((Arc::clone(file), Vec::new()));
                files.len() - 1
            });
            files[index].1.extend(name.map(<[u8]>::to_vec));
        };
        open.iter().for_each(|file| add(file, None));
        self.names.lock().iter().for_each(|(name, named)| add(&named.file, Some(name)));
        let record = |(file, names): (Arc<SharedFile>, Vec<Vec<u8>>)| {
            let is_staged = names.iter().any(|name| is_staged(name));
            let record = SharedFileRecord {
                inode: file.inode,
                memory: file.memory.id(),
                names,
                user: file.user,
                group: file.group,
                facts: *file.facts.lock(),
                label: file.label.as_ref().map(|label| label.to_vec()),
            };
            (record, (!is_staged).then(|| Arc::clone(&file.memory)))
        };
        files.into_iter().map(record).collect()
    }

    /// What files may take of the node's memory.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Makes files again that show these memories, by their numbers. Gives all by their inodes, those included that
    /// were staged and are there again, whose memories are known from then on, too.
    ///
    /// # Errors
    /// `ENOENT`: a staged one is not there, or a memory. `ENOMEM`, `EEXIST`, `ENOSPC`.
    pub(crate) fn restore(
        &self,
        records: Vec<SharedFileRecord>,
        memories: &mut BTreeMap<u64, Arc<SharedMemory>>,
        quota: &Arc<Quota>,
    ) -> Result<BTreeMap<u64, Arc<SharedFile>>, Errno> {
        let mut files = BTreeMap::new();
        for record in records {
            let inode = record.inode;
            let file = match record.names.iter().find(|name| is_staged(name)) {
                Some(staged) => {
                    let file = self.find(staged)?;
                    memories.insert(record.memory, Arc::clone(&file.memory));
                    file
                }
                None => self.make_again(record, memories, quota)?,
            };
            files.insert(inode, file);
        }
        Ok(files)
    }

    fn make_again(
        &self,
        record: SharedFileRecord,
        memories: &BTreeMap<u64, Arc<SharedMemory>>,
        quota: &Arc<Quota>,
    ) -> Result<Arc<SharedFile>, Errno> {
        let memory = memories.get(&record.memory).map(Arc::clone).ok_or(Errno::ENOENT)?;
        let label = record.label.map(Vec::into_boxed_slice);
        let label_bytes = label.as_ref().map_or(0, |label| block_bytes(label.len()));
        crate::files::serials_from(record.inode);
        let file = Arc::new(SharedFile {
            memory,
            inode: record.inode,
            user: record.user,
            group: record.group,
            facts: Mutex::new(LockLevel::Fact, record.facts),
            label,
            // The memory is charged with whoever made it.
            _charge: quota.charge(shared_bytes::<SharedFile>() + label_bytes)?,
        });
        for name in record.names {
            self.insert(&name, Arc::clone(&file), quota)?;
        }
        Ok(file)
    }
}
