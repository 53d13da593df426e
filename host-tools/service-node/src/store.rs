//! The programs' bytes: one file per program, named by its hash, never changed once it has its name; beside it one with
//! its hash tree ([`coppice_protocol::program::tree`]).
//!
//! I/O nodes serve pages from here, so that a program may be rebuilt on the host while it runs on the nodes. A program
//! is copied and hashed in one go, so that what is stored is what was hashed even if the file changes meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::{self, PAGE_BYTES, tree};

use crate::database::{FileKey, ProgramRow};
use crate::limits::PROGRAM_BYTES_MAX;

/// Bytes read at a time: whole pages.
const COPY_BYTES: usize = 64 * PAGE_BYTES as usize;

/// End of the names of files that are not whole yet.
const PARTIAL: &str = ".partial";

/// Why a file is no program that can be run.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read.
    #[error("cannot read program '{path}': {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: String,
    },
    /// It is a directory or a device.
    #[error("'{0}' is not a file; name a program")]
    NotAFile(PathBuf),
    /// Longer than [`PROGRAM_BYTES_MAX`].
    #[error("program '{path}' is too long: {bytes} bytes, at most {PROGRAM_BYTES_MAX}")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length, bytes.
        bytes: u64,
    },
    /// It is no static program for this machine.
    #[error("cannot run '{path}': {error}")]
    Program {
        /// The file.
        path: PathBuf,
        /// Why.
        error: program::ProgramError,
    },
    /// Somebody wrote to it while it was read.
    #[error("program '{0}' changed while it was read; run it again")]
    Changed(PathBuf),
    /// The store cannot be written.
    #[error("cannot keep a copy in '{directory}': {error}")]
    Write {
        /// The store.
        directory: PathBuf,
        /// What the system said.
        error: String,
    },
}

/// The directory of programs.
#[derive(Clone, Debug)]
pub struct ProgramStore {
    directory: PathBuf,
}

impl ProgramStore {
    /// Uses a directory and removes what an earlier life left half-done in it.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(directory: PathBuf) -> io::Result<Self> {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let path = entry.path();
            // Only files are ours; what else has such a name is in nobody's way.
            if path.to_string_lossy().ends_with(PARTIAL) && entry.file_type()?.is_file() {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { directory })
    }

    /// Where a program's bytes are.
    #[must_use]
    pub fn path(&self, id: ProgramId) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// Where a program's hash tree is.
    fn tree_path(&self, id: ProgramId) -> PathBuf {
        self.directory.join(format!("{id}{}", tree::SUFFIX))
    }

    /// Whether a program's bytes and its tree are there, all of them.
    #[must_use]
    pub fn holds(&self, program: &ProgramRow) -> bool {
        let has = |path: &Path, bytes: u64| fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes);
        has(&self.path(program.id), program.bytes)
            && has(&self.tree_path(program.id), stored_bytes(program.bytes) - program.bytes)
    }

    /// Removes a program's bytes and its tree, if they are there.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, id: ProgramId) -> io::Result<()> {
        for path in [self.path(id), self.tree_path(id)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that a file is a program that can run, and stores its bytes. Takes as long as reading them does.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn import(&self, path: &Path) -> Result<(ProgramRow, FileKey), StoreError> {
        let read_error = |error: io::Error| StoreError::Read { path: path.to_owned(), error: plain(&error) };
        let (mut file, key) = open_file(path)?;
        let mut piece = Vec::new();
        read_piece(&mut file, &mut piece).map_err(read_error)?;
        let program_error = |error| StoreError::Program { path: path.to_owned(), error };
        let header = piece.get(..program::HEADER_BYTES).unwrap_or(&piece);
        let image = program::parse(header, key.bytes).map_err(program_error)?;

        let partial = Partial::create(&self.directory)?;
        let mut leaves = Vec::new();
        let mut bytes = 0;
        while !piece.is_empty() {
            bytes += piece.len() as u64;
            if bytes > key.bytes {
                return Err(StoreError::Changed(path.to_owned()));
            }
            for page in piece.chunks(PAGE_BYTES as usize) {
                leaves.push(tree::leaf(key.bytes, leaves.len() as u64, page));
            }
            partial.write(&piece, &self.directory)?;
            read_piece(&mut file, &mut piece).map_err(read_error)?;
        }
        let nodes = tree::build(key.bytes, &leaves);
        let root = nodes.first().filter(|_| bytes == key.bytes);
        let (Some(root), true) = (root, key_of(&file.metadata().map_err(read_error)?) == key) else {
            return Err(StoreError::Changed(path.to_owned()));
        };
        let id = ProgramId(*root);
        // The program last: if it has its name, its tree is there.
        let partial_tree = Partial::create(&self.directory)?;
        partial_tree.write(nodes.as_flattened(), &self.directory)?;
        partial_tree.finish(&self.tree_path(id), &self.directory)?;
        partial.finish(&self.path(id), &self.directory)?;
        Ok((ProgramRow { id, bytes, memory_bytes: image.memory_bytes() }, key))
    }
}

/// What a program of so many bytes takes in the store with its tree, bytes.
#[must_use]
pub fn stored_bytes(bytes: u64) -> u64 {
    bytes + tree::nodes(bytes) * tree::NODE_BYTES as u64
}

/// Fills `piece` with the next [`COPY_BYTES`] of a file, or what is left of it.
fn read_piece(file: &mut File, piece: &mut Vec<u8>) -> io::Result<()> {
    piece.clear();
    file.take(COPY_BYTES as u64).read_to_end(piece).map(drop)
}

/// What a file is known by, without reading it.
///
/// # Errors
/// [`StoreError::Read`], [`StoreError::NotAFile`], [`StoreError::TooLong`].
pub fn file_key(path: &Path) -> Result<FileKey, StoreError> {
    open_file(path).map(|(_, key)| key)
}

fn open_file(path: &Path) -> Result<(File, FileKey), StoreError> {
    let read_error = |error: io::Error| StoreError::Read { path: path.to_owned(), error: plain(&error) };
    // Not to wait for the other end of a pipe somebody names as a program.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    if !metadata.is_file() {
        return Err(StoreError::NotAFile(path.to_owned()));
    }
    let key = key_of(&metadata);
    if key.bytes > PROGRAM_BYTES_MAX {
        return Err(StoreError::TooLong { path: path.to_owned(), bytes: key.bytes });
    }
    Ok((file, key))
}

fn key_of(metadata: &fs::Metadata) -> FileKey {
    let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    FileKey {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// A system's error without its number, which says nothing to people.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A file that is not whole yet; removed unless it is finished.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn create(directory: &Path) -> Result<Self, StoreError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("{number}{PARTIAL}"));
            match OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => return Ok(Self { path, file: file.map_err(|error| write_error(directory, &error))? }),
            }
        }
    }

    fn write(&self, bytes: &[u8], directory: &Path) -> Result<(), StoreError> {
        (&self.file).write_all(bytes).map_err(|error| write_error(directory, &error))
    }

    fn finish(self, path: &Path, directory: &Path) -> Result<(), StoreError> {
        // Whole on the disk before it has its name, so that a name always means the bytes it says.
        let finished = self.file.sync_data().and_then(|()| fs::rename(&self.path, path));
        finished.map_err(|error| write_error(directory, &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Fails when it was finished: then there is nothing to remove.
        let _ = fs::remove_file(&self.path);
    }
}

fn write_error(directory: &Path, error: &io::Error) -> StoreError {
    StoreError::Write { directory: directory.to_owned(), error: plain(error) }
}
