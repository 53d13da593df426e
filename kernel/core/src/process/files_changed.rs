//! Telling the mappings of a file what was done to it: those of all ranks of the job on the node.

use core::sync::atomic::Ordering;

use crate::files::Shipped;
use crate::memory::{FileChange, FileIdentity};
use crate::process::Process;

/// Something that is being done to a file at the I/O node: its mappings are told when this is dropped, however the call
/// ends. Unless it was said what was done, nothing that is known of the file is believed any more.
pub(crate) struct Changing<'a> {
    process: &'a Process,
    file: FileIdentity,
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
        Changing { process: self, file: file.identity(), change, is_said: false }
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
        for process in self.job.processes() {
            process.space.lock().file_changed(file, change);
        }
    }
}
