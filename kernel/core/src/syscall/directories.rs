//! Directories: getdents64(2), mkdir(2), rmdir(2).

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::Call;

use super::Arguments;
use super::open::masked;
use super::place::{AT_FDCWD, Target, read_target};
use super::{names, shared};
use crate::errno::Errno;
use crate::files::Object;
use crate::memory::AddressSpace;
use crate::process::{Awaited, Caller};

/// getdents64(2). The position in the listing is the open file's offset.
pub(super) async fn getdents64(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    let limit = (a.uint(2) as usize).min(BULK_BYTES_MAX);
    if !AddressSpace::is_user_range(a.get(1), limit as u64) {
        return Err(Errno::EFAULT.into());
    }
    let _turn = file.turn().await;
    caller.thread.keep(limit)?;
    let position = file.offset();
    let (bytes, next) = match &file.object {
        Object::Shipped(shipped) if file.is_directory() => {
            let (bytes, next) = caller.list(shipped, position, limit as u32).await?;
            if bytes.len() > limit {
                return Err(Errno::EIO.into());
            }
            (bytes, next)
        }
        Object::Special(node) if node.is_directory() => node.list(caller.process, position, limit)?,
        _ => return Err(Errno::ENOTDIR.into()),
    };
    caller.write(a.get(1), &bytes).await?;
    file.set_offset(next);
    Ok(bytes.len() as u64)
}

/// mkdir(2).
pub(super) async fn mkdir(caller: Caller<'_>, a: &Arguments) -> Awaited {
    make(caller, AT_FDCWD, a.get(0), a.uint(1)).await
}

/// mkdirat(2).
pub(super) async fn mkdirat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    make(caller, a.int(0), a.get(1), a.uint(2)).await
}

async fn make(caller: Caller<'_>, descriptor: i32, address: u64, mode: u32) -> Awaited {
    match read_target(caller, descriptor, address).await? {
        Target::Shipped(at) => caller.ship(Call::MakeDirectory { at, mode: masked(caller, mode) }).await,
        Target::Special(_) => Err(Errno::EEXIST.into()),
        Target::Shared(name) => shared::make_other(caller, &name),
    }
}

/// rmdir(2).
pub(super) async fn rmdir(caller: Caller<'_>, a: &Arguments) -> Awaited {
    names::remove(caller, AT_FDCWD, a.get(0), true).await
}
