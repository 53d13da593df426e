//! Locks of files between the ranks of jobs: those of ranges (fcntl(2)) and of whole files (flock(2)).
//!
//! The I/O node knows who has which. Nobody waits there: who finds a lock taken is told so at once, may leave a *wait*
//! with a number of its own, and tries again when it is called ([`crate::ship::Notice::Lock`]). For
//! [`limits::TURN_NS`] nobody else gets what it was called for, so that who waits for a lock is not passed by those
//! who come for it again and again; after that, others do, as the process may be stopped. Who waits is called in the
//! order in which it came. A lock that others have does not stand in the way of one that goes with it: as on Linux, who
//! waits to write is passed by those who read.
//!
//! [`Spans`] are one holder's locks of one file, in the kernel of a node, too. [`Locks`] is the I/O node's table: it
//! does nothing but count, and whoever asks it tells those that it says are called.

pub mod limits;
mod spans;
mod table;
#[cfg(test)]
mod tests;
mod waits;

use serde::{Deserialize, Serialize};

use crate::ship::{Handle, Owner};

pub use self::spans::{Span, Spans};
pub use self::table::{Denied, Found, Holder, Locks, Place};

/// In whose name a lock is asked for, and among which it is: those of ranges and those of whole files do not see each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Whose {
    /// The rank's, of a range: it ends when the rank closes the file, however often that is open (`F_SETLK`).
    Process,
    /// The open file's, of a range (`F_OFD_SETLK`).
    OpenFile,
    /// The open file's, of the whole file (flock(2)).
    Whole,
}

/// A lock as a rank asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The open file.
    pub file: Handle,
    /// In whose name.
    pub whose: Whose,
    /// Of which bytes, and whether others may have such as well.
    pub span: Span,
}

/// A lock that stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// Which rank has it.
    pub owner: Owner,
    /// It is an open file's, and not the rank's.
    pub is_open_files: bool,
    /// Of which bytes, and whether others may have such as well.
    pub span: Span,
}
