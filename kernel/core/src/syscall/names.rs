//! Names: unlink(2), rename(2), link(2), symlink(2), readlink(2).

use alloc::vec::Vec;

use coppice_protocol::limits::PATH_BYTES_MAX;
use coppice_protocol::ship::{Call, Location};
use coppice_protocol::text::ByteString;

use super::Arguments;
use super::place::{
    AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, Target, TargetOrFile, handle_of, read_target,
    read_target_or_file,
};
use super::shared;
use super::stat::status_of;
use crate::errno::Errno;
use crate::files::names::Told;
use crate::files::special::{Kind, Node};
use crate::process::{Awaited, Caller};

/// unlink(2).
pub(super) async fn unlink(caller: Caller<'_>, a: &Arguments) -> Awaited {
    remove(caller, AT_FDCWD, a.get(0), false).await
}

/// unlink(2), or rmdir(2) if it is a `directory`.
pub(super) async fn remove(caller: Caller<'_>, descriptor: i32, address: u64, directory: bool) -> Awaited {
    match read_target(caller, descriptor, address).await? {
        Target::Shared(name) => shared::remove(caller, &name, directory),
        target => caller.ship(Call::Remove { at: target.into_location()?, directory }).await,
    }
}

/// unlinkat(2).
pub(super) async fn unlinkat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(2);
    if flags & !AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL.into());
    }
    remove(caller, a.int(0), a.get(1), flags != 0).await
}

/// rename(2).
pub(super) async fn rename(caller: Caller<'_>, a: &Arguments) -> Awaited {
    rename_at(caller, (AT_FDCWD, a.get(0)), (AT_FDCWD, a.get(1)), 0).await
}

/// renameat(2).
pub(super) async fn renameat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    rename_at(caller, (a.int(0), a.get(1)), (a.int(2), a.get(3)), 0).await
}

/// renameat2(2).
pub(super) async fn renameat2(caller: Caller<'_>, a: &Arguments) -> Awaited {
    rename_at(caller, (a.int(0), a.get(1)), (a.int(2), a.get(3)), a.uint(4)).await
}

async fn rename_at(caller: Caller<'_>, from: (i32, u64), to: (i32, u64), flags: u32) -> Awaited {
    const NOREPLACE: u32 = 1;
    const EXCHANGE: u32 = 2;
    const WHITEOUT: u32 = 4;
    let is_unknown = flags & !(NOREPLACE | EXCHANGE | WHITEOUT) != 0;
    if is_unknown || flags & EXCHANGE != 0 && flags & (NOREPLACE | WHITEOUT) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let from = read_target(caller, from.0, from.1).await?;
    let to = match read_target(caller, to.0, to.1).await {
        Ok(to) => to,
        Err(failure) => {
            // Where the first path's name is comes first, as on Linux.
            if let Target::Shipped(at) = from {
                status_of(caller, Target::Shipped(parent(at)), true).await?;
            }
            return Err(failure);
        }
    };
    if from.is_shared() || to.is_shared() {
        return shared::rename(caller, &from, &to, flags);
    }
    let (from, to) = (from.into_location()?, to.into_location()?);
    caller.ship(Call::Rename { from, to, flags }).await
}

/// The directory that has the name at the end of a path.
fn parent(Location { directory, path }: Location) -> Location {
    let mut path = path.into_bytes();
    let name_end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let name = path[..name_end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.truncate(name);
    path.push(b'.');
    Location { directory, path: path.into() }
}

/// link(2).
pub(super) async fn link(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let from = read_target(caller, AT_FDCWD, a.get(0)).await?;
    link_to(caller, from, (AT_FDCWD, a.get(1)), false).await
}

/// linkat(2).
pub(super) async fn linkat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(4);
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let from = match read_target_or_file(caller, a.int(0), a.get(1), flags).await? {
        TargetOrFile::Target(Target::Special(_)) => return Err(Errno::EXDEV.into()),
        TargetOrFile::Target(target) => target,
        TargetOrFile::File(file) => {
            let directory = Some(handle_of(&file, Errno::EXDEV)?);
            Target::Shipped(Location { directory, path: ByteString::new() })
        }
    };
    link_to(caller, from, (a.int(2), a.get(3)), flags & AT_SYMLINK_FOLLOW != 0).await
}

