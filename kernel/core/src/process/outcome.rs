//! Why a system call did not do what it was asked.

use crate::errno::Errno;
use crate::memory::{CopyError, Fetch};
use crate::process::End;
use crate::process::signals::Restart;

/// Why a call that never waits was not done.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It failed; the program goes on with this.
    Errno(Errno),
    /// It touched a page of the program that must be fetched first. Nothing was done: it is to be made again.
    Fetch(Fetch),
    /// There is no memory for a page it touched: the process cannot go on.
    OutOfMemory,
    /// It ended the process.
    End(End),
}

/// Why a call that may wait was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It failed; the program goes on with this.
    Errno(Errno),
    /// Coppice does not have it: `ENOSYS`, counted.
    Unknown,
    /// There is no memory for a page it touched: the process cannot go on.
    OutOfMemory,
    /// It ended the process.
    End(End),
    /// A signal's handler runs in its place; it has had no effect.
    Interrupted(Restart),
    /// Its thread is held: it is made again from its record ([`crate::process::hold`]).
    Held,
}

impl Failure {
    /// Whether a call that has done a part before succeeds with that.
    pub(crate) const fn leaves_part(&self) -> bool {
        matches!(self, Self::Errno(_) | Self::Interrupted(_))
    }
}

/// What a call that never waits answers.
pub(crate) type Immediate<T = u64> = Result<T, Trouble>;

/// What a call that may wait answers.
pub(crate) type Awaited<T = u64> = Result<T, Failure>;

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<End> for Trouble {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

impl From<CopyError> for Trouble {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Fetch { fetch, .. } => Self::Fetch(fetch),
            CopyError::Fault { .. } => Self::Errno(Errno::EFAULT),
            CopyError::OutOfMemory => Self::OutOfMemory,
        }
    }
}
