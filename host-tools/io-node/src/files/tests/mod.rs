//! Tests of the calls on files, in temporary directories.

mod calls;
mod data;
mod escapes;
mod modes;
mod names;
mod oracle;
mod wall;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coppice_protocol::ship::{Handle, Location};
use rustix::fs::OFlags;
use tempfile::TempDir;

use super::{Files, Result, Root};
use crate::descriptors::Descriptors;

/// A root with a secret beside it.
struct Bench {
    dir: TempDir,
    files: Files,
}

impl Bench {
    fn new() -> Self {
        Self::with(guarded)
    }

    /// One whose files are opened where that is asked for, as where the host's kernel has no Landlock.
    fn unguarded() -> Self {
        Self::with(|root| root)
    }

    /// One that walks every path, as where the host's kernel has no `openat2`, or that does not have to.
    fn resolving(walks: bool) -> Self {
        let bench = Self::new();
        if walks {
            bench.files.root.always_walk();
        }
        bench
    }

    fn with(guard: impl FnOnce(Root) -> Root) -> Self {
        rustix::process::umask(rustix::fs::Mode::empty());
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("root")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        let root = Root::open(dir.path().join("root").to_str().unwrap()).unwrap();
        Self { dir, files: files_in(guard(root)) }
    }

    fn host(&self, path: &str) -> PathBuf {
        self.dir.path().join("root").join(path)
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<Handle> {
        self.files.open(&at(path), flags.bits(), 0o644).map(|(handle, _)| handle)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.host(path), text).unwrap();
    }

    fn link(&self, path: &str, text: impl AsRef<Path>) {
        std::os::unix::fs::symlink(text, self.host(path)).unwrap();
    }
}

/// A root whose files are opened by a thread of its own, as a job's are. It ends with the root.
fn guarded(root: Root) -> Root {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (root, duty) = root.guard(None);
        sender.send(root).unwrap();
        duty.serve();
    });
    receiver.recv().unwrap()
}

/// The files of the only rank of a job with this root.
fn files_in(root: Root) -> Files {
    let job = Descriptors::of_limit(100_000).for_job(1, 0).unwrap();
    Files::new(Arc::new(root), Arc::new(job))
}

/// A path from the root.
fn at(path: &str) -> Location {
    Location { directory: None, path: path.into() }
}

/// A path from a directory.
fn below(directory: Handle, path: &str) -> Location {
    Location { directory: Some(directory), path: path.into() }
}
