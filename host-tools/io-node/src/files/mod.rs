//! Function shipping: system calls on files, executed here for the ranks of a job, inside the job's root only.
//!
//! The job sees its root as a chroot-ed process would: `..` at the root stays there, absolute symbolic links start at
//! the root. Every path is resolved either by one call of the host's kernel that takes the root for everything
//! ([`resolve`]) or by a walk of single components, each of which cap-std opens ([`walk`]); no path of a program is
//! ever resolved in any other way. What was found is held as an `O_PATH` descriptor, looked at, and only then acted on
//! through that very descriptor, so that nobody can swap it for something else in between, and so that FIFOs, sockets
//! and devices are never opened.
//!
//! One file per family of calls; each is a function of a rank's [`Files`] and the call's arguments. They are called on
//! threads of the job ([`Porter`]), as any of them may wait for a disk or a mount; only what the host has in memory is
//! read on the event loop ([`Source::read`]).

mod attributes;
mod data;
mod handles;
mod list;
mod modes;
mod names;
mod open;
pub(crate) mod plain;
mod porter;
mod resolve;
mod root;
mod status;
mod walk;

use std::sync::Arc;

use coppice_protocol::ship::Location;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

pub(crate) use data::{DiskCall, Read, ReadStart, Source, Whole, Write, WriteAt};
pub(crate) use porter::Porter;
pub(crate) use root::Root;

use self::handles::Handles;
use crate::descriptors::JobDescriptors;

/// What a call on files gives, or its Linux errno.
pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// The files of one rank: the root it shares with its job, and its own open handles.
#[derive(Debug)]
pub(crate) struct Files {
    root: Arc<Root>,
    handles: Handles,
}

impl Files {
    /// No files open yet, in `root`.
    #[must_use]
    pub(crate) fn new(root: Arc<Root>, job: Arc<JobDescriptors>) -> Self {
        Self { root, handles: Handles::new(job) }
    }

    /// Whether nothing is open.
    #[must_use]
    pub(crate) fn is_idle(&self) -> bool {
        self.handles.is_empty()
    }

    /// Where a path starts: the root, or the directory that was named by handle.
    fn start(&self, at: &Location) -> Result<walk::Start<'_>> {
        // An absolute path does not look at the directory at all, not even whether it is one.
        let base = match at.directory {
            Some(handle) if !at.path.starts_with(b"/") => Some(self.handles.directory(handle)?),
            _ => None,
        };
        walk::Start::new(&self.root, base)
    }

    /// The existing object a path names, as an `O_PATH` descriptor.
    fn find(&self, at: &Location, follow: bool) -> Result<OwnedFd> {
        self.start(at)?.find(at.path.as_bytes(), follow)
    }
}

/// The errno of an error of the standard library. cap-std's own refusals have none: they mean "outside".
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::ACCESS)
}

/// The path that names an open descriptor to the host's kernel: for the few calls that know no descriptors.
fn descriptor_path(descriptor: &impl std::os::fd::AsRawFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

#[cfg(test)]
mod tests;
