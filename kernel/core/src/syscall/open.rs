//! open(2), openat(2), creat(2).
//!
//! A call that is dropped while it waits may leave a file open at the I/O node that nobody has a descriptor for; it is
//! closed with the rank.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_hal::heap::block_bytes;
use coppice_protocol::ship::{Call, Location, Reply};
use coppice_protocol::text::ByteString;

use super::Arguments;
use super::place::{AT_FDCWD, Target, read_target};
use super::shared;
use crate::abi::u64_at;
use crate::errno::Errno;
use crate::files::asks::AskFile;
use crate::files::cache::WRITER_BYTES;
use crate::files::counters::CounterFile;
use crate::files::special::{Kind, Node, Text};
use crate::files::{Descriptor, OPEN_FILE_BYTES, Object, OpenFile, absolute, buffer, flags};
use crate::memory::{FileChange, FileIdentity};
use crate::process::{Awaited, Caller};

/// open(2).
pub(super) async fn open(caller: Caller<'_>, a: &Arguments) -> Awaited {
    open_at(caller, AT_FDCWD, a.get(0), a.uint(1), a.uint(2)).await
}

/// openat(2).
pub(super) async fn openat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    open_at(caller, a.int(0), a.get(1), a.uint(2), a.uint(3)).await
}

/// openat2(2): as openat(2), but what it does not know it refuses. Ways of following a path that would have to be kept
/// to at the I/O node are not there (`ENOSYS`, as on a Linux without the call).
pub(super) async fn openat2(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const HOW_BYTES: u64 = 24;
    const HOW_BYTES_MAX: u64 = 4096;
    const RESOLVE_NO_MAGICLINKS: u64 = 2;
    const RESOLVE_ALL: u64 = 0x3f;
    const PATH_FLAGS: u32 = flags::O_PATH | flags::O_DIRECTORY | flags::O_NOFOLLOW | flags::O_CLOEXEC;
    match a.get(3) {
        ..HOW_BYTES => return Err(Errno::EINVAL.into()),
        HOW_BYTES..=HOW_BYTES_MAX => {}
        _ => return Err(Errno::E2BIG.into()),
    }
    let how: [u8; HOW_BYTES as usize] = caller.read_array(a.get(2)).await?;
    let rest_bytes = (a.get(3) - HOW_BYTES) as usize;
    caller.thread.keep(rest_bytes)?;
    let mut rest = buffer(rest_bytes)?;
    caller.read(a.get(2).wrapping_add(HOW_BYTES), &mut rest).await?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG.into());
    }
    let [opened_with, mode, resolve] = [0, 8, 16].map(|offset| u64_at(&how, offset));
    let opened_with = u32::try_from(opened_with).map_err(|_| Errno::EINVAL)?;
    let known = if opened_with & flags::O_PATH != 0 { PATH_FLAGS } else { opened_with };
    let makes = opened_with & (flags::O_CREAT | flags::O_TMPFILE) != 0;
    let is_mode = if makes { mode & !0o7777 == 0 } else { mode == 0 };
    if opened_with & !known != 0 || normalise(opened_with)? != opened_with || !is_mode || resolve & !RESOLVE_ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    match resolve {
        0 => {}
        RESOLVE_NO_MAGICLINKS => {
            let target = read_target(caller, a.int(0), a.get(1)).await?;
            if matches!(target, Target::Special(Node { kind: Kind::Descriptor(_) | Kind::Program, .. })) {
                return Err(Errno::ELOOP.into());
            }
        }
        _ => return Err(Errno::ENOSYS.into()),
    }
    open_at(caller, a.int(0), a.get(1), opened_with, mode as u32).await
}

/// creat(2).
pub(super) async fn creat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    open_at(caller, AT_FDCWD, a.get(0), flags::O_CREAT | flags::O_WRONLY | flags::O_TRUNC, a.uint(1)).await
}

