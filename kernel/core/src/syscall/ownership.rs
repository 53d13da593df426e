//! Owners: chown(2) and its kin. A job's user is one ordinary user, who can give nothing away: only what changes
//! nothing is allowed.

use coppice_protocol::ship::FileStatus;

use super::Arguments;
use super::place::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, TargetOrFile, read_target, read_target_or_file};
use super::stat::status_of;
use crate::errno::Errno;
use crate::process::{Awaited, Caller};

/// chown(2), and lchown(2) if links are not followed.
pub(super) async fn chown(caller: Caller<'_>, a: &Arguments, follow: bool) -> Awaited {
    let target = read_target(caller, AT_FDCWD, a.get(0)).await?;
    check(&status_of(caller, target, follow).await?, a.uint(1), a.uint(2))
}

/// fchown(2).
pub(super) async fn fchown(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = caller.process.files.lock().get(a.int(0))?;
    if file.is_path() {
        return Err(Errno::EBADF.into());
    }
    check(&file.status(caller.process).await?, a.uint(1), a.uint(2))
}

/// fchownat(2).
pub(super) async fn fchownat(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let flags = a.uint(4);
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let status = match read_target_or_file(caller, a.int(0), a.get(1), flags).await? {
        TargetOrFile::Target(target) => status_of(caller, target, flags & AT_SYMLINK_NOFOLLOW == 0).await?,
        TargetOrFile::File(file) => file.status(caller.process).await?,
    };
    check(&status, a.uint(2), a.uint(3))
}

/// Whether that is the owner already, or none is named (−1).
fn check(status: &FileStatus, user: u32, group: u32) -> Awaited {
    const KEEP: u32 = u32::MAX;
    let allowed = (user == KEEP || user == status.user) && (group == KEEP || group == status.group);
    if allowed { Ok(0) } else { Err(Errno::EPERM.into()) }
}
