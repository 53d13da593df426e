//! Staged files: those that a launch names are in the node's memory before the job's first rank starts here.
//!
//! The node is a member of each file's transfer ([`coppice_protocol::distribution`]) from the launch of the job's first
//! rank to the end of its last, as others may ask it for what it has. What came is in frames like other memory that
//! ranks share ([`room`]); it is hashed piece by piece before anybody uses it or gets it from here. Ranks see files as
//! sealed memory by their paths ([`crate::files::shared`]), and a program's pages are taken from there. With the job
//! all of it is gone.
//!
//! A file can also be [kept](kept) without a job: it comes in the same way ([`keep`]) and stays until its memory is
//! wanted, or it is told to go. A job that names the same bytes finds them there, and has the node help the others.
//!
//! What ranks read of a file may come so, too, while they read it ([`broadcast`]).

mod broadcast;
mod job;
mod keep;
mod kept;
mod member;
mod room;
mod service;
mod site;
#[cfg(test)]
mod tests;

pub(crate) use self::broadcast::Expected;
pub(crate) use self::job::OfJob;
pub(crate) use self::keep::keep;
pub use self::service::Staging;
pub(crate) use self::site::{Site, Tenant};
