//! Changing what files are: chmod(2), utimensat(2), F_SETFL.

use coppice_protocol::ship::{Handle, Location, TimeChange};
use rustix::fs::{AtFlags, CWD, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::modes::changed_mode;
use super::{Files, Result, descriptor_path};

/// Nanoseconds of a second.
const SECOND_NS: u32 = 1_000_000_000;

impl Files {
    /// chmod(2).
    pub(crate) fn change_mode(&self, at: &Location, mode: u32) -> Result<()> {
        let found = self.find(at, true)?;
        self.root.admit_unknown(&found)?;
        rustix::fs::chmodat(CWD, descriptor_path(&found), changed_mode(&found, mode)?, AtFlags::empty())
    }

    /// fchmod(2).
    pub(crate) fn handle_change_mode(&self, handle: Handle, mode: u32) -> Result<()> {
        let file = self.handles.get(handle)?;
        let object = &*file.object;
        if rustix::fs::fcntl_getfl(object)?.contains(OFlags::PATH) {
            return Err(Errno::BADF);
        }
        self.root.admit_unknown(object)?;
        rustix::fs::fchmod(object, changed_mode(object, mode)?)
    }

    /// utimensat(2).
    pub(crate) fn change_times(
        &self,
        at: &Location,
        accessed: TimeChange,
        modified: TimeChange,
        follow: bool,
    ) -> Result<()> {
        let times = timestamps(accessed, modified)?;
        let found = self.find(at, follow)?;
        self.root.admit_unknown(&found)?;
        rustix::fs::utimensat(&found, c"", &times, AtFlags::EMPTY_PATH)
    }

    /// futimens(3).
    pub(crate) fn handle_change_times(&self, handle: Handle, accessed: TimeChange, modified: TimeChange) -> Result<()> {
        let file = self.handles.get(handle)?;
        let object = &*file.object;
        self.root.admit_unknown(object)?;
        rustix::fs::futimens(object, &timestamps(accessed, modified)?)
    }

    /// `F_SETFL`. Of its flags only `O_NOATIME` means anything here: appending is the node's, the rest is how this side
    /// waits.
    pub(crate) fn set_flags(&self, handle: Handle, flags: u32) -> Result<()> {
        let file = self.handles.get(handle)?;
        let kept = OFlags::from_bits_retain(flags).intersection(OFlags::NOATIME);
        rustix::fs::fcntl_setfl(&file.object, kept | OFlags::NONBLOCK)
    }
}

fn timestamps(accessed: TimeChange, modified: TimeChange) -> Result<Timestamps> {
    Ok(Timestamps { last_access: timespec(accessed)?, last_modification: timespec(modified)? })
}

fn timespec(change: TimeChange) -> Result<Timespec> {
    match change {
        TimeChange::Omit => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        TimeChange::Now => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        TimeChange::To(time) if time.nanoseconds < SECOND_NS => {
            Ok(Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanoseconds) })
        }
        TimeChange::To(_) => Err(Errno::INVAL),
    }
}
