//! Function shipping: system calls on files that the I/O node executes for a node, and the pages of programs.
//!
//! Runs in a [`crate::session`] on [`crate::limits::SHIP_PORT`]. Every request is answered under the request's id;
//! replies may overtake each other. A request waits for the disk and for nothing else: where a call would have to wait
//! for a person, who reads output or types input, or for another program, which has a lock, it is answered with
//! [`Reply::Later`] at once, and the I/O node says when it is worth asking again ([`Notice`]). So no number of ranks
//! that wait keeps others from their files and pages.
//!
//! Offsets of open files live in the node. [`Requests`] and [`Replies`] see to it that a call is carried out once,
//! whatever becomes of connections. Paths are sent as the program gave them, except that a path relative to the working
//! directory is sent absolute: `/` is the job's root directory and nothing outside it can be named. Raw bytes (data
//! read and written, directory entries, link targets, pages) travel behind the message ("bulk").

mod id;
mod known;
mod replies;
mod requests;
mod status;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::checkpoint::ObjectId;
use crate::ids::{JobId, ProgramId, Rank};
use crate::lease::{FileId, Grant};
use crate::lock::{Asked, Locked};
use crate::program::tree;
use crate::text::ByteString;

pub use self::id::{NOTICE_ID, RequestId, SLOTS};
pub use self::known::{Keeping, Known};
pub use self::replies::{Connection, Heard, Replies};
pub use self::requests::{Answered, Requests};
pub use self::status::{FileStatus, FileSystemStatus, TimeChange, Timestamp};

/// An open file or directory of one rank at the I/O node. Never reused within a rank's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle(pub u32);

/// Whose file table and root a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
}

/// Where a path starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Directory a relative path starts from; `None`: the job's root.
    pub directory: Option<Handle>,
    /// The path.
    pub path: ByteString,
}

/// Which of a rank's streams to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// What the rank does, if it is traced ([`crate::trace`]).
    Trace,
}

/// A request with the rank it is made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// For whom.
    pub owner: Owner,
    /// What.
    pub call: Call,
}

