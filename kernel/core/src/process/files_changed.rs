//! Telling the mappings of a file what was done to it: those of all ranks of the job on the node.

use core::sync::atomic::Ordering;

use crate::files::Shipped;
use crate::memory::{FileChange, FileIdentity};
use crate::process::Process;

/// Something that is being done to a file: its mappings are told when this is dropped, however the call ends.
pub(crate) struct Changing<'a> {
    process: &'a Process,
    file: FileIdentity,
    change: FileChange,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.process.file_changed(self.file, &self.change);
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
        Changing { process: self, file: file.identity(), change }
    }

    /// Something was done to a file.
    pub(crate) fn file_changed(&self, file: FileIdentity, change: &FileChange) {
        if !self.has_mapped_files() {
            return;
        }
        for process in self.job.processes() {
            process.space.lock().file_changed(file, change);
        }
    }
}
