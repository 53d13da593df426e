//! Leases of files: what a node may know of a file without asking.
//!
//! The I/O node knows which of its nodes have a file open. As long as nobody writes it, each of them has a
//! [`Lease::Shared`]: what it has read stays true. If a single one has it open, to write, it has a [`Lease::Sole`]:
//! nobody else can know what it has not written yet. If several have it open and one of them writes, nobody has a
//! lease, and every call is made at the I/O node. So what one rank wrote any other reads, as on one machine.
//!
//! Who wants to open a file against a lease waits until the node has given that back, for which the I/O node asks
//! ([`crate::ship::Notice::Recall`]): it writes what it has not written, forgets what it knows and says so
//! ([`crate::ship::Call::Return`]). Leases end with the node, with its job and with the last of its handles.
//!
//! What a node has read of a file may be true still when it opens it again. So bytes have a *version*, which the table
//! gives a new number when the file may have become another: by somebody's lease to write, or on the host, which shows
//! in its length and times. These tell files apart only if they were not changed a moment before
//! ([`limits::FILE_TIME_GRAIN_NS`]).
//!
//! Beside the files that are open there are names and attributes, of which a node that looks at many gets one *lease of
//! names* for each job: what it was told of them stays true until it is asked back
//! ([`crate::ship::Notice::RecallNames`]), which the I/O node does before any other node changes a name or an
//! attribute. The node itself forgets what its own calls change.
//!
//! [`Leases`] is the I/O node's table of files, [`Names`] that of names. They do nothing but
//! count; whoever asks them sends what they say.

pub mod limits;
mod names;
mod table;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::names::{Mark, Names};
pub use self::table::{Access, Leases, Recall, Stamp};

/// Which file of the host, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// The device it is on.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
}

/// What a node may know without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lease {
    /// What it has read: nobody writes.
    Shared,
    /// That, and what it has not written yet: nobody else has it open.
    Sole,
}

/// A lease that a node gets with a file that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Which.
    pub lease: Lease,
    /// Which one of all: later ones have higher numbers.
    pub number: u64,
    /// Bytes of this version are what is in the file, too.
    pub known: u64,
    /// What is read from now on is of this version.
    pub version: u64,
}