/// What a node can ask for. Flags, modes and masks have Linux's x86-64 values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Pages of the program's file → [`Reply::Pages`]; a page beyond the end is not sent, the last may be short.
    Pages {
        /// The program.
        program: ProgramId,
        /// First 4 KiB page of the file.
        first: u32,
        /// How many, at most [`crate::limits::PAGES_PER_REQUEST_MAX`].
        count: u16,
    },
    /// open(2) → [`Reply::Opened`]; with a lease of a short file come all of its bytes
    /// ([`crate::lease::limits::FIRST_BYTES_MAX`]).
    Open {
        /// The file.
        at: Location,
        /// `O_*` flags.
        flags: u32,
        /// Mode of a new file, umask already applied.
        mode: u32,
    },
    /// Keeps the bulk bytes as an object of a checkpoint → [`Reply::Object`]. `ENODEV`, as for the next two: none
    /// are kept; `EBUSY`: too many wait for the disk.
    PutObject,
    /// The bytes of an object → [`Reply::Data`]. `ENOENT`: there is none; `EBADMSG`: it is damaged.
    GetObject(ObjectId),
    /// What was put for the rank is on stable storage → [`Reply::Done`].
    SettleObjects,
    /// Gives a handle back → [`Reply::Status`], what the file was then, or [`Reply::Done`].
    Close(Handle),
    /// Gives a lease back: the rank's node knows nothing of the file any more that others do not → [`Reply::Done`].
    Return {
        /// Of which file.
        file: FileId,
        /// The lease's number.
        number: u64,
    },
    /// All that the rank's program was seen to look up from this root, as far as it is so now ([`crate::manifest`]) →
    /// [`Reply::Manifest`] with bulk.
    Manifest {
        /// Which manifest the node has some of; 0: none.
        made: u64,
        /// How many of its entries, from the first on.
        entries: u32,
    },
    /// Gives the lease of names back: the rank's node knows nothing of names any more → [`Reply::Done`].
    ReturnNames {
        /// The lease's number.
        number: u64,
    },
    /// pread(2) → [`Reply::Data`].
    Read {
        /// From which file.
        file: Handle,
        /// Where, bytes.
        offset: u64,
        /// How much at most, bytes.
        length: u32,
    },
    /// pwrite(2) of the bulk bytes → [`Reply::Written`].
    Write {
        /// To which file.
        file: Handle,
        /// Where, bytes; `None`: at the end (`O_APPEND`).
        offset: Option<u64>,
    },
    /// Standard input → [`Reply::Data`], empty at its end. [`Reply::Later`]: there is none; [`Notice::Input`] comes
    /// when there is.
    Input {
        /// How much at most, bytes.
        length: u32,
    },
    /// Is there standard input to read (or its end)? → [`Reply::Count`] 1 or 0; after 0 comes [`Notice::Input`] when
    /// there is.
    InputReady,
    /// The bulk bytes to standard output or error → [`Reply::Written`]. [`Reply::Later`]: nothing of it was taken, as
    /// the user does not take so much; the rank stands in its job's line for that many bytes, and has room for them
    /// when [`Notice::Output`] comes.
    Print(Stream),
    /// The rank does not want to print what it stands in line for → [`Reply::Done`].
    PrintNothing,
    /// Metadata by path → [`Reply::Status`].
    Stat {
        /// The file.
        at: Location,
        /// Follow a symbolic link at the end.
        follow: bool,
    },
    /// Metadata of an open file → [`Reply::Status`].
    HandleStat(Handle),
    /// statfs(2) by path → [`Reply::FileSystem`].
    FileSystem(Location),
    /// fstatfs(2) → [`Reply::FileSystem`].
    HandleFileSystem(Handle),
    /// faccessat2(2) → [`Reply::Done`].
    Access {
        /// The file.
        at: Location,
        /// `R_OK`, `W_OK`, `X_OK`, `F_OK`.
        mode: u32,
        /// `AT_SYMLINK_NOFOLLOW` and the like.
        flags: u32,
    },
    /// Directory entries as getdents64(2) lays them out → [`Reply::Entries`] with bulk; empty at the end.
    List {
        /// The directory.
        directory: Handle,
        /// Where to go on: 0 or what an earlier reply said (`d_off` of its last entry).
        position: u64,
        /// How many bytes at most.
        length: u32,
        /// What each is comes with it if the node has the lease of names ([`Known::Entries`]).
        attributes: bool,
    },
    /// readlink(2) → [`Reply::Data`].
    ReadLink(Location),
    /// The directory's path from the job's root, with no links in it → [`Reply::Path`]; `ENOTDIR` if it is none.
    Resolve(Location),
    /// mkdir(2) → [`Reply::Done`].
    MakeDirectory {
        /// The new directory.
        at: Location,
        /// Its mode, umask already applied.
        mode: u32,
    },
    /// unlink(2), or rmdir(2) → [`Reply::Done`].
    Remove {
        /// What to remove.
        at: Location,
        /// It is a directory.
        directory: bool,
    },
    /// renameat2(2) → [`Reply::Done`].
    Rename {
        /// Old name.
        from: Location,
        /// New name.
        to: Location,
        /// `RENAME_NOREPLACE`, `RENAME_EXCHANGE`.
        flags: u32,
    },
    /// linkat(2) → [`Reply::Done`].
    Link {
        /// Existing file.
        from: Location,
        /// New name.
        to: Location,
        /// Follow a symbolic link at the end of `from`.
        follow: bool,
    },
    /// symlink(2) → [`Reply::Done`].
    SymbolicLink {
        /// What the link says.
        target: ByteString,
        /// The link.
        at: Location,
    },
    /// truncate(2) → [`Reply::Done`].
    Truncate {
        /// The file.
        at: Location,
        /// Its new length, bytes.
        length: u64,
    },
    /// ftruncate(2) → [`Reply::Done`].
    HandleTruncate {
        /// The file.
        file: Handle,
        /// Its new length, bytes.
        length: u64,
    },
    /// fallocate(2) → [`Reply::Done`].
    Allocate {
        /// The file.
        file: Handle,
        /// `FALLOC_FL_*`.
        mode: u32,
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u64,
    },
    /// lseek(2) with `SEEK_DATA` or `SEEK_HOLE` → [`Reply::Count`] with the offset found.
    SeekData {
        /// The file.
        file: Handle,
        /// Where to start, bytes.
        offset: u64,
        /// Look for a hole instead of data.
        hole: bool,
    },
    /// fsync(2) or fdatasync(2) → [`Reply::Done`].
    Synchronise {
        /// The file.
        file: Handle,
        /// The data alone.
        data_only: bool,
    },
    /// fchmodat(2) → [`Reply::Done`].
    ChangeMode {
        /// The file.
        at: Location,
        /// Its new mode.
        mode: u32,
    },
    /// fchmod(2) → [`Reply::Done`].
    HandleChangeMode {
        /// The file.
        file: Handle,
        /// Its new mode.
        mode: u32,
    },
    /// utimensat(2) → [`Reply::Done`].
    ChangeTimes {
        /// The file.
        at: Location,
        /// Access time.
        accessed: TimeChange,
        /// Modification time.
        modified: TimeChange,
        /// Follow a symbolic link at the end.
        follow: bool,
    },
    /// futimens(3) → [`Reply::Done`].
    HandleChangeTimes {
        /// The file.
        file: Handle,
        /// Access time.
        accessed: TimeChange,
        /// Modification time.
        modified: TimeChange,
    },
    /// `F_SETFL` of the flags the I/O node must know (`O_APPEND` is the node's own) → [`Reply::Done`].
    SetFlags {
        /// The file.
        file: Handle,
        /// `O_*` flags.
        flags: u32,
    },
    /// Locks bytes of a file, however the same holder had them locked → [`Reply::Done`]. `EAGAIN`: another's lock is
    /// in the way; with `wait` it is [`Reply::Later`], the wait stands in line, and [`Notice::Lock`] comes when it is
    /// worth trying again. `EDEADLK`: who has it waits for the rank. `ENOLCK`: there are too many, or the job's ranks
    /// are not all at this I/O node.
    Lock {
        /// What.
        asked: Asked,
        /// A number of the rank's for its wait.
        wait: Option<u32>,
    },
    /// Such a wait is over → [`Reply::Done`].
    LockNothing {
        /// Its number.
        wait: u32,
    },
    /// Unlocks bytes of a file, if they were locked → [`Reply::Done`]. `ENOLCK`: two locks would be left of one, and
    /// that is one too many.
    Unlock(Asked),
    /// Does a lock stand in the way? → [`Reply::Locked`], or [`Reply::Done`] if none does.
    TestLock(Asked),
    /// pread(2) of pages that the node is to know → [`Reply::Data`]; or [`Reply::Later`] if they are about to come by
    /// themselves ([`crate::broadcast`]).
    Fill {
        /// From which file.
        file: Handle,
        /// Where, bytes.
        offset: u64,
        /// How much at most, bytes.
        length: u32,
        /// Also if they are: the node knows of that, or has waited for word of it.
        anyway: bool,
    },
}

