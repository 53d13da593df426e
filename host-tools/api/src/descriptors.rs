//! What a cluster needs of the limit of open files, before it is brought up.
//!
//! Its processes each have the same hard limit, that of whoever brings the cluster up, so what counts is the one that
//! opens most. Each is asked of by itself: what it has open whatever happens, and what nodes add to that.

use std::num::NonZero;

use coppice_protocol::psets::PsetTable;
use rustix::process::{Resource, getrlimit};

use crate::counted;
use crate::limits::{API_CONNECTIONS_MIN, BOOTS_MIN, BOOTS_PER_PROCESSOR, NODES_MAX};

/// What the service node has open by itself: its lock, socket and log, the database with its files, the reserve, what
/// it waits with, and a few files for a moment.
const SERVICE_NODE_OWN: u32 = 40;

/// What it has open for each node: the process, what that says on standard error, and the log of a job.
const SERVICE_NODE_PER_NODE: u32 = 3;

/// What it has open for the fabric and for each I/O node: the process, its input and output, and its log.
const SERVICE_NODE_PER_HELPER: u32 = 4;

/// What it has open for a machine while that boots: pipes and files to start it with, its console when that is read.
const SERVICE_NODE_PER_BOOT: u32 = 8;

/// Sockets over which it says metrics by TCP: one that listens, and connections.
pub const SERVICE_NODE_METRICS: u32 = 1 + 8;

/// Threads of the service node that look at files users name; each has one open, or waits until it is.
pub const SERVICE_NODE_THREADS: u32 = 2 * 64;

/// Threads of the service node that read logs of jobs' output.
pub const SERVICE_NODE_LOG_THREADS: u32 = 8;

/// Programs that the service node reads at the same time.
pub const SERVICE_NODE_IMPORTS: u32 = 2 * 2;

/// What it has open for each of these beside the program itself: the copy, the copy's tree, the directory of both.
const SERVICE_NODE_PER_IMPORT: u32 = 4;

/// What the fabric has open by itself.
const FABRIC_OWN: u32 = 16;

/// What it has open for each port: two sockets.
const FABRIC_PER_PORT: u32 = 2;

/// Files that it records frames in.
pub const FABRIC_RECORDINGS: u32 = 64;

/// What an I/O node has for itself and for programs' files, however few nodes it serves.
pub const IO_NODE_OWN: u32 = 512;

/// What it has in addition for each of its nodes.
pub const IO_NODE_PER_NODE: u32 = 20;

/// What a cluster consists of, as far as it opens files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Compute nodes.
    pub nodes: u32,
    /// Compute nodes per I/O node.
    pub pset_size: u32,
    /// Machines that boot at the same time.
    pub boots: u32,
}

impl Extent {
    /// A cluster on this host.
    #[must_use]
    pub fn here(nodes: u32, pset_size: u32) -> Self {
        Self { nodes, pset_size, boots: u32::try_from(boots_at_once()).unwrap_or(u32::MAX) }
    }

    fn psets(&self) -> PsetTable {
        PsetTable::new(self.nodes, self.pset_size)
    }

    /// Files that the service node has open at the same time, connections of its API aside.
    #[must_use]
    pub fn of_service_node(&self) -> u32 {
        let helpers = self.psets().count().saturating_add(1);
        (SERVICE_NODE_OWN + SERVICE_NODE_METRICS)
            .saturating_add(self.nodes.saturating_mul(SERVICE_NODE_PER_NODE))
            .saturating_add(helpers.saturating_mul(SERVICE_NODE_PER_HELPER))
            .saturating_add(self.boots.min(self.nodes).saturating_mul(SERVICE_NODE_PER_BOOT))
            .saturating_add(
                SERVICE_NODE_THREADS + SERVICE_NODE_LOG_THREADS + SERVICE_NODE_IMPORTS * SERVICE_NODE_PER_IMPORT,
            )
    }

    /// Files that the fabric has open at the same time.
    #[must_use]
    pub fn of_fabric(&self) -> u32 {
        let ports = self.nodes.saturating_add(self.psets().count());
        (FABRIC_OWN + FABRIC_RECORDINGS).saturating_add(ports.saturating_mul(FABRIC_PER_PORT))
    }

    /// Files that an I/O node has open at the same time, or keeps room for.
    #[must_use]
    pub fn of_io_node(&self) -> u32 {
        let nodes = self.psets().nodes_most();
        IO_NODE_OWN.saturating_add(nodes.saturating_mul(IO_NODE_PER_NODE))
    }

