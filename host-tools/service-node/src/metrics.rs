//! What there is at a moment, for monitoring: OpenMetrics text, or the older format of Prometheus.
//!
//! Nothing is counted here. Whoever scrapes has the controller asked once for what is [`Seen`]; what the system knows
//! of the cluster's processes is added ([`host`]), and all of it becomes text (`exposition`, with the client library of
//! the Prometheus project) on a thread, as the loop that serves everybody is not to wait for that. The text is bounded
//! by limits: nodes, jobs and helpers beyond them are left out, and counted as such. It has no rank: what ranks of a
//! job did is to be summed up before it comes here (`jobs`).
//!
//! It is served with the API, and over TCP on loopback if that is wanted ([`server`]).

mod accept;
mod cluster;
mod exposition;
pub mod host;
mod jobs;
mod nodes;
mod processes;
pub mod seen;
pub mod server;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::accept::Format;
use self::host::ProcessSeen;
pub use self::seen::Seen;
use crate::output::keeper::Kept;

/// All that is shown at a moment.
#[derive(Debug)]
pub struct Snapshot {
    /// What the controller knows.
    pub seen: Seen,
    /// The cluster's processes, machines excluded.
    pub processes: Vec<ProcessSeen>,
    /// Logs of jobs' output.
    pub kept: Kept,
    /// Connections of the API.
    pub api: Slots,
    /// Connections of whoever scrapes over TCP.
    pub scrapers: Slots,
}

/// Connections of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// How many are open.
    pub open: usize,
    /// How many may be.
    pub most: usize,
}

/// The text of a snapshot.
///
/// # Errors
/// None that is known: a string takes any text.
pub fn text(snapshot: Snapshot, format: Format) -> Result<String, fmt::Error> {
    exposition::text(format, move |families| {
        cluster::write(&snapshot, families)?;
        nodes::write(&snapshot.seen, families)?;
        jobs::write(&snapshot.seen, families)?;
        processes::write(&snapshot.processes, families)
    })
}