impl Call {
    /// Whether it changes anything, so that making it twice is not the same as making it once. Reading standard input
    /// takes it away.
    #[must_use]
    pub const fn changes(&self) -> bool {
        match self {
            Self::Pages { .. }
            | Self::GetObject(_)
            | Self::Read { .. }
            | Self::Fill { .. }
            | Self::InputReady
            | Self::Stat { .. }
            | Self::HandleStat(_)
            | Self::FileSystem(_)
            | Self::HandleFileSystem(_)
            | Self::Access { .. }
            | Self::List { .. }
            | Self::ReadLink(_)
            | Self::Resolve(_)
            | Self::Return { .. }
            | Self::ReturnNames { .. }
            | Self::Manifest { .. }
            | Self::SeekData { .. }
            | Self::TestLock(_) => false,
            Self::Open { .. }
            | Self::PutObject
            | Self::SettleObjects
            | Self::Close(_)
            | Self::Write { .. }
            | Self::Input { .. }
            | Self::Print(_)
            | Self::PrintNothing
            | Self::MakeDirectory { .. }
            | Self::Remove { .. }
            | Self::Rename { .. }
            | Self::Link { .. }
            | Self::SymbolicLink { .. }
            | Self::Truncate { .. }
            | Self::HandleTruncate { .. }
            | Self::Allocate { .. }
            | Self::Synchronise { .. }
            | Self::ChangeMode { .. }
            | Self::HandleChangeMode { .. }
            | Self::ChangeTimes { .. }
            | Self::HandleChangeTimes { .. }
            | Self::SetFlags { .. }
            | Self::Lock { .. }
            | Self::LockNothing { .. }
            | Self::Unlock(_) => true,
        }
    }
}

