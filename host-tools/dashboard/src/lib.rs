//! What clusters and jobs are like, as pages for a browser.
//!
//! [`serve`] serves pages of a cluster as it is, which change while they are looked at.
//!
//! [`report`] makes one file of all that is known of a job, which needs nothing else: no other file, no network, no
//! script. It is given what is known ([`Matter`], which [`Matter::gather`] asks a cluster for). What programs and users
//! name is text on a page whatever is in it: templates escape it, and what a terminal would obey is shown as such.

mod charts;
mod cluster;
mod gather;
mod job;
mod map;
mod matter;
mod node;
mod rank;
mod report;
pub mod samples;
mod server;
#[cfg(test)]
mod tests;

pub use self::charts::ChartError;
pub use self::matter::{Function, Matter, Output, RANKS_DRAWN_MAX, drawn_ranks};
pub use self::report::{ReportError, report};
pub use self::server::{Access, Tool, serve};
