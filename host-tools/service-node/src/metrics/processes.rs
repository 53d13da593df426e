//! The processes of the cluster, machines excluded. What they are called stays when one takes another's place.

use std::fmt;

use super::exposition::{Families, Family, Labels};
use super::host::ProcessSeen;

pub(super) fn write(processes: &[ProcessSeen], families: &mut Families<'_>) -> fmt::Result {
    families.gauges(
        Family::of("process_up", "Whether the process does its work."),
        processes.iter().map(|process| (labels(process), process.up)),
    )?;
    families.counters(
        Family::of("process_restarts", "How often it was started anew since the service node started."),
        processes.iter().filter_map(|process| Some((labels(process), process.restarts?))),
    )?;
    families.gauges(
        Family::bytes("process_resident_memory", "Memory of the host that the process has."),
        processes.iter().filter_map(|process| Some((labels(process), process.usage?.resident_bytes))),
    )?;
    families.counters(
        Family::seconds("process_cpu", "Processor time that the process has taken, in user and kernel mode."),
        processes.iter().filter_map(|process| Some((labels(process), process.usage?.cpu_s))),
    )
}

/// What tells a process from others: its role, and its pset if it is an I/O node.
fn labels(process: &ProcessSeen) -> Labels<2> {
    let pset = process.pset.map(|pset| pset.to_string()).unwrap_or_default();
    [("process", process.role.to_owned()), ("pset", pset)]
}
