//! The programs' bytes: one file per program, named by its hash, never changed once it has its name; beside it one with
//! its hash tree ([`coppice_protocol::program::tree`]).
//!
//! I/O nodes serve pages from here, so that a program may be rebuilt on the host while it runs on the nodes. A program
//! is copied and hashed in one go, so that what is stored is what was hashed even if the file changes meanwhile.
//!
//! Files that jobs have staged, or nodes are to keep, are kept likewise, without being looked into. Nothing is recorded
//! of such a copy: it goes when the last job or order that holds it ends, unless it is also a program's.
//!
//! Whoever needs a copy – from the look whether it is there to the end of its job – has it [`Held`], and what is held
//! is not removed. What a copy was when it was hashed is remembered as long as this process lives; one that was not
//! hashed by it, or that anybody touched since, is hashed before a job runs it ([`ProgramStore::check`]).

mod copies;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use coppice_api::shown;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::{self, PAGE_BYTES, tree};

use self::copies::Copies;
pub use self::copies::{Found, Held};
use crate::database::{FileKey, ProgramRow};
use crate::limits::{STORE_BYTES_MAX, STORED_PROGRAM_BYTES_MAX};

/// Bytes read at a time: whole pages.
const COPY_BYTES: usize = 64 * PAGE_BYTES as usize;

/// End of the names of files that are not whole yet.
const PARTIAL: &str = ".partial";

/// What a file is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To be run: it must be a program for this machine.
    Program,
    /// To be staged: it may hold anything, but not nothing.
    Data,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "program",
            Self::Data => "staged file",
        })
    }
}

/// Why a file is no program that can be run, or cannot be staged.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read.
    #[error("cannot read {kind} '{}': {error}", shown(path))]
    Read {
        /// What it is wanted for.
        kind: Kind,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: String,
    },
    /// It is a directory or a device.
    #[error("'{}' is not a file; name a {}", shown(.0), if *.1 == Kind::Program { "program" } else { "file to stage" })]
    NotAFile(PathBuf, Kind),
    /// There is nothing to stage.
    #[error("staged file '{}' is empty; name one with something in it", shown(.0))]
    Empty(PathBuf),
    /// Longer than [`STORED_PROGRAM_BYTES_MAX`].
    #[error("{kind} '{}' is too long: {bytes} bytes, at most {STORED_PROGRAM_BYTES_MAX}", shown(path))]
    TooLong {
        /// What it is wanted for.
        kind: Kind,
        /// The file.
        path: PathBuf,
        /// Its length, bytes.
        bytes: u64,
    },
    /// It is no program for this machine.
    #[error("cannot run '{}': {error}", shown(path))]
    Program {
        /// The file.
        path: PathBuf,
        /// Why.
        error: program::ProgramError,
    },
    /// Somebody wrote to it while it was read.
    #[error("{kind} '{}' changed while it was read; run it again", shown(path))]
    Changed {
        /// What it is wanted for.
        kind: Kind,
        /// The file.
        path: PathBuf,
    },
    /// The copy of what a job needs that waits to be started is bad, and cannot be made anew.
    #[error("the stored copy of '{}' was damaged, and the file is another one by now; run it again", shown(.0))]
    Lost(PathBuf),
    /// The store cannot be written.
    #[error("cannot keep a copy in '{}': {error}", shown(directory))]
    Write {
        /// The store.
        directory: PathBuf,
        /// What the system said.
        error: String,
    },
}

/// A file that a copy was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is wanted for.
    pub kind: Kind,
    /// The file.
    pub path: PathBuf,
}

