//! What files and file systems are: stat(2), statx(2), statfs(2), faccessat2(2), getcwd(2).

use coppice_protocol::ship::{FileStatus, FileSystemStatus, Handle, Location, Timestamp};
use coppice_protocol::text::ByteString;
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{Access, AtFlags, CWD, FileType, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

use super::{Files, Result, descriptor_path};

/// Metadata of an open file, also of one open with `O_PATH`.
pub(super) fn status_of(file: &impl AsFd) -> Result<FileStatus> {
    status_at(file, b"", AtFlags::EMPTY_PATH)
}

/// The same of an entry of an open directory, links not followed.
pub(super) fn status_in(directory: &impl AsFd, name: &[u8]) -> Result<FileStatus> {
    status_at(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn status_at(file: &impl AsFd, name: &[u8], flags: AtFlags) -> Result<FileStatus> {
    let fields = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = rustix::fs::statx(file, name, flags | AtFlags::NO_AUTOMOUNT, fields)?;
    let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    Ok(FileStatus {
        device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        mode: u32::from(found.stx_mode),
        links: u64::from(found.stx_nlink),
        user: found.stx_uid,
        group: found.stx_gid,
        special_device: rustix::fs::makedev(found.stx_rdev_major, found.stx_rdev_minor),
        size: found.stx_size,
        block_size: found.stx_blksize,
        blocks: found.stx_blocks,
        accessed: timestamp(found.stx_atime),
        modified: timestamp(found.stx_mtime),
        changed: timestamp(found.stx_ctime),
        created: has_birth.then(|| timestamp(found.stx_btime)),
    })
}

fn timestamp(time: StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}

fn file_system_of(file: &impl AsFd) -> Result<FileSystemStatus> {
    let found = rustix::fs::fstatfs(file)?;
    Ok(FileSystemStatus {
        kind: found.f_type.cast_unsigned(),
        block_size: found.f_bsize.cast_unsigned(),
        blocks: found.f_blocks,
        blocks_free: found.f_bfree,
        blocks_available: found.f_bavail,
        files: found.f_files,
        files_free: found.f_ffree,
        name_bytes_max: found.f_namelen.cast_unsigned(),
        fragment_size: found.f_frsize.cast_unsigned(),
        flags: found.f_flags.cast_unsigned(),
    })
}

fn check_access(found: &impl AsRawFd, access: Access, flags: AtFlags) -> Result<()> {
    rustix::fs::accessat(CWD, descriptor_path(found), access, flags)
}

impl Files {
    /// stat(2) and lstat(2).
    pub(crate) fn stat(&self, at: &Location, follow: bool) -> Result<FileStatus> {
        status_of(&self.find(at, follow)?)
    }

    /// fstat(2).
    pub(crate) fn handle_stat(&self, handle: Handle) -> Result<FileStatus> {
        status_of(&self.handles.get(handle)?.object)
    }

    /// statfs(2).
    pub(crate) fn file_system(&self, at: &Location) -> Result<FileSystemStatus> {
        file_system_of(&self.find(at, true)?)
    }

    /// fstatfs(2).
    pub(crate) fn handle_file_system(&self, handle: Handle) -> Result<FileSystemStatus> {
        file_system_of(&self.handles.get(handle)?.object)
    }

    /// faccessat2(2). With `AT_EMPTY_PATH`, an empty path means the handle's own file.
    pub(crate) fn access(&self, at: &Location, mode: u32, flags: u32) -> Result<()> {
        let access = Access::from_bits(mode).filter(|_| mode < 8).ok_or(Errno::INVAL)?;
        let flags = AtFlags::from_bits_retain(flags);
        if !flags.difference(AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH).is_empty() {
            return Err(Errno::INVAL);
        }
        let kept = flags.intersection(AtFlags::EACCESS);
        match at.directory {
            Some(handle) if at.path.is_empty() && flags.contains(AtFlags::EMPTY_PATH) => {
                check_access(&*self.handles.get(handle)?.object, access, kept)
            }
            _ => check_access(&self.find(at, !flags.contains(AtFlags::SYMLINK_NOFOLLOW))?, access, kept),
        }
    }

    /// The path from the root of a directory that a process wants to work in (chdir(2), fchdir(2)), without any links.
    /// An empty path means the directory of the handle itself.
    pub(crate) fn resolve(&self, at: &Location) -> Result<ByteString> {
        let itself = Location { directory: at.directory, path: ".".into() };
        let at = if at.directory.is_some() && at.path.is_empty() { &itself } else { at };
        let found = self.find(at, true)?;
        if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        check_access(&found, Access::EXEC_OK, AtFlags::EACCESS)?;
        Ok([b"/", &*self.root.path_of(&found)?].concat().into())
    }
}
