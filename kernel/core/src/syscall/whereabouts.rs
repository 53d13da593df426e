//! The working directory: getcwd(2), chdir(2), fchdir(2). It is kept as a path, so a directory that is renamed is lost.

use coppice_protocol::limits::PATH_BYTES_MAX;
use coppice_protocol::ship::{Call, Location};
use coppice_protocol::text::ByteString;

use super::Arguments;
use super::place::{AT_FDCWD, Target, read_target};
use super::shared;
use crate::errno::Errno;
use crate::files::Object;
use crate::files::names::Told;
use crate::process::{Awaited, Caller, Immediate};

/// getcwd(2).
pub(super) fn getcwd(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let mut path = caller.process.directory.lock().clone().into_bytes();
    path.push(0);
    if a.get(1) < path.len() as u64 {
        return Err(Errno::ERANGE.into());
    }
    caller.put(a.get(0), &path)?;
    Ok(path.len() as u64)
}

/// chdir(2).
pub(super) async fn chdir(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let path = match read_target(caller, AT_FDCWD, a.get(0)).await? {
        Target::Shipped(at) => resolve(caller, at).await?,
        Target::Special(node) if node.is_directory() => node.path().into(),
        Target::Special(_) => return Err(Errno::ENOTDIR.into()),
        Target::Shared(name) => {
            shared::status(caller, &name)?;
            return Err(Errno::ENOTDIR.into());
        }
    };
    *caller.process.directory.lock() = path;
    Ok(0)
}

/// fchdir(2).
pub(super) async fn fchdir(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.process.files.lock().get(a.int(0))?;
    let path = match &file.object {
        Object::Shipped(shipped) if file.is_directory() => {
            resolve(caller, Location { directory: Some(shipped.handle), path: ByteString::from(".") }).await?
        }
        Object::Special(node) if node.is_directory() => node.path().into(),
        _ => return Err(Errno::ENOTDIR.into()),
    };
    *caller.process.directory.lock() = path;
    Ok(0)
}

async fn resolve(caller: Caller<'_>, at: Location) -> Awaited<ByteString> {
    caller.thread.keep(PATH_BYTES_MAX)?;
    match caller.look(Call::Resolve(at)).await? {
        Told::Directory(path) if path.starts_with(b"/") => Ok(path),
        _ => Err(Errno::EIO.into()),
    }
}