/// The directory of programs and of what else jobs need.
#[derive(Clone, Debug)]
pub struct ProgramStore {
    directory: PathBuf,
    bytes_max: u64,
    copies: Arc<Mutex<Copies>>,
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
            if path.as_os_str().as_encoded_bytes().ends_with(PARTIAL.as_bytes()) && entry.file_type()?.is_file() {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { directory, bytes_max: STORE_BYTES_MAX, copies: Arc::default() })
    }

    /// The same with another limit than [`STORE_BYTES_MAX`].
    #[must_use]
    pub fn limited(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Bytes that all programs may have together.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Removes copies that nothing is recorded of: their submission came to nothing when an earlier process ended.
    ///
    /// # Errors
    /// What the system says.
    pub fn sweep(&self, recorded: &[ProgramRow]) -> io::Result<()> {
        let recorded: BTreeSet<_> = recorded.iter().map(|program| program.id.0).collect();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().map(|name| name.strip_suffix(tree::SUFFIX).unwrap_or(name));
            let hash = name.and_then(|name| blake3::Hash::from_hex(name).ok());
            if hash.is_some_and(|hash| !recorded.contains(hash.as_bytes())) && entry.file_type()?.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
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

    /// Checks that a file is a program that can run, and stores its bytes. Takes as long as reading them does.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn import(&self, path: &Path) -> Result<(Held, FileKey), StoreError> {
        self.import_as(Kind::Program, path)
    }

    /// Stores the bytes of a file, if it can be used for that. Takes as long as reading them does.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn import_as(&self, kind: Kind, path: &Path) -> Result<(Held, FileKey), StoreError> {
        let read_error = |error: io::Error| StoreError::Read { kind, path: path.to_owned(), error: plain(&error) };
        let (file, key) = open_file(kind, path)?;
        let memory_bytes = match kind {
            Kind::Program => memory_bytes(path, &file, key)?,
            Kind::Data => 0,
        };

        let partial = Partial::create(&self.directory)?;
        let nodes = read_tree(&file, key.bytes, read_error, |piece| partial.write(piece, &self.directory))?;
        let (Some(root), true) = (nodes.first(), key_of(&file.metadata().map_err(read_error)?) == key) else {
            return Err(StoreError::Changed { kind, path: path.to_owned() });
        };
        let partial_tree = Partial::create(&self.directory)?;
        partial_tree.write(nodes.as_flattened(), &self.directory)?;
        let program = ProgramRow { id: ProgramId(*root), bytes: key.bytes, memory_bytes };
        let whole = partial.whole().and_then(|partial| Ok((partial, partial_tree.whole()?)));
        let placed = whole.and_then(|(partial, tree)| self.place(partial, tree, program));
        Ok((placed.map_err(|error| write_error(&self.directory, &error))?, key))
    }

    /// Makes sure of a copy that a job is about to use: hashes it if need be, and makes it anew from the file it is of
    /// if it is bad. Takes as long as reading the two.
    ///
    /// # Errors
    /// [`StoreError`], if it is not there in the end.
    pub fn ensure(&self, held: &Held, source: &Source) -> Result<Found, StoreError> {
        let Source { kind, path } = source;
        let read_error =
            |error: io::Error| StoreError::Read { kind: *kind, path: self.path(held.id), error: plain(&error) };
        let found = self.check(held).map_err(read_error)?;
        if found != Found::Sound && self.import_as(*kind, path)?.0.id != held.id {
            return Err(StoreError::Lost(path.clone()));
        }
        Ok(found)
    }
}

/// What a program takes in memory.
fn memory_bytes(path: &Path, file: &File, key: FileKey) -> Result<u64, StoreError> {
    let mut header = vec![0; program::HEADER_BYTES.min(usize::try_from(key.bytes).unwrap_or(usize::MAX))];
    file.read_exact_at(&mut header, 0).map_err(|error| StoreError::Read {
        kind: Kind::Program,
        path: path.to_owned(),
        error: plain(&error),
    })?;
    let image = program::parse(&header, key.bytes);
    let image = image.map_err(|error| StoreError::Program { path: path.to_owned(), error })?;
    Ok(image.memory_bytes())
}

/// What a program of so many bytes takes in the store with its tree, bytes.
#[must_use]
pub fn stored_bytes(bytes: u64) -> u64 {
    bytes + tree::nodes(bytes) * tree::NODE_BYTES as u64
}

/// Reads a file of `bytes` bytes to its end, each piece of it to `each`, and gives its hash tree; an empty one if it is
/// not so long.
fn read_tree<E>(
    file: &File,
    bytes: u64,
    read_error: impl Fn(io::Error) -> E,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Vec<tree::TreeNode>, E> {
    let (mut piece, mut leaves, mut read) = (Vec::new(), Vec::new(), 0);
    loop {
        piece.clear();
        file.take(COPY_BYTES as u64).read_to_end(&mut piece).map_err(&read_error)?;
        read += piece.len() as u64;
        if piece.is_empty() || read > bytes {
            return Ok(if read == bytes { tree::build(bytes, &leaves) } else { Vec::new() });
        }
        for page in piece.chunks(PAGE_BYTES as usize) {
            leaves.push(tree::leaf(bytes, leaves.len() as u64, page));
        }
        each(&piece)?;
    }
}

/// What a file is known by, without reading it.
///
/// # Errors
/// [`StoreError::Read`], [`StoreError::NotAFile`], [`StoreError::TooLong`], [`StoreError::Empty`].
pub fn file_key(kind: Kind, path: &Path) -> Result<FileKey, StoreError> {
    open_file(kind, path).map(|(_, key)| key)
}

fn open_file(kind: Kind, path: &Path) -> Result<(File, FileKey), StoreError> {
    let read_error = |error: io::Error| StoreError::Read { kind, path: path.to_owned(), error: plain(&error) };
    // Not to wait for the other end of a pipe somebody names as a program.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    if !metadata.is_file() {
        return Err(StoreError::NotAFile(path.to_owned(), kind));
    }
    let key = key_of(&metadata);
    if key.bytes > STORED_PROGRAM_BYTES_MAX {
        return Err(StoreError::TooLong { kind, path: path.to_owned(), bytes: key.bytes });
    }
    if kind == Kind::Data && key.bytes == 0 {
        return Err(StoreError::Empty(path.to_owned()));
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

    /// Whole on the disk before it has its name, so that a name always means the bytes it says.
    fn whole(self) -> io::Result<Self> {
        self.file.sync_data().map(|()| self)
    }

    /// Gives it its name. What it is known by from then on.
    fn finish(self, path: &Path) -> io::Result<FileKey> {
        fs::rename(&self.path, path)?;
        Ok(key_of(&self.file.metadata()?))
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
