//! What a page costs a node's processor in a transfer, and when it is fetched, in instructions: nodes whose clocks
//! count them say in `/proc/stat` how long they were busy.
//!
//! Of three nodes two pass pieces on, each in one tree, to two others; the third receives only. Both are sent every
//! page, so that who passes on sends as many pages as it gets: half of them, each to two.

use anyhow::{Context, Result};

use crate::bench::cluster::{Cluster, field};
use crate::bench::guest::compile_with;
use crate::bench::{Figure, grouped};
use crate::build::Built;

/// Length of the file, bytes, and in pages.
const BYTES: usize = 32 << 20;
const PAGES: u64 = (BYTES / 4096) as u64;

/// Instructions in the tick that `/proc/stat` counts in: a hundredth of a second of such a clock.
const INSTRUCTIONS_PER_TICK: u64 = 10_000_000;

/// Nodes that pass on, and one that does not.
const RELAYS: [u32; 2] = [0, 1];
const LEAF: u32 = 2;

const BUSYBOX: &str = "/bin/busybox";

/// The figures.
///
/// # Errors
/// If the cluster does not come up, or a run is wrong.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let cluster = Cluster::up(built, &["--nodes", "3", "--bandwidth", "100M", "--memory", "192M", "--icount"])?;
    let content: Vec<u8> = (0..BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(cluster.root().join("file"), content)?;
    // A look costs something, too.
    busy(&cluster)?;
    let before = busy(&cluster)?;
    let between = busy(&cluster)?;
    cluster.output(&["run", "--quiet", "-n", "3", "--stage", "file=/in/file", BUSYBOX, "true"])?;
    let after = busy(&cluster)?;
    let per_page = |node: u32| {
        let at = |ticks: &[u64; 3]| ticks.get(node as usize).copied().unwrap_or(0);
        let look = at(&between).saturating_sub(at(&before));
        at(&after).saturating_sub(at(&between)).saturating_sub(look) * INSTRUCTIONS_PER_TICK / PAGES
    };
    let received = per_page(LEAF);
    let relayed = RELAYS.iter().map(|node| per_page(*node)).sum::<u64>() / RELAYS.len() as u64;
    let sent = relayed.saturating_sub(received);

    let options = ["-DREAD_ONLY_PAGES=10226".to_owned(), "-DDATA_PAGES=8".to_owned()];
    let program = compile_with("musl-gcc", "bench_touch_all", "bench_touch_all-10226", &options)?;
    let program = program.to_str().context("a path that is no text")?;
    let how = ["run", "--json", "--no-retain", "--no-stage", "--nodes-list", "0", "-n", "1", program];
    let begin = busy_of(&cluster, 0)?;
    let job = cluster.json_of(&how)?;
    let end = busy_of(&cluster, 0)?;
    let pages = field(&job["rank_reports"][0], "pages_fetched")?;
    let fetched = end.saturating_sub(begin) * INSTRUCTIONS_PER_TICK / pages.max(1);
    Ok(vec![Figure {
        name: "page received, verified and passed to two, instructions of the node".to_owned(),
        measured: grouped(received + 2 * sent),
        beside: format!(
            "{} of that to receive and verify it; fetched by itself {}",
            grouped(received),
            grouped(fetched)
        ),
        wanted: "–",
    }])
}

/// How long each node was busy since it booted, ticks.
fn busy(cluster: &Cluster) -> Result<[u64; 3]> {
    Ok([busy_of(cluster, 0)?, busy_of(cluster, 1)?, busy_of(cluster, 2)?])
}

fn busy_of(cluster: &Cluster, node: u32) -> Result<u64> {
    let node = node.to_string();
    let look = ["run", "--quiet", "--nodes-list", &node, "-n", "1", BUSYBOX, "grep", "^cpu ", "/proc/stat"];
    let text = cluster.output(&look)?;
    // user, nice, system
    let ticks = text.split_whitespace().skip(1).take(3).map(|word| word.parse::<u64>().ok());
    ticks.sum::<Option<u64>>().with_context(|| format!("no times in: {text}"))
}
