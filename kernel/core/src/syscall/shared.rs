//! Calls on names in `/dev/shm` ([`crate::files::shared`]). None of them waits, but for the end of what takes long.

use alloc::sync::Arc;

use coppice_protocol::ship::FileStatus;

use super::Arguments;
use super::open::masked;
use super::place::Target;
use crate::errno::Errno;
use crate::files::shared::SharedFile;
use crate::files::{Descriptor, Object, OpenFile, flags};
use crate::process::{Awaited, Caller, Failure};

/// open(2) of a name.
pub(super) async fn open(caller: Caller<'_>, name: &[u8], opened_with: u32, mode: u32) -> Result<Arc<OpenFile>, Errno> {
    let files = &caller.process.job.shared;
    let creates = opened_with & flags::O_CREAT != 0;
    let is_own = creates && opened_with & flags::O_EXCL != 0;
    let file = loop {
        match files.find(name) {
            Ok(_) if is_own => return Err(Errno::EEXIST),
            Ok(_) if opened_with & flags::O_DIRECTORY != 0 => return Err(Errno::ENOTDIR),
            Ok(file) => {
                check(&file, opened_with)?;
                break file;
            }
            Err(_) if creates => match files.make(name, masked(caller, mode), &caller.process.as_maker()) {
                // Another core has made it since.
                Err(Errno::EEXIST) if !is_own => {}
                // Whatever mode it makes a file with, its maker may use it.
                made => break made?,
            },
            Err(errno) => return Err(errno),
        }
    };
    let writes = opened_with & flags::O_ACCMODE != flags::O_RDONLY;
    if opened_with & flags::O_TRUNC != 0 && writes {
        file.set_length(0, &*caller.process.job).await?;
    }
    Ok(Arc::new(OpenFile::new(Object::Shared(file), opened_with)))
}

fn check(file: &SharedFile, opened_with: u32) -> Result<(), Errno> {
    const READ: u32 = 4;
    const WRITE: u32 = 2;
    let wanted = match opened_with & flags::O_ACCMODE {
        _ if opened_with & flags::O_PATH != 0 => 0,
        flags::O_RDONLY => READ,
        flags::O_WRONLY => WRITE,
        _ => READ | WRITE,
    };
    if file.allows(wanted) { Ok(()) } else { Err(Errno::EACCES) }
}

/// memfd_create(2). Its names are for those who look at their descriptors; there are no huge pages (`EINVAL`).
pub(super) async fn memfd_create(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const MFD_CLOEXEC: u32 = 1;
    const MFD_ALLOW_SEALING: u32 = 2;
    const LABEL_BYTES_MAX: usize = 249;
    let how = a.uint(1);
    if how & !(MFD_CLOEXEC | MFD_ALLOW_SEALING) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let label = match caller.read_path(a.get(0)).await {
        Err(Failure::Errno(Errno::ENAMETOOLONG)) => return Err(Errno::EINVAL.into()),
        label => label?,
    };
    if label.len() > LABEL_BYTES_MAX {
        return Err(Errno::EINVAL.into());
    }
    let file =
        caller.process.job.shared.make_nameless(label, how & MFD_ALLOW_SEALING != 0, &caller.process.as_maker())?;
    let close_on_exec = how & MFD_CLOEXEC != 0;
    let file = OpenFile::new(Object::Shared(file), flags::O_RDWR).charged(&caller.process.node.quota)?;
    let number = caller.process.files.lock().insert(Descriptor { file, close_on_exec }, 0)?;
    Ok(number.cast_unsigned().into())
}

/// truncate(2) of a name.
pub(super) async fn truncate(caller: Caller<'_>, name: &[u8], length: u64) -> Awaited {
    let job = &*caller.process.job;
    let file = job.shared.find(name)?;
    check(&file, flags::O_WRONLY)?;
    file.set_length(length, job).await?;
    Ok(0)
}

/// What a name is.
pub(super) fn status(caller: Caller<'_>, name: &[u8]) -> Result<FileStatus, Errno> {
    caller.process.job.shared.find(name).map(|file| file.status())
}

/// unlink(2) of a name; rmdir(2) if `directory`.
pub(super) fn remove(caller: Caller<'_>, name: &[u8], directory: bool) -> Awaited {
    let files = &caller.process.job.shared;
    if directory {
        files.find(name)?;
        return Err(Errno::ENOTDIR.into());
    }
    files.remove(name)?;
    Ok(0)
}

/// rename(2) if both or one of the ends is in `/dev/shm`.
pub(super) fn rename(caller: Caller<'_>, from: &Target, to: &Target, flags: u32) -> Awaited {
    match (from, to) {
        (Target::Shared(from), Target::Shared(to)) => {
            caller.process.job.shared.rename(from, to, flags, &caller.process.node.quota)?
        }
        _ => return Err(Errno::EXDEV.into()),
    }
    Ok(0)
}

/// link(2) if both or one of the ends is in `/dev/shm`.
pub(super) fn link(caller: Caller<'_>, from: &Target, to: &Target) -> Awaited {
    match (from, to) {
        (Target::Shared(from), Target::Shared(to)) => {
            caller.process.job.shared.link(from, to, &caller.process.node.quota)?
        }
        _ => return Err(Errno::EXDEV.into()),
    }
    Ok(0)
}

/// mkdir(2), symlink(2): there are files alone.
pub(super) fn make_other(caller: Caller<'_>, name: &[u8]) -> Awaited {
    match caller.process.job.shared.find(name) {
        Ok(_) => Err(Errno::EEXIST.into()),
        Err(_) => Err(Errno::EPERM.into()),
    }
}
