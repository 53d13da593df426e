//! What goes wrong in a storage directory, in one line each: what, where, and what to do.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coppice_protocol::checkpoint::{OBJECT_BYTES_MAX, ObjectId};
use coppice_protocol::ids::JobId;
use coppice_protocol::text::Shown;
use rustix::io::Errno;

use crate::limits::MANIFEST_BYTES_MAX;
#[cfg(doc)]
use crate::{Manifest, Storage};

/// See this module.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The host does not do it.
    #[error("cannot {what} '{}': {}", shown(path), in_words(*error))]
    Host {
        /// What was to be done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// What the host says.
        error: Errno,
    },
    /// The directory is of another version of Coppice.
    #[error(
        "'{}' keeps checkpoints of another format ('{}'); use the Coppice that made it, or another directory",
        shown(path),
        Shown(found)
    )]
    Version {
        /// The directory.
        path: PathBuf,
        /// What its format file says.
        found: Vec<u8>,
    },
    /// There is something else in the directory.
    #[error("'{}' is not empty and keeps no checkpoints; name a directory of its own", shown(.0))]
    NotOurs(PathBuf),
    /// The disk lost something that was put earlier, and nobody knows what.
    #[error("the disk of '{}' lost what was written; look into the host's log, and bring the cluster up again",
        shown(.0))]
    Failed(PathBuf),
    /// More bytes than an object has.
    #[error("an object of {0} bytes is not kept: it has {OBJECT_BYTES_MAX} at most")]
    TooLong(usize),
    /// There is no such object.
    #[error("object {0} is missing; what refers to it cannot be restored")]
    Missing(ObjectId),
    /// An object is not what was put.
    #[error("object {0} is damaged; what refers to it cannot be restored")]
    Damaged(ObjectId),
    /// There is no such checkpoint.
    #[error("job {job} has no checkpoint {number}; `coppice checkpoints {job}` lists those it has")]
    NoManifest {
        /// Of that job.
        job: JobId,
        /// With that number.
        number: u32,
    },
    /// A manifest is not what was written.
    #[error("checkpoint {number} of job {job} is damaged ({why}); delete it")]
    DamagedManifest {
        /// Of that job.
        job: JobId,
        /// With that number.
        number: u32,
        /// What is wrong.
        why: String,
    },
    /// There is one with that number already.
    #[error("job {job} has a checkpoint {number} already; it is not written over")]
    ManifestExists {
        /// Of that job.
        job: JobId,
        /// With that number.
        number: u32,
    },
    /// A manifest is not written.
    #[error("checkpoint {number} of job {job} has a manifest of {bytes} bytes; it has {MANIFEST_BYTES_MAX} at most")]
    ManifestTooLong {
        /// Of that job.
        job: JobId,
        /// With that number.
        number: u32,
        /// How long it is.
        bytes: usize,
    },
    /// A part of a checkpoint cannot be restored.
    #[error("checkpoint {number} of job {job} is not whole, at {part}: {why}; delete it")]
    NotWhole {
        /// Of that job.
        job: JobId,
        /// With that number.
        number: u32,
        /// Which part.
        part: String,
        /// What is wrong.
        why: Box<Self>,
    },
    /// An object is the beginning of a part, or goes on with one, and says nothing of the kind.
    #[error("object {0} does not list objects")]
    NoListing(ObjectId),
}

impl StorageError {
    /// What the host said, if it was the host.
    #[must_use]
    pub const fn host_error(&self) -> Option<Errno> {
        if let Self::Host { error, .. } = self { Some(*error) } else { None }
    }
}

/// A path as people are shown it.
fn shown(path: &Path) -> Shown<'_> {
    Shown(path.as_os_str().as_bytes())
}

/// What the host says and, where it is not that, what to do.
fn in_words(error: Errno) -> String {
    let advice = match error {
        Errno::NOSPC | Errno::DQUOT => "; make room, or name another directory",
        Errno::ACCESS | Errno::PERM => "; make it yours, or name another directory",
        Errno::ROFS => "; name another directory",
        _ => "",
    };
    // Without "(os error 28)".
    let text = std::io::Error::from(error).to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    format!("{words}{advice}")
}
