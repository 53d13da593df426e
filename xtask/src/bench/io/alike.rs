//! Many nodes read the same file over slow links: broadcast to them, and each by itself.

use anyhow::{Context, Result};

use super::super::Figure;
use super::super::cluster::Cluster;
use super::super::guest::compile;
use crate::build::Built;

/// Slow enough that the links are the limit and not the host's processors, of which 16 nodes share two.
const BANDWIDTH: &str = "16M";
const BYTES_PER_SECOND: f64 = 16e6 / 8.0;

/// Length of the file, bytes.
const BYTES: usize = 16 << 20;

/// The figures of 4 and 16 nodes.
///
/// # Errors
/// If a cluster does not come up, or a run is wrong.
pub(super) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("reads_alike")?;
    let program = program.to_str().context("a path that is no text")?;
    [4_u32, 16].into_iter().map(|nodes| of(built, program, nodes)).collect()
}

fn of(built: &Built, program: &str, nodes: u32) -> Result<Figure> {
    let count = nodes.to_string();
    let cluster = Cluster::up(built, &["--nodes", &count, "--bandwidth", BANDWIDTH, "--memory", "128M"])?;
    let content: Vec<u8> = (0..BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(cluster.root().join("alike"), content).context("cannot write the file")?;
    let slowest = |how: &[&str]| -> Result<f64> {
        let output =
            cluster.output(&[&["run", "--quiet", "-n", &count], how, &[program, "alike", "131072"]].concat())?;
        let times = output.lines().filter_map(|line| line.split(' ').rev().nth(1)?.parse::<f64>().ok());
        times.fold(None, |most: Option<f64>, ms| Some(most.map_or(ms, |most| most.max(ms)))).context("no times")
    };
    // The program comes first, by the same links.
    slowest(&[])?;
    let mut broadcast = slowest(&[])?;
    for _ in 0..2 {
        broadcast = broadcast.min(slowest(&[])?);
    }
    let strict = slowest(&["--io", "strict"])?;
    let bound = BYTES as f64 / BYTES_PER_SECOND * 1e3;
    Ok(Figure {
        name: format!("{nodes} nodes read the same 16 MiB, links of {BANDWIDTH}bit/s"),
        measured: format!("{:.2} × what a link takes", broadcast / bound),
        beside: format!("each by itself, as without leases: {:.2} ×", strict / bound),
        wanted: if nodes == 16 { "≤ 1.5" } else { "–" },
    })
}
