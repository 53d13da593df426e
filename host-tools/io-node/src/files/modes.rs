//! The modes that files of the host get.
//!
//! A file with the bit for set-user-id or set-group-id runs, for whoever starts it on the host, as the user that the
//! I/O node runs as: a program could leave itself a door there. So these two bits are never set, whatever call asks
//! for them. They are ignored, as POSIX allows and Linux does with set-group-id for strangers to the group, and not
//! refused, so that what keeps modes when it copies files (`cp -p`, `tar`, `install`) goes on working; nothing is lost,
//! as nothing on a node is ever started by its file. Who looks sees the mode that there is.
//!
//! Directories may keep a set-group-id that they have, because the host gave it to them or to the directory that they
//! were made in: there it says only whose group new files are.

use rustix::fd::AsFd;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use super::Result;

/// The bits that a new file or directory may get: permissions, and "sticky".
const NEW: u32 = 0o1777;

/// The mode of what is made with `mode`.
pub(super) fn new_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & NEW)
}

/// The mode that chmod(2) to `mode` gives an existing file. `EPERM` if it is neither file nor directory: who may use a
/// device, a socket or a FIFO of the host is not for programs to say.
pub(super) fn changed_mode(file: &impl AsFd, mode: u32) -> Result<Mode> {
    let status = rustix::fs::fstat(file)?;
    let kept = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => 0,
        FileType::Directory => status.st_mode & Mode::SGID.as_raw_mode(),
        _ => return Err(Errno::PERM),
    };
    Ok(Mode::from_raw_mode(mode & (NEW | kept)))
}
