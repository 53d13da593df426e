//! Where the path of a call leads.

use alloc::sync::Arc;

use coppice_protocol::ship::{Handle, Location};
use coppice_protocol::text::ByteString;

use crate::errno::Errno;
use crate::files::special::{Node, Place, locate};
use crate::files::{Object, OpenFile};
use crate::process::{Awaited, Caller};

/// "From the working directory" instead of a descriptor.
pub(super) const AT_FDCWD: i32 = -100;
/// Do not follow a symbolic link at the end.
pub(super) const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
/// rmdir(2) instead of unlink(2); for faccessat2(2), check the effective ids.
pub(super) const AT_REMOVEDIR: u32 = 0x200;
/// Follow a symbolic link at the end.
pub(super) const AT_SYMLINK_FOLLOW: u32 = 0x400;
/// Do not mount anything. Nothing is ever mounted.
pub(super) const AT_NO_AUTOMOUNT: u32 = 0x800;
/// An empty path means the descriptor itself.
pub(super) const AT_EMPTY_PATH: u32 = 0x1000;

/// What a path leads to.
pub(super) enum Target {
    /// Something at the I/O node.
    Shipped(Location),
    /// Something the kernel makes.
    Special(Node),
    /// A name in `/dev/shm`, whether there is such a file or not; or the path of a staged file.
    Shared(ByteString),
}

/// What a path leads to, or the descriptor itself.
pub(super) enum TargetOrFile {
    /// The path's.
    Target(Target),
    /// The descriptor's.
    File(Arc<OpenFile>),
}

/// Where `path` leads from the directory behind `descriptor`.
///
/// # Errors
/// `ENOENT` if the path is empty, `EBADF`, `ENOTDIR`, `ENAMETOOLONG`.
pub(super) fn target(caller: Caller<'_>, descriptor: i32, path: ByteString) -> Result<Target, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let process = caller.process;
    let pid = process.identity.pid;
    let place = if path.starts_with(b"/") {
        locate(b"/", &path, pid)?
    } else if descriptor == AT_FDCWD {
        locate(&process.directory.lock(), &path, pid)?
    } else {
        let file = process.files.lock().get(descriptor)?;
        match &file.object {
            // What the kernel makes is also there for who begins at the root's descriptor.
            Object::Shipped(shipped) if file.is_directory() => match locate(&shipped.path, &path, pid)? {
                Place::Shipped(_) => return Ok(Target::Shipped(Location { directory: Some(shipped.handle), path })),
                place => place,
            },
            Object::Special(node) if node.is_directory() => locate(node.path().as_bytes(), &path, pid)?,
            _ => return Err(Errno::ENOTDIR),
        }
    };
    Ok(match place {
        Place::Shipped(path) => match process.job.shared.staged(&path) {
            Some(name) => Target::Shared(name),
            None => Target::Shipped(Location { directory: None, path }),
        },
        Place::Special(node) if node.thread().is_some_and(|id| process.threads.find(id).is_none()) => {
            return Err(Errno::ENOENT);
        }
        Place::Special(node) => Target::Special(node),
        Place::Shared(name) => Target::Shared(name),
    })
}

/// Reads the path at `address` and finds where it leads.
pub(super) async fn read_target(caller: Caller<'_>, descriptor: i32, address: u64) -> Awaited<Target> {
    let path = caller.read_path(address).await?;
    Ok(target(caller, descriptor, path)?)
}

impl Target {
    /// The place at the I/O node.
    ///
    /// # Errors
    /// `EROFS` for what the kernel makes, `EXDEV` for `/dev/shm`.
    pub(super) fn into_location(self) -> Result<Location, Errno> {
        match self {
            Self::Shipped(location) => Ok(location),
            Self::Special(_) => Err(Errno::EROFS),
            Self::Shared(_) => Err(Errno::EXDEV),
        }
    }

    /// Whether it is the file of a handle, and no path leads to it.
    pub(super) fn is_open_file(&self) -> bool {
        matches!(self, Self::Shipped(Location { directory: Some(_), path }) if path.is_empty())
    }

    /// Whether it is in `/dev/shm`.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

/// As [`read_target`], for calls with `AT_EMPTY_PATH` in their `flags`.
pub(super) async fn read_target_or_file(
    caller: Caller<'_>,
    descriptor: i32,
    address: u64,
    flags: u32,
) -> Awaited<TargetOrFile> {
    let path = caller.read_path(address).await?;
    target_or_file(caller, descriptor, path, flags)
}

/// As [`read_target_or_file`], where no path at all is an empty one: for stat(2).
pub(super) async fn read_target_or_file_or_none(
    caller: Caller<'_>,
    descriptor: i32,
    address: u64,
    flags: u32,
) -> Awaited<TargetOrFile> {
    let path =
        if address == 0 && flags & AT_EMPTY_PATH != 0 { ByteString::new() } else { caller.read_path(address).await? };
    target_or_file(caller, descriptor, path, flags)
}

fn target_or_file(caller: Caller<'_>, descriptor: i32, path: ByteString, flags: u32) -> Awaited<TargetOrFile> {
    if !path.is_empty() || flags & AT_EMPTY_PATH == 0 {
        return Ok(TargetOrFile::Target(target(caller, descriptor, path)?));
    }
    if descriptor == AT_FDCWD {
        return Ok(TargetOrFile::Target(target(caller, AT_FDCWD, ".".into())?));
    }
    Ok(TargetOrFile::File(caller.process.files.lock().get(descriptor)?))
}

/// The handle of an open file at the I/O node.
///
/// # Errors
/// `otherwise`: it is none.
pub(super) fn handle_of(file: &OpenFile, otherwise: Errno) -> Result<Handle, Errno> {
    file.as_shipped().map(|shipped| shipped.handle).ok_or(otherwise)
}