    /// What the limit of open files must be at least: enough for whichever process opens most.
    #[must_use]
    pub fn needs(&self) -> u32 {
        let service_node = self.of_service_node().saturating_add(API_CONNECTIONS_MIN);
        service_node.max(self.of_fabric()).max(self.of_io_node())
    }

    /// Why a cluster cannot come up with this limit, one line with what to do about it; nothing if it can.
    #[must_use]
    pub fn refused_by(&self, limit: u64) -> Option<String> {
        let needs = self.needs();
        if limit >= needs.into() {
            return None;
        }
        let fewer = match nodes_within(limit, self.pset_size, self.boots) {
            0 => "",
            _ => ", or bring up fewer nodes",
        };
        Some(format!(
            "at most {limit} files can be open at a time and a cluster of {} needs {needs}: raise the \
             limit ({}; or LimitNOFILE of the service){fewer}",
            counted(self.nodes, "node"),
            raise(needs)
        ))
    }
}

/// How the limit is raised to so many.
#[must_use]
pub fn raise(needs: u32) -> String {
    format!("as root: ulimit -Hn {needs}")
}

/// Most nodes of a cluster that this limit is enough for.
#[must_use]
pub fn nodes_within(limit: u64, pset_size: u32, boots: u32) -> u32 {
    let fits = |nodes: &u32| u64::from(Extent { nodes: *nodes, pset_size, boots }.needs()) <= limit;
    (1..=NODES_MAX).rev().find(fits).unwrap_or(0)
}

/// The hard limit of open files of this process and those it starts.
#[must_use]
pub fn hard_limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Machines that boot at the same time on this host.
#[must_use]
pub fn boots_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_mul(BOOTS_PER_PROCESSOR).max(BOOTS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PSET_NODES_MAX;

    #[test]
    fn more_nodes_and_boots_need_no_less() {
        for pset_size in [1, 2, 3, 64, PSET_NODES_MAX] {
            for boots in [1, 4, 64] {
                let extent = |nodes, boots| Extent { nodes, pset_size, boots };
                for nodes in 1..NODES_MAX {
                    let (less, more) = (extent(nodes, boots), extent(nodes + 1, boots));
                    assert!(less.needs() <= more.needs(), "{less:?} {more:?}");
                    assert!(less.of_service_node() < more.of_service_node(), "{less:?} {more:?}");
                    assert!(less.of_fabric() < more.of_fabric(), "{less:?} {more:?}");
                    assert!(less.needs() <= extent(nodes, boots + 1).needs(), "{less:?}");
                    for part in [less.of_service_node() + API_CONNECTIONS_MIN, less.of_fabric(), less.of_io_node()] {
                        assert!(part <= less.needs(), "{less:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_said_to_fit_fits_and_one_more_does_not() {
        for pset_size in [1, 64, PSET_NODES_MAX] {
            for limit in [0, 256, 600, 1024, 4096, u64::MAX] {
                let nodes = nodes_within(limit, pset_size, 4);
                let refused = |nodes| Extent { nodes, pset_size, boots: 4 }.refused_by(limit);
                assert!(nodes == 0 || refused(nodes).is_none(), "{nodes} of {limit}");
                assert!(nodes == NODES_MAX || refused(nodes + 1).is_some(), "{nodes} of {limit}");
            }
        }
        assert_eq!(nodes_within(u64::MAX, 64, 64), NODES_MAX);
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_with_what_to_do() {
        let extent = Extent { nodes: 4, pset_size: 64, boots: 4 };
        let needs = extent.needs();
        assert_eq!(extent.refused_by(needs.into()), None);
        let nearly = extent.refused_by(u64::from(needs) - 1).expect("too low");
        let limit = needs - 1;
        assert_eq!(
            nearly,
            format!(
                "at most {limit} files can be open at a time and a cluster of 4 nodes needs {needs}: raise the limit \
                 (as root: ulimit -Hn {needs}; or LimitNOFILE of the service), or bring up fewer nodes"
            )
        );
        let hopeless = extent.refused_by(256).expect("too low");
        assert!(hopeless.contains("at most 256 files") && !hopeless.contains("fewer"), "{hopeless}");
        let one = Extent { nodes: 1, ..extent }.refused_by(256).expect("too low");
        assert!(one.contains("of 1 node needs"), "{one}");
    }
}