async fn open_at(caller: Caller<'_>, descriptor: i32, address: u64, opened_with: u32, mode: u32) -> Awaited {
    let opened_with = normalise(opened_with)?;
    let target = read_target(caller, descriptor, address).await?;
    caller.process.files.lock().check_room()?;
    let charge = caller.process.node.quota.charge(OPEN_FILE_BYTES)?;
    let file = match target {
        Target::Shipped(at) => open_shipped(caller, at, opened_with, mode).await?,
        Target::Special(node) => open_special(caller, node, opened_with)?,
        Target::Shared(name) => shared::open(caller, &name, opened_with, mode).await?,
    };
    file.charge(charge);
    let close_on_exec = opened_with & flags::O_CLOEXEC != 0;
    let number = caller.process.files.lock().insert(Descriptor { file, close_on_exec }, 0)?;
    Ok(number.cast_unsigned().into())
}

/// What Linux makes of flags before it looks at anything else: it ignores those it does not know, and with `O_PATH` all
/// but a few.
///
/// # Errors
/// `EINVAL`: `O_TMPFILE` without writing, or a directory that is to be made.
fn normalise(opened_with: u32) -> Result<u32, Errno> {
    const KNOWN: u32 = flags::O_ACCMODE
        | flags::O_CREAT
        | flags::O_EXCL
        | flags::O_NOCTTY
        | flags::O_TRUNC
        | flags::SETTABLE
        | flags::O_LARGEFILE
        | flags::O_DIRECTORY
        | flags::O_NOFOLLOW
        | flags::O_CLOEXEC
        | flags::O_PATH
        | flags::O_TMPFILE
        | flags::O_DSYNC
        | flags::O_SYNC;
    const MAKES_DIRECTORY: u32 = flags::O_CREAT | flags::O_DIRECTORY;
    if opened_with & flags::O_PATH != 0 {
        return Ok(opened_with & (flags::O_PATH | flags::O_DIRECTORY | flags::O_NOFOLLOW | flags::O_CLOEXEC));
    }
    if opened_with & flags::O_TMPFILE == 0 && opened_with & MAKES_DIRECTORY == MAKES_DIRECTORY {
        return Err(Errno::EINVAL);
    }
    if opened_with & flags::O_TMPFILE != 0 {
        // Also with neither, which is asked of the file's mode as if it were both.
        let writes = opened_with & flags::O_ACCMODE != flags::O_RDONLY;
        if opened_with & flags::O_DIRECTORY == 0 || !writes || opened_with & flags::O_CREAT != 0 {
            return Err(Errno::EINVAL);
        }
    }
    Ok(opened_with & KNOWN)
}

async fn open_shipped(caller: Caller<'_>, at: Location, opened_with: u32, mode: u32) -> Awaited<Arc<OpenFile>> {
    let makes = opened_with & (flags::O_CREAT | flags::O_TMPFILE) != 0;
    let mode = if makes { masked(caller, mode) } else { 0 };
    // Before there is a handle.
    let path = path_of(caller, &at);
    let charge = caller.process.node.quota.charge(block_bytes(path.len()) + WRITER_BYTES)?;
    let known = caller.process.closer.cache().opening()?;
    match caller.ask(Call::Open { at, flags: opened_with & !flags::O_CLOEXEC, mode }).await? {
        (Reply::Opened { handle, status, grant }, bytes) => {
            let (closer, charged) = (&caller.process.closer, (path, charge, known));
            let lease = grant.map(|grant| (grant, &*bytes));
            let file = Arc::new(OpenFile::shipped((handle, status, lease), charged, opened_with, closer));
            if opened_with & flags::O_TRUNC != 0 {
                let file = FileIdentity { device: status.device, inode: status.inode };
                caller.process.file_changed(file, &FileChange::Cut(0));
            }
            Ok(file)
        }
        _ => Err(Errno::EIO.into()),
    }
}

/// The path of what is opened, from the job's root, as far as it is known.
fn path_of(caller: Caller<'_>, at: &Location) -> ByteString {
    let Some(handle) = at.directory else { return at.path.clone() };
    let files = caller.process.files.lock();
    let directory = files.shipped(handle).map_or(&b""[..], |directory| &directory.path);
    absolute(directory, &at.path).into()
}

