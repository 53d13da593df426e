//! `coppice stage`: has nodes keep a file in their memory.

use std::time::Instant;

use anyhow::{Context, bail};
use coppice_api::keep::{KeepOrder, KeepReport, NotKept};
use coppice_api::{Client, counted, shown};

use crate::arguments::{Stage, StageNodes};
use crate::progress::staging::Bar;
use crate::show::{print, print_json};
use crate::units::{show_bytes, show_ranges};

pub(crate) async fn stage(client: &Client, stage: &Stage) -> anyhow::Result<()> {
    let file = std::path::absolute(&stage.file).context("cannot find the working directory")?;
    let nodes = match &stage.nodes {
        StageNodes::All => Vec::new(),
        StageNodes::Listed(nodes) => nodes.clone(),
    };
    let mut bar = Bar::default();
    let report = client.keep(&KeepOrder { file, nodes }, |progress| bar.show(&progress, Instant::now())).await;
    drop(bar);
    let report = report?;
    if stage.listing.json {
        print_json(&report)?;
    } else if report.nodes > 0 {
        print(&format!("{}\n", told(&shown(&stage.file).to_string(), &report)))?;
    }
    match lacking(&report.failed) {
        Some(line) => bail!(line),
        None => Ok(()),
    }
}

/// Which nodes have it now.
fn told(file: &str, report: &KeepReport) -> String {
    let KeepReport { bytes, nodes, had, .. } = report;
    format!("staged '{file}' ({}) on {}, {had} had it", show_bytes(*bytes), counted(*nodes, "node"))
}

/// Which nodes do not, and why the first of them does not.
fn lacking(failed: &[NotKept]) -> Option<String> {
    let first = failed.first()?;
    let (same, others): (Vec<&NotKept>, Vec<&NotKept>) = failed.iter().partition(|one| one.reason == first.reason);
    let numbers = |nodes: &[&NotKept]| show_ranges(&nodes.iter().map(|one| one.node).collect::<Vec<_>>());
    let (nodes, have) = if same.len() == 1 { ("node", "does") } else { ("nodes", "do") };
    let others = match others.len() {
        0 => String::new(),
        _ => format!("; nor, for other reasons, {}", numbers(&others)),
    };
    Some(format!("{nodes} {} {have} not have it: {}{others}", numbers(&same), first.reason))
}

#[cfg(test)]
mod tests {
    use super::{KeepReport, NotKept, lacking, told};

    #[test]
    fn who_has_it_is_told_in_one_line() {
        let report =
            KeepReport { hash: "ab".into(), bytes: 64 << 20, nodes: 8, had: 0, failed: Vec::new(), took_ns: 1 };
        assert_eq!(told("table.bin", &report), "staged 'table.bin' (64.0 MiB) on 8 nodes, 0 had it");
        let report = KeepReport { bytes: 5, nodes: 1, had: 1, ..report };
        assert_eq!(told("t", &report), "staged 't' (5 B) on 1 node, 1 had it");
    }

    #[test]
    fn who_does_not_is_told_with_the_reason() {
        let failed = |node, reason: &str| NotKept { node, reason: reason.into() };
        assert_eq!(lacking(&[]), None);
        assert_eq!(lacking(&[failed(3, "it was lost")]).as_deref(), Some("node 3 does not have it: it was lost"));
        let several = [failed(3, "no room"), failed(4, "no room"), failed(6, "it was lost")];
        let line = "nodes 3-4 do not have it: no room; nor, for other reasons, 6";
        assert_eq!(lacking(&several).as_deref(), Some(line));
    }
}