/// What an I/O node says without being asked, under [`NOTICE_ID`]. One that is lost with its connection is not said
/// again: whoever waits for one asks again on the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// There is room for what a rank could not print. It is kept until the rank prints, says that it does not want to,
    /// or ends.
    Output(Owner),
    /// There is standard input to read, or its end.
    Input(Owner),
    /// A lock that the rank waits for may be had. For a moment, nobody else gets it.
    Lock(Owner),
    /// Somebody wants a file of which the node has a lease, for this job: it is to be given back ([`Call::Return`]). It
    /// is said again on the next connection.
    Recall {
        /// For which job.
        job: JobId,
        /// Of which file.
        file: FileId,
        /// The lease's number.
        number: u64,
    },
    /// Somebody wants to change names or attributes: the lease of names, which the node has for this job or is about
    /// to hear of, is to be given back ([`Call::ReturnNames`]). It is said again on the next connection.
    RecallNames {
        /// For which job.
        job: JobId,
        /// The lease's number.
        number: u64,
    },
}

/// Answer to a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It was done.
    Done,
    /// The bulk bytes are the answer.
    Data,
    /// The bulk bytes are pages of the program.
    Pages {
        /// The nodes beside them in the program's hash tree; see [`crate::program::tree::beside`].
        beside: Vec<tree::TreeNode>,
    },
    /// That many bytes of the request's bulk were written.
    Written {
        /// How many, bytes.
        bytes: u32,
        /// File offset behind the last byte (what an appending file's offset becomes).
        end: u64,
    },
    /// A number.
    Count(u64),
    /// The file is open.
    Opened {
        /// Its handle.
        handle: Handle,
        /// What it is.
        status: FileStatus,
        /// The lease that the node has of it from now on, in place of any before. `None`: no other than before.
        grant: Option<Grant>,
    },
    /// What a file is.
    Status(FileStatus),
    /// What a file system is.
    FileSystem(FileSystemStatus),
    /// Directory entries are in the bulk bytes.
    Entries {
        /// Position to go on from.
        next: u64,
    },
    /// A path from the job's root, starting with `/`.
    Path(ByteString),
    /// The bulk bytes are a list of [`crate::manifest::Entry`], in postcard: those of the manifest that the node does
    /// not have, which are all if it is another.
    Manifest {
        /// Which it is.
        made: u64,
        /// Entries that are not to be believed, by their places, in order.
        untrue: Vec<u32>,
    },
    /// The name of the object.
    Object(ObjectId),
    /// It failed with this Linux errno.
    Failed(u16),
    /// One of the others, which the node may keep as long as it has its lease of names ([`crate::lease`]).
    Known(Keeping, Known),
    /// Nothing was done: it would have to wait. A [`Notice`] follows.
    Later,
    /// This lock is in the way.
    Locked(Locked),
}
