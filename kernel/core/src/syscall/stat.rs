//! What a file is, and whether it may be used: stat(2), statx(2), statfs(2), access(2).

use coppice_protocol::ship::{Call, FileStatus, FileSystemStatus, Location, Reply};
use coppice_protocol::text::ByteString;

use super::Arguments;
use super::place::{
    AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW, Target, TargetOrFile, read_target,
    read_target_or_file, read_target_or_file_or_none,
};
use super::shared;
use crate::abi::status;
use crate::errno::Errno;
use crate::files::names::Told;
use crate::files::special::{Kind, Node};
use crate::files::{Object, OpenFile};
use crate::process::{Awaited, Caller};

/// stat(2), and lstat(2) if links are not followed.
pub(super) async fn stat(caller: Caller<'_>, a: &Arguments, follow: bool) -> Awaited {
    let target = read_target(caller, AT_FDCWD, a.get(0)).await?;
    let status = status_of(caller, target, follow).await?;
    caller.write(a.get(1), status::stat(&status).bytes()).await?;
    Ok(0)
}

/// fstat(2).
pub(super) async fn fstat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.process.files.lock().get(a.int(0))?;
    let status = file.status(caller.process).await?;
    caller.write(a.get(1), status::stat(&status).bytes()).await?;
    Ok(0)
}

/// newfstatat(2).
pub(super) async fn newfstatat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(3);
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let status = status_at(caller, a.int(0), a.get(1), flags).await?;
    caller.write(a.get(2), status::stat(&status).bytes()).await?;
    Ok(0)
}

/// statx(2). Everything that is known is told, whatever was asked for.
pub(super) async fn statx(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const AT_STATX_SYNC_TYPE: u32 = 0x6000;
    const STATX_RESERVED: u32 = 0x8000_0000;
    let (flags, mask) = (a.uint(2), a.uint(3));
    let known = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE;
    if flags & !known != 0 || flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE || mask & STATX_RESERVED != 0 {
        return Err(Errno::EINVAL.into());
    }
    let status = status_at(caller, a.int(0), a.get(1), flags).await?;
    caller.write(a.get(4), status::statx(&status).bytes()).await?;
    Ok(0)
}

/// What a path leads to, or the descriptor itself, is.
pub(super) async fn status_at(caller: Caller<'_>, descriptor: i32, address: u64, flags: u32) -> Awaited<FileStatus> {
    match read_target_or_file_or_none(caller, descriptor, address, flags).await? {
        TargetOrFile::Target(target) => status_of(caller, target, flags & AT_SYMLINK_NOFOLLOW == 0).await,
        TargetOrFile::File(file) => Ok(file.status(caller.process).await?),
    }
}

/// What a path's end is.
pub(super) async fn status_of(caller: Caller<'_>, target: Target, follow: bool) -> Awaited<FileStatus> {
    match target {
        Target::Shipped(at) => match caller.look(Call::Stat { at, follow }).await? {
            Told::Status(status) => Ok(status),
            _ => Err(Errno::EIO.into()),
        },
        Target::Special(Node { kind: Kind::Descriptor(number), .. }) => {
            let file = caller.process.files.lock().get(number).map_err(|_| Errno::ENOENT)?;
            if follow {
                return Ok(file.status(caller.process).await?);
            }
            let Target::Special(node) = target else { return Err(Errno::EIO.into()) };
            Ok(node.status(caller.process))
        }
        Target::Shared(name) => Ok(shared::status(caller, &name)?),
        Target::Special(node) if follow => Ok(node.status(caller.process)),
        Target::Special(node) => Ok(node.link_status(caller.process)),
    }
}

/// statfs(2).
pub(super) async fn statfs(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let answer = match read_target(caller, AT_FDCWD, a.get(0)).await? {
        Target::Shipped(at) => file_system(caller, Call::FileSystem(at)).await?,
        Target::Special(node) => node.file_system(caller.process),
        Target::Shared(name) => {
            shared::status(caller, &name)?;
            caller.process.job.shared.file_system()
        }
    };
    caller.write(a.get(1), status::statfs(&answer).bytes()).await?;
    Ok(0)
}