async fn link_to(caller: Caller<'_>, from: Target, to: (i32, u64), follow: bool) -> Awaited {
    let to = match read_target(caller, to.0, to.1).await {
        Ok(to) => to,
        Err(failure) => {
            // Whether there is anything to link comes first, as on Linux.
            if !from.is_open_file() {
                status_of(caller, from, follow).await?;
            }
            return Err(failure);
        }
    };
    if from.is_shared() || to.is_shared() {
        return shared::link(caller, &from, &to);
    }
    let (from, to) = (from.into_location()?, to.into_location()?);
    caller.ship(Call::Link { from, to, follow }).await
}

/// symlink(2).
pub(super) async fn symlink(caller: Caller<'_>, a: &Arguments) -> Awaited {
    make_link(caller, a.get(0), AT_FDCWD, a.get(1)).await
}

/// symlinkat(2).
pub(super) async fn symlinkat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    make_link(caller, a.get(0), a.int(1), a.get(2)).await
}

async fn make_link(caller: Caller<'_>, target: u64, descriptor: i32, address: u64) -> Awaited {
    let target = caller.read_path(target).await?;
    if target.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    match read_target(caller, descriptor, address).await? {
        Target::Shared(name) => shared::make_other(caller, &name),
        at => caller.ship(Call::SymbolicLink { target, at: at.into_location()? }).await,
    }
}

/// readlink(2).
pub(super) async fn readlink(caller: Caller<'_>, a: &Arguments) -> Awaited {
    read_link_at(caller, AT_FDCWD, a.get(0), a.get(1), a.int(2)).await
}

/// readlinkat(2). An empty path means the link that was opened with `O_PATH`.
pub(super) async fn readlinkat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    read_link_at(caller, a.int(0), a.get(1), a.get(2), a.int(3)).await
}

async fn read_link_at(caller: Caller<'_>, descriptor: i32, path: u64, out: u64, length: i32) -> Awaited {
    let length = usize::try_from(length).ok().filter(|length| *length > 0).ok_or(Errno::EINVAL)?;
    // An empty path stands for a link that was opened, and the working directory is none.
    let empty = if descriptor == AT_FDCWD { 0 } else { AT_EMPTY_PATH };
    let text = match read_target_or_file(caller, descriptor, path, empty).await? {
        TargetOrFile::Target(Target::Shipped(at)) => read_shipped(caller, at).await?,
        TargetOrFile::Target(Target::Special(node)) => read_special(caller, node)?,
        TargetOrFile::Target(Target::Shared(name)) => {
            shared::status(caller, &name)?;
            return Err(Errno::EINVAL.into());
        }
        TargetOrFile::File(file) => {
            let directory = Some(handle_of(&file, Errno::ENOENT)?);
            read_shipped(caller, Location { directory, path: ByteString::new() }).await?
        }
    };
    let text = &text[..text.len().min(length)];
    caller.write(out, text).await?;
    Ok(text.len() as u64)
}

/// Where a link at the I/O node leads.
async fn read_shipped(caller: Caller<'_>, at: Location) -> Awaited<Vec<u8>> {
    caller.thread.keep(PATH_BYTES_MAX)?;
    match caller.look(Call::ReadLink(at)).await? {
        Told::Link(link) => Ok(link),
        _ => Err(Errno::EIO.into()),
    }
}

/// Where a link that the kernel makes leads. Of a descriptor it is said what that stands for; the names of files at the
/// I/O node are not known: `ENOENT`.
fn read_special(caller: Caller<'_>, node: Node) -> Result<Vec<u8>, Errno> {
    match node.target(caller.process) {
        Some(target) => Ok(target),
        None => match node.kind {
            Kind::Descriptor(number) => {
                let file = caller.process.files.lock().get(number).map_err(|_| Errno::ENOENT)?;
                file.name().ok_or(Errno::ENOENT)
            }
            _ => Err(Errno::EINVAL),
        },
    }
}
