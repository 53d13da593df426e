//! The directory itself: how it is made and known again, and how a file gets into it whole or not at all.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::limits::NAMES_TRIED_MAX;
use crate::packs::Packs;
use crate::{Result, StorageError};

/// What the format file says.
const FORMAT: &[u8] = b"coppice-checkpoints 1\n";

/// Where that is.
const FORMAT_FILE: &str = "format";

/// Bytes of a format file that are looked at.
const FORMAT_BYTES_MAX: usize = 64;

/// Only the cluster's user is to see what was in programs' memory.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// The same.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How directories are opened.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An open storage directory. It may be used from any thread, and by several processes at once.
#[derive(Debug)]
pub struct Storage {
    path: PathBuf,
    pub(crate) directory: OwnedFd,
    pub(crate) objects: OwnedFd,
    pub(crate) packs: Packs,
    pub(crate) jobs: OwnedFd,
    temporary: OwnedFd,
    /// Files that were made in `temporary`.
    made: AtomicU64,
    /// The disk lost something.
    has_failed: AtomicBool,
}

/// A file in `temporary`, which goes if it gets no other name.
#[derive(Debug)]
pub(crate) struct Temporary<'a> {
    storage: &'a Storage,
    name: String,
    file: File,
    is_named: bool,
}

impl Storage {
    /// Opens the directory, which is made if it is not there, or empty.
    ///
    /// # Errors
    /// [`StorageError::Version`] for one of another version, [`StorageError::NotOurs`] for one that has something else
    /// in it, or what the host says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |what, error| host(what, path, error);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| failed("make", errno(&error)))?;
        let directory =
            rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty()).map_err(|error| failed("open", error))?;
        let found = read_format(&directory).map_err(|error| host("read", &path.join(FORMAT_FILE), error))?;
        match &found {
            Some(found) if found != FORMAT => {
                return Err(StorageError::Version { path: path.to_owned(), found: found.clone() });
            }
            Some(_) => {}
            // Somebody else may be making it at this moment, or was killed while he did.
            None => {
                let is_ours = |name: &String| {
                    matches!(name.as_str(), "objects" | "packs" | "jobs" | "temporary" | FORMAT_FILE | "lost+found")
                };
                let names = names(&directory).map_err(|error| failed("read", error))?;
                if !names.iter().all(is_ours) {
                    return Err(StorageError::NotOurs(path.to_owned()));
                }
            }
        }
        let [objects, packs, jobs, temporary] = ["objects", "packs", "jobs", "temporary"].map(|name| {
            make_directory(&directory, name).map_err(|error| host("make", &path.join(name), error))?;
            open_directory(&directory, name).map_err(|error| host("open", &path.join(name), error))
        });
        let storage = Self {
            path: path.to_owned(),
            directory,
            objects: objects?,
            packs: Packs::new(packs?),
            jobs: jobs?,
            temporary: temporary?,
            made: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        };
        if found.is_none() {
            storage.write_format()?;
        }
        Ok(storage)
    }

    fn write_format(&self) -> Result<()> {
        let mut file = self.temporary()?;
        file.write(FORMAT)?;
        file.synchronise()?;
        file.name_in(&self.directory, FORMAT_FILE).map_err(|error| self.failed("write", FORMAT_FILE, error))?;
        rustix::fs::fsync(&self.directory).map_err(|error| self.failed("write", "", error))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directories that whoever only puts objects and gets them works in: to be kept in these by the host's kernel.
    /// In all, files and directories are made, read and renamed, and in `temporary` files are removed.
    #[must_use]
    pub fn work_directories(&self) -> [BorrowedFd<'_>; 3] {
        [self.objects.as_fd(), self.packs.directory.as_fd(), self.temporary.as_fd()]
    }

    /// Has everything that was put so far, by whomever, on stable storage.
    ///
    /// # Errors
    /// What the host says. Then something was lost, and nobody can say what: so all later calls, and those at the same
    /// time, fail as well ([`StorageError::Failed`]). Objects that no manifest reaches have to be collected before the
    /// next checkpoint is made with another [`Storage`].
    pub fn settle(&self) -> Result<()> {
        self.settled(rustix::fs::syncfs(&self.objects))
    }

    /// Has what was written to a file be on stable storage, as [`Self::settle`] would later.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub(crate) fn settle_file(&self, file: &File) -> Result<()> {
        self.settled(rustix::fs::fdatasync(file))
    }

    fn settled(&self, result: rustix::io::Result<()>) -> Result<()> {
        if result.is_err() {
            // The host says it once for each open file or directory, to whoever asks first.
            self.has_failed.store(true, Ordering::SeqCst);
        }
        result.map_err(|error| self.failed("write", "", error))?;
        if self.has_failed.load(Ordering::SeqCst) { Err(StorageError::Failed(self.path.clone())) } else { Ok(()) }
    }

    /// Removes what those left in `temporary` who were killed, and says how many files that was. Nobody may write
    /// meanwhile.
    ///
    /// # Errors
    /// What the host says.
    pub fn sweep(&self) -> Result<u64> {
        let names = names(&self.temporary).map_err(|error| self.failed("read", "temporary", error))?;
        let mut swept = 0;
        for name in names {
            rustix::fs::unlinkat(&self.temporary, &name, AtFlags::empty())
                .map_err(|error| self.failed("remove", &format!("temporary/{name}"), error))?;
            swept += 1;
        }
        Ok(swept)
    }

    /// A new file, which has no name that means anything.
    pub(crate) fn temporary(&self) -> Result<Temporary<'_>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut result = Err(Errno::EXIST);
        for _ in 0..NAMES_TRIED_MAX {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", std::process::id());
            result = rustix::fs::openat(&self.temporary, &name, flags, FILE_MODE).map(|file| (name, file));
            // Left by a process that had this one's number, or of another host's.
            if !matches!(result, Err(Errno::EXIST)) {
                break;
            }
        }
        let (name, file) = result.map_err(|error| self.failed("make a file in", "temporary", error))?;
        Ok(Temporary { storage: self, name, file: file.into(), is_named: false })
    }

    /// The host does not do something to what has that path in the directory.
    pub(crate) fn failed(&self, what: &'static str, path: &str, error: Errno) -> StorageError {
        let path = if path.is_empty() { self.path.clone() } else { self.path.join(path) };
        StorageError::Host { what, path, error }
    }
}

