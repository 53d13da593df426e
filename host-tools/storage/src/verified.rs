//! Which checkpoints were found to be what was written: beside the manifest of such a one there is a note with the hash
//! of the manifest's file, so that it says nothing of another that has its number later.

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::ids::JobId;
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::directory::read;
use crate::limits::MANIFEST_BYTES_MAX;
use crate::manifest::of_file;
use crate::manifests::file_name;
use crate::{Manifest, Result, Storage, StorageError};

/// Bytes of a note that are looked at: a name of an object, and a line's end.
const NOTE_BYTES: usize = 65;

fn note_name(number: u32) -> String {
    format!("{number}.verified")
}

impl Storage {
    /// Notes that a checkpoint is what was written, as [`Storage::verify`] found. After a crash of the host it may not
    /// be noted.
    ///
    /// # Errors
    /// [`StorageError::NoManifest`] if it is not there any more, or what the host says.
    pub fn note_verified(&self, manifest: &Manifest) -> Result<()> {
        let (job, number) = (manifest.job, manifest.number);
        let gone = || StorageError::NoManifest { job, number };
        let path = format!("jobs/{job}/{}", note_name(number));
        let directory = self.directory_of(job)?.ok_or_else(gone)?;
        let file = match read(&directory, &file_name(number), MANIFEST_BYTES_MAX) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Err(gone()),
            Err(error) => return Err(self.failed("read", &path, error)),
        };
        if of_file(&file).as_ref() != Ok(manifest) {
            return Err(gone());
        }
        let mut note = self.temporary()?;
        note.write(format!("{}\n", ObjectId::of(&file)).as_bytes())?;
        note.name_in(&directory, &note_name(number)).map_err(|error| self.failed("write", &path, error))
    }

    /// Whether it is noted that a checkpoint is what was written. What cannot be read is not.
    #[must_use]
    pub fn is_verified(&self, job: JobId, number: u32) -> bool {
        let Ok(Some(directory)) = self.directory_of(job) else { return false };
        let note = read(&directory, &note_name(number), NOTE_BYTES).ok();
        let noted = note.and_then(|note| String::from_utf8(note).ok()?.strip_suffix('\n')?.parse().ok());
        let file = || read(&directory, &file_name(number), MANIFEST_BYTES_MAX).ok();
        noted.is_some_and(|noted| file().is_some_and(|file| ObjectId::of(&file) == noted))
    }

    /// A checkpoint is about to be deleted. If it is not, it is one that is not verified.
    pub(crate) fn forget_verified(&self, directory: &OwnedFd, job: JobId, number: u32) -> Result<()> {
        match rustix::fs::unlinkat(directory, note_name(number), AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(self.failed("remove", &format!("jobs/{job}/{}", note_name(number)), error)),
        }
    }
}
