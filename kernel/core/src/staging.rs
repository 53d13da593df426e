//! Staged files: those that a launch names are in the node's memory before the job's first rank starts here.
//!
//! The node is a member of each file's transfer ([`coppice_protocol::distribution`]) from the launch of the job's first
//! rank to the end of its last, as others may ask it for what it has. What came is in frames like other memory that
//! ranks share ([`room`]); it is hashed piece by piece before anybody uses it or gets it from here. Ranks see files as
//! sealed memory by their paths ([`crate::files::shared`]), and a program's pages are taken from there. With the job
//! all of it is gone.

mod job;
mod member;
mod room;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use self::job::OfJob;
pub use self::service::Staging;
