//! Home of the files that jobs stage ([`coppice_protocol::staging`]): the bytes are here, on the host's disk, and every
//! node of the job is to have them.
//!
//! A job's files are opened with its root (`staged`); from then on until the job goes, each has a home (`home`), which
//! carries out what the protocol's machine says, and says it in datagrams. One task (`homes`) drives all of them over
//! one port. It waits for no disk: what the host does not have in memory is read on threads.
//!
//! Where home is another pset's, the I/O node is the member through which what goes to its nodes comes into the pset,
//! and is driven in the same way. A host has one store for all of its I/O nodes, and what lies there need not come: an
//! I/O node with the file says so first, is sent nothing, and sends what it has, as home does. Otherwise the bytes come
//! to it, and are in memory until all nodes have them (`received`).
//!
//! A file that a job's nodes read and that is broadcast for that ([`coppice_protocol::broadcast`]) is in memory from
//! the start, as a whole, since the host's may change.
//!
//! Files that nodes are to keep without a job ([`coppice_protocol::keep`]) are sent in the same way, each opened by
//! itself, until the service node says that it is over.

mod alarm;
mod home;
mod homes;
mod piece;
mod received;
mod report;
mod staged;
#[cfg(test)]
mod tests;

pub(crate) use self::alarm::Alarm;
pub(crate) use self::homes::{Held, Homes, Permit};
pub(crate) use self::piece::Piece;
pub(crate) use self::received::{Sent, cut};
pub(crate) use self::report::{News, Said};
pub(crate) use self::staged::{StagedFile, open, open_kept};