impl Temporary<'_> {
    /// Writes to it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.failed(errno(&error)))
    }

    /// Has writes fail from now on.
    #[cfg(test)]
    pub(crate) fn fail(&mut self) {
        self.file = File::open("/dev/null").expect("there always is one");
    }

    /// The file.
    pub(crate) fn file(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| self.failed(errno(&error)))
    }

    /// Which file it is in its file system.
    pub(crate) fn inode(&self) -> Result<u64> {
        rustix::fs::fstat(&self.file).map(|status| status.st_ino).map_err(|error| self.failed(error))
    }

    /// Has it on stable storage.
    pub(crate) fn synchronise(&self) -> Result<()> {
        rustix::fs::fsync(&self.file).map_err(|error| self.failed(error))
    }

    /// Gives it its name. It may be the name of another, which is gone then.
    pub(crate) fn name_in(&mut self, directory: &impl AsFd, name: &str) -> rustix::io::Result<()> {
        rustix::fs::renameat(&self.storage.temporary, &self.name, directory, name)?;
        self.is_named = true;
        Ok(())
    }

    fn failed(&self, error: Errno) -> StorageError {
        self.storage.failed("write", &format!("temporary/{}", self.name), error)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // One that stays is found by whoever sweeps.
            let _removed = rustix::fs::unlinkat(&self.storage.temporary, &self.name, AtFlags::empty());
        }
    }
}

/// The errno of an error of the standard library.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn host(what: &'static str, path: &Path, error: Errno) -> StorageError {
    StorageError::Host { what, path: path.to_owned(), error }
}

/// Makes a directory. It may be there; says whether it was not.
pub(crate) fn make_directory(at: &impl AsFd, name: &str) -> rustix::io::Result<bool> {
    match rustix::fs::mkdirat(at, name, DIRECTORY_MODE) {
        Err(Errno::EXIST) => Ok(false),
        made => made.map(|()| true),
    }
}

/// Opens a directory in another.
pub(crate) fn open_directory(at: &impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(at, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

/// Reads a file, but not more than `max` bytes and one, which says that it is longer.
pub(crate) fn read(at: &impl AsFd, name: &str, max: usize) -> rustix::io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(at, name, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(max as u64 + 1).read_to_end(&mut bytes).map_err(|error| errno(&error))?;
    Ok(bytes)
}

/// What is in a directory. Names that are no UTF-8, which are none of ours, are not what they are.
pub(crate) fn names(directory: &impl AsFd) -> rustix::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Ok("." | "..") => {}
            Ok(name) => names.push(name.to_owned()),
            Err(_) => names.push(entry.file_name().to_string_lossy().into_owned()),
        }
    }
    Ok(names)
}

/// What the format file says, if there is one.
fn read_format(directory: &OwnedFd) -> rustix::io::Result<Option<Vec<u8>>> {
    match read(directory, FORMAT_FILE, FORMAT_BYTES_MAX) {
        Err(Errno::NOENT) => Ok(None),
        read => read.map(Some),
    }
}
