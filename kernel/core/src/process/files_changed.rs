//! Telling the mappings of a file what was done to it: those of all ranks of the job on the node.

use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::Ordering;

use coppice_hal::addr::PAGE_BYTES;

use crate::files::Shipped;
use crate::files::cache::{CachedFile, Mappers, Outside};
use crate::memory::{FileChange, FileIdentity, SharedMemory};
use crate::process::{JobOnNode, Process};

/// Something that is being done to a file at the I/O node: its mappings are told when this is dropped, however the call
/// ends. Unless it was said what was done, nothing that is known of the file is believed any more.
pub(crate) struct Changing<'a> {
    process: &'a Process,
    file: FileIdentity,
    _outside: Option<Outside>,
    change: FileChange,
    is_said: bool,
}

impl Changing<'_> {
    /// This was done; nothing at all if there is no change.
    pub(crate) fn is(mut self, change: Option<&FileChange>) {
        self.is_said = true;
        if let Some(change) = change {
            self.process.job.cache.changed(self.file, change);
        }
    }

    /// This was done, and not what was about to be.
    pub(crate) fn became(mut self, change: FileChange) {
        self.change = change.clone();
        self.is(Some(&change));
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if !self.is_said {
            self.process.job.cache.is_unsure(self.file);
        }
        self.process.file_shown(self.file, &self.change);
    }
}

impl Process {
    /// A file was mapped: from now on its changes are told.
    pub(crate) fn maps_files(&self) {
        self.job.maps_files.store(true, Ordering::Relaxed);
    }

    /// Whether any rank of the job here has ever mapped a file.
    pub(crate) fn has_mapped_files(&self) -> bool {
        self.job.maps_files.load(Ordering::Relaxed)
    }

    /// Something is about to be done to a file.
    #[must_use]
    pub(crate) fn changing(&self, file: &Shipped, change: FileChange) -> Changing<'_> {
        let outside = file.cached().map(CachedFile::outside);
        Changing { process: self, file: file.identity(), _outside: outside, change, is_said: false }
    }

    /// Something was done to a file at the I/O node.
    pub(crate) fn file_changed(&self, file: FileIdentity, change: &FileChange) {
        self.job.cache.changed(file, change);
        self.file_shown(file, change);
    }

    /// Mappings of a file are to show what was done to it.
    pub(crate) fn file_shown(&self, file: FileIdentity, change: &FileChange) {
        if !self.has_mapped_files() {
            return;
        }
        let processes = self.job.processes();
        for process in &processes {
            process.space.lock().file_changed(file, change);
        }
        let Some(mapped) = self.job.cache.mapped(file) else { return };
        // What was read before the change is taken in by nobody now. What was taken in before goes, and with it what
        // one process may have got of it meanwhile.
        let (bytes, all) = match change {
            FileChange::Written(bytes) | FileChange::Inside(bytes) => {
                mapped.forget_file(bytes);
                (bytes.clone(), false)
            }
            FileChange::Cut(length) => {
                let last = length - length % PAGE_BYTES as u64;
                mapped.forget_file(&(last..u64::MAX));
                mapped.cut_file(*length);
                (length.next_multiple_of(PAGE_BYTES as u64)..u64::MAX, true)
            }
        };
        for process in &processes {
            process.space.lock().forget_mapped(&mapped, &bytes, all);
        }
    }
}

impl Mappers for JobOnNode {
    fn protect(&self, memory: &Arc<SharedMemory>, bytes: &Range<u64>) {
        for process in self.processes() {
            process.space.lock().protect_mapped(memory, bytes);
        }
    }

    fn forget(&self, memory: &Arc<SharedMemory>) {
        for process in self.processes() {
            process.space.lock().forget_mapped(memory, &(0..u64::MAX), true);
        }
    }
}
