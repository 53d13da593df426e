//! How long a barrier takes by each algorithm, and what it sends over the links of its nodes.

use anyhow::{Context, Result};

use super::cluster::{Cluster, field};
use super::guest::{compile, number};
use super::{Figure, grouped};
use crate::build::Built;

/// Nodes that meet.
const NODES: u32 = 32;

/// Barriers of one run of the program, measured or not.
const BARRIERS: u64 = 25;

/// Runs of each, of which the median counts.
const RUNS: usize = 5;

/// What `run` can be told, and what it takes if it is told nothing.
const FENCES: [Option<&str>; 4] = [Some("dissemination"), Some("tree"), Some("ring"), None];

/// All figures of barriers.
///
/// # Errors
/// If a measurement fails.
pub(super) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("fences")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", &NODES.to_string(), "--memory", "64M"])?;
    let mut figures = Vec::new();
    for bytes in ["1000", "0"] {
        let mut best: Option<f64> = None;
        for fence in FENCES {
            let (ms, sent) = measure(&cluster, path, bytes, fence)?;
            let beside = match (fence, best) {
                (None, Some(best)) => format!("{:.2} × the quickest of them", ms / best),
                _ => format!("over links: {} bytes", grouped(sent)),
            };
            if fence.is_some() {
                best = Some(best.map_or(ms, |best| best.min(ms)));
            }
            let what = fence.map_or_else(|| "as chosen".into(), |fence| format!("by {fence}"));
            figures.push(Figure {
                name: format!("barrier of {NODES} nodes, {bytes} bytes from each, {what}"),
                measured: format!("{ms:.1} ms"),
                beside,
                wanted: if fence.is_none() { "≤ 1.10 ×" } else { "–" },
            });
        }
    }
    Ok(figures)
}

/// The median time of a barrier, ms, and the bytes that one sent over all links, those of starting the job included.
fn measure(cluster: &Cluster, program: &str, bytes: &str, fence: Option<&str>) -> Result<(f64, u64)> {
    let n = NODES.to_string();
    let told = fence.map_or_else(Vec::new, |fence| vec!["--fence", fence]);
    let run = [&["run", "--quiet", "-n", &n][..], &told, &[program, bytes]].concat();
    cluster.output(&run)?;
    let before = sent(cluster)?;
    let mut times = (0..RUNS).map(|_| number(&cluster.output(&run)?, "fence-us")).collect::<Result<Vec<f64>>>()?;
    let sent = (sent(cluster)? - before) / (RUNS as u64 * BARRIERS);
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).context("nothing was measured")?;
    Ok((median / 1e3, sent))
}

/// Bytes that nodes have sent.
fn sent(cluster: &Cluster) -> Result<u64> {
    let links = cluster.json(&["link", &format!("0-{}", NODES - 1)])?;
    let links = links.as_array().context("`link --json` says no list")?;
    links.iter().map(|link| field(&link["from"], "bytes")).sum()
}
