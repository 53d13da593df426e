//! What a checkpoint costs the program: how long it stands, beside a copy of its memory; and what is given to the I/O
//! node.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Figure;
use super::cluster::Cluster;
use super::guest::compile;
use crate::build::Built;

/// Pages that the program has written: 64 MiB.
const PAGES: u64 = 16_384;

/// How long the program may take to have written them.
const WAIT: Duration = Duration::from_secs(120);

/// All figures of checkpoints.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("bench_stays")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", "1", "--icount", "--memory", "256M"])?;
    let copied = cluster.output(&["run", path, &PAGES.to_string(), "copy"])?;
    let small = checkpoint(&cluster, path, 1)?;
    let large = checkpoint(&cluster, path, PAGES)?;
    let console = cluster.output(&["console", "0"])?;
    let worked: Vec<u64> = console.lines().filter_map(worked).collect();
    let [of_small, of_large] = worked[..] else { bail!("the node says nothing of two checkpoints: {console}") };
    Ok(vec![
        Figure {
            name: "rank with 64 MiB written stands for a checkpoint, instructions".into(),
            measured: of_large.to_string(),
            beside: format!("with one page {of_small}, copying its memory {}", copied.trim()),
            wanted: "≤ 1000000",
        },
        Figure {
            name: "pages that are given to the I/O node".into(),
            measured: large.to_string(),
            beside: format!("written {PAGES}, with one page {small}"),
            wanted: "–",
        },
    ])
}

/// Makes a checkpoint of the program that has written so many pages, and ends it. Gives how many pages are in it.
fn checkpoint(cluster: &Cluster, path: &str, pages: u64) -> Result<u64> {
    let job = cluster.output(&["run", "--detach", "--keep-output", path, &pages.to_string()])?;
    let job = job.trim();
    let end = std::time::Instant::now() + WAIT;
    while !cluster.output(&["logs", job])?.contains("ready") {
        if std::time::Instant::now() > end {
            bail!("the program was not ready in {} s", WAIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let made = cluster.json(&["checkpoint", job])?;
    cluster.output(&["kill", "--signal", "KILL", job])?;
    made["pages"].as_u64().context("the checkpoint does not say how many pages it has")
}

/// For how long a node's core worked while a rank was taken apart and put together, in instructions.
fn worked(line: &str) -> Option<u64> {
    line.split_once("worked for ")?.1.split_once(" ns")?.0.parse().ok()
}
