//! How long a file may become (`RLIMIT_FSIZE`): what would go beyond is cut, and if there is nothing left, fails with
//! `EFBIG` and `SIGXFSZ`.

use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::SIGXFSZ;
use crate::errno::Errno;
use crate::files::OpenFile;
use crate::process::resources::INFINITY;
use crate::process::signals::Target;
use crate::process::{Awaited, Caller, Failure};

/// Of `length` bytes that are to be written at `at` (`None`: at the file's end), how many may be.
///
/// # Errors
/// `EFBIG`: none, and there were some.
pub(super) async fn may_write(caller: Caller<'_>, file: &OpenFile, at: Option<u64>, length: u64) -> Awaited {
    let limit = caller.process.limits.file_bytes();
    if limit == INFINITY || length == 0 || !file.is_regular() {
        return Ok(length);
    }
    let at = match at {
        Some(at) => at,
        None => file.size(caller.process).await?,
    };
    match limit.checked_sub(at) {
        None | Some(0) => Err(too_long(caller)),
        Some(left) => Ok(length.min(left)),
    }
}

/// Whether a file of `size` bytes may be made `length` bytes long. A shorter one may always be.
///
/// # Errors
/// `EFBIG`: it may not.
pub(super) fn may_grow(caller: Caller<'_>, size: u64, length: u64) -> Awaited<()> {
    if length > size && length > caller.process.limits.file_bytes() { Err(too_long(caller)) } else { Ok(()) }
}

/// Whether anything must be asked for [`may_grow`].
pub(super) fn is_limited(caller: Caller<'_>, length: u64) -> bool {
    length > caller.process.limits.file_bytes()
}

fn too_long(caller: Caller<'_>) -> Failure {
    let identity = &caller.process.identity;
    let info = SignalInfo::user(SIGXFSZ, identity.pid, identity.user);
    match caller.process.send(Target::Thread(caller.thread.tid), info) {
        Ok(Some(end)) => Failure::End(end),
        Ok(None) | Err(_) => Errno::EFBIG.into(),
    }
}
