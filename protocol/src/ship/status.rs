//! What files and file systems are.

use serde::{Deserialize, Serialize};

/// A new file time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeChange {
    /// Leave it (`UTIME_OMIT`).
    Omit,
    /// The I/O node's clock (`UTIME_NOW`).
    Now,
    /// This time.
    To(Timestamp),
}

/// A file time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds, below 10⁹.
    pub nanoseconds: u32,
}

/// Metadata of a file, as statx(2) has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStatus {
    /// Device the file is on, major and minor as Linux encodes them in `st_dev`.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Type and permissions (`st_mode`).
    pub mode: u32,
    /// Hard links.
    pub links: u64,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Device it stands for, if it is a special file.
    pub special_device: u64,
    /// Length, bytes.
    pub size: u64,
    /// Preferred size of reads and writes, bytes.
    pub block_size: u32,
    /// Allocated, in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub accessed: Timestamp,
    /// Last modification of the data.
    pub modified: Timestamp,
    /// Last modification of the metadata.
    pub changed: Timestamp,
    /// Creation, where the file system knows it.
    pub created: Option<Timestamp>,
}

/// What statfs(2) says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemStatus {
    /// Magic number of the type.
    pub kind: u64,
    /// Block size, bytes.
    pub block_size: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks free.
    pub blocks_free: u64,
    /// Blocks free for ordinary users.
    pub blocks_available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Inodes free.
    pub files_free: u64,
    /// Longest name, bytes.
    pub name_bytes_max: u64,
    /// Fragment size, bytes.
    pub fragment_size: u64,
    /// Mount flags.
    pub flags: u64,
}