/// A new file's mode, with the process's mask taken off.
pub(super) fn masked(caller: Caller<'_>, mode: u32) -> u32 {
    mode & 0o7777 & !caller.process.umask.load(Ordering::Relaxed)
}

fn open_special(caller: Caller<'_>, node: Node, opened_with: u32) -> Result<Arc<OpenFile>, Errno> {
    let open = |object| Ok(Arc::new(OpenFile::new(object, opened_with)));
    if opened_with & flags::O_PATH != 0 {
        let refused = opened_with & flags::O_DIRECTORY != 0 && !node.is_directory();
        return if refused { Err(Errno::ENOTDIR) } else { open(Object::Special(node)) };
    }
    if opened_with & flags::O_CREAT != 0 && opened_with & flags::O_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    if opened_with & flags::O_TMPFILE != 0 {
        return Err(if node.is_directory() { Errno::EOPNOTSUPP } else { Errno::ENOTDIR });
    }
    if opened_with & flags::O_DIRECTORY != 0 && !node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    let writes = opened_with & flags::O_ACCMODE != flags::O_RDONLY;
    match node.kind {
        _ if node.is_directory() && (writes || opened_with & flags::O_CREAT != 0) => Err(Errno::EISDIR),
        Kind::Directory | Kind::Shared | Kind::Descriptors | Kind::Threads | Kind::Thread(_) => {
            open(Object::Special(node))
        }
        Kind::Device(device) => open(Object::Device(device)),
        Kind::Terminal => Err(Errno::ENXIO),
        Kind::Text(text) if writes && !matches!(text, Text::Name(_)) => Err(Errno::EACCES),
        Kind::Text(text) => open(Object::Text(text, node)),
        Kind::Checkpoint => open(Object::Asks(AskFile::new(&caller.process.job.asks), node)),
        Kind::Counters => open(Object::Counters(CounterFile::new(&caller.process.offered), node)),
        Kind::Program if opened_with & flags::O_NOFOLLOW != 0 => Err(Errno::ELOOP),
        Kind::Program if writes => Err(Errno::ETXTBSY),
        Kind::Program => open(Object::Program(node)),
        Kind::Descriptor(_) if opened_with & flags::O_NOFOLLOW != 0 => Err(Errno::ELOOP),
        Kind::Descriptor(number) => reopen(caller, number, opened_with),
    }
}

/// Opens what a descriptor refers to. Streams and memory get an open file of their own; others share the descriptor's,
/// offset included, unlike on Linux.
fn reopen(caller: Caller<'_>, number: i32, opened_with: u32) -> Result<Arc<OpenFile>, Errno> {
    let file = caller.process.files.lock().get(number).map_err(|_| Errno::ENOENT)?;
    let access = opened_with & flags::O_ACCMODE;
    if access != flags::O_WRONLY && !file.is_readable() || access != flags::O_RDONLY && !file.is_writable() {
        return Err(Errno::EACCES);
    }
    Ok(match &file.object {
        Object::Standard(stream) => Arc::new(OpenFile::standard(stream.clone())),
        Object::Shared(file) => Arc::new(OpenFile::new(Object::Shared(Arc::clone(file)), opened_with)),
        _ => file,
    })
}

#[cfg(test)]
mod tests {
    use super::normalise;
    use crate::errno::Errno;
    use crate::files::flags;

    #[test]
    fn flags_are_normalised_as_linux_does() {
        assert_eq!(normalise(flags::O_RDWR | 1 << 30), Ok(flags::O_RDWR));
        let path = flags::O_PATH | flags::O_CLOEXEC;
        assert_eq!(normalise(path | flags::O_RDWR | flags::O_TRUNC | flags::O_CREAT), Ok(path));
        assert_eq!(normalise(flags::O_TMPFILE | flags::O_DIRECTORY), Err(Errno::EINVAL));
        assert_eq!(normalise(flags::O_TMPFILE | flags::O_RDWR), Err(Errno::EINVAL));
        assert!(normalise(flags::O_TMPFILE | flags::O_DIRECTORY | flags::O_WRONLY).is_ok());
    }
}
