//! Files that reach many nodes over shaped links ([`copies`]), what a page of one costs a node ([`counted`]) and what
//! other jobs notice ([`beside`]), and a cold run of a large program, all of whose pages are touched: sent ahead,
//! beside every node fetching its pages.

pub(super) mod beside;
pub(super) mod copies;
pub(super) mod counted;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Figure;
use super::cluster::{Cluster, field};
use super::guest::compile;
use crate::build::Built;

/// Slow enough that the links are the limit and not the host's processors, where 16 nodes share two.
const BANDWIDTH: &str = "25M";
const BYTES_PER_SECOND: f64 = 25e6 / 8.0;

/// 40 MiB, and as much again if it is sent ahead.
const MEMORY: &str = "192M";

/// The figures of cold runs.
///
/// # Errors
/// If a cluster does not come up, or a run is wrong.
pub(super) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("large")?;
    let program = program.to_str().context("a path that is no text")?;
    let mut figures = Vec::new();
    for nodes in ["8", "16", "32"] {
        figures.extend(cold(built, program, nodes)?);
    }
    Ok(figures)
}

fn cold(built: &Built, program: &str, nodes: &str) -> Result<[Figure; 2]> {
    let cluster = Cluster::up(built, &["--nodes", nodes, "--bandwidth", BANDWIDTH, "--memory", MEMORY])?;
    let run = |how: &[&str]| -> Result<(Duration, Value)> {
        let arguments = [&["run", "--quiet", "--no-retain", "-n", nodes], how, &[program]].concat();
        let time = cluster.time(&arguments)?;
        let jobs = cluster.json(&["jobs"])?;
        let last = jobs.as_array().and_then(|jobs| jobs.last()).context("no job")?;
        Ok((time, cluster.json(&["job", &field(last, "job")?.to_string()])?))
    };
    let (fetched, detail) = run(&["--no-stage"])?;
    let ranks = detail["rank_reports"].as_array().context("no ranks")?;
    let mut pages = 0;
    for rank in ranks {
        pages += field(rank, "pages_fetched")?;
    }
    // By itself: the rule is a part of what is measured.
    let (staged, detail) = run(&[])?;
    let transfer = &detail["transfers"][0];
    ensure!(detail["ahead"]["staged"] == true, "it was not sent ahead: {}", detail["ahead"]);
    let (bytes, sent) = (field(transfer, "bytes")?, field(transfer, "home_bytes")?);
    let times = |bytes_sent: u64| format!("{:.2} × the program", bytes_sent as f64 / bytes as f64);
    let bound = bytes as f64 / BYTES_PER_SECOND;
    Ok([
        Figure {
            name: format!("cold run of 40 MiB on {nodes} nodes, {BANDWIDTH}bit/s: staged ÷ fetched"),
            measured: format!("{:.2} ({:.1} s)", staged.as_secs_f64() / fetched.as_secs_f64(), staged.as_secs_f64()),
            beside: format!("fetched: {:.1} s; one link takes {bound:.1} s", fetched.as_secs_f64()),
            wanted: "≤ 0.5",
        },
        Figure {
            name: format!("bytes of it that the I/O node sent to {nodes} nodes"),
            measured: times(sent),
            beside: format!("fetched: {} without headers", times(pages * 4096)),
            wanted: "≤ 2.2",
        },
    ])
}