/// fstatfs(2).
pub(super) async fn fstatfs(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const PIPEFS_MAGIC: u64 = 0x5049_5045;
    const SOCKFS_MAGIC: u64 = 0x534f_434b;
    const ANON_INODE_FS_MAGIC: u64 = 0x0904_1934;
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    let file = caller.process.files.lock().get(a.int(0))?;
    let plain = |kind| FileSystemStatus {
        kind,
        block_size: 4096,
        fragment_size: 4096,
        name_bytes_max: 255,
        ..Default::default()
    };
    let answer = match &file.object {
        Object::Shipped(shipped) => file_system(caller, Call::HandleFileSystem(shipped.handle)).await?,
        Object::Standard(_) | Object::Pipe(_) => plain(PIPEFS_MAGIC),
        Object::Pair(_) | Object::Socket(_) | Object::Netlink(_) | Object::Service(_) => plain(SOCKFS_MAGIC),
        Object::Event(_) | Object::Timer(_) | Object::Signals(_) | Object::Poller(_) => plain(ANON_INODE_FS_MAGIC),
        Object::Device(_) => plain(TMPFS_MAGIC),
        Object::Text(_, node)
        | Object::Asks(_, node)
        | Object::Counters(_, node)
        | Object::Program(node)
        | Object::Special(node) => node.file_system(caller.process),
        Object::Shared(_) => caller.process.job.shared.file_system(),
    };
    caller.write(a.get(1), status::statfs(&answer).bytes()).await?;
    Ok(0)
}

async fn file_system(caller: Caller<'_>, call: Call) -> Awaited<FileSystemStatus> {
    match caller.ask(call).await? {
        (Reply::FileSystem(status), _) => Ok(status),
        _ => Err(Errno::EIO.into()),
    }
}

/// access(2).
pub(super) async fn access(caller: Caller<'_>, a: &Arguments) -> Awaited {
    access_at(caller, AT_FDCWD, a.get(0), a.uint(1), 0).await
}

/// faccessat(2).
pub(super) async fn faccessat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    access_at(caller, a.int(0), a.get(1), a.uint(2), 0).await
}

/// faccessat2(2).
pub(super) async fn faccessat2(caller: Caller<'_>, a: &Arguments) -> Awaited {
    access_at(caller, a.int(0), a.get(1), a.uint(2), a.uint(3)).await
}

async fn access_at(caller: Caller<'_>, descriptor: i32, address: u64, mode: u32, flags: u32) -> Awaited {
    const ALL: u32 = 7;
    const AT_EACCESS: u32 = AT_REMOVEDIR;
    if mode & !ALL != 0 || flags & !(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    match read_target_or_file(caller, descriptor, address, flags).await? {
        TargetOrFile::Target(Target::Shipped(at)) => {
            caller.look(Call::Access { at, mode, flags }).await?;
            Ok(0)
        }
        TargetOrFile::Target(target) => {
            let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
            check_mode(status_of(caller, target, follow).await?.mode, mode)
        }
        TargetOrFile::File(file) => access_to_file(caller, &file, mode, flags).await,
    }
}

async fn access_to_file(caller: Caller<'_>, file: &OpenFile, mode: u32, flags: u32) -> Awaited {
    match file.as_shipped() {
        Some(shipped) => {
            let at = Location { directory: Some(shipped.handle), path: ByteString::new() };
            caller.ship(Call::Access { at, mode, flags: flags | AT_EMPTY_PATH }).await
        }
        None => check_mode(file.mode(caller.process), mode),
    }
}

/// What the kernel makes may be used as its mode says for everybody, or, a stream, for its owner.
fn check_mode(has: u32, wants: u32) -> Awaited {
    let granted = has & 7 | has >> 6 & 7;
    if wants & !granted == 0 { Ok(0) } else { Err(Errno::EACCES.into()) }
}
