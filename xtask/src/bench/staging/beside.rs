//! An MPI job while a file goes to other nodes of its cluster: what they have in common is the switch, the I/O node and
//! the host's processors.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::Figure;
use crate::bench::cluster::Cluster;
use crate::bench::guest::compile_mpi;
use crate::build::Built;

/// Length of the file, bytes.
const BYTES: usize = 16 << 20;

/// The links of the nodes that get it: so slow that it takes longer than the job.
const LINKS: &str = "0-3,io0";
const BANDWIDTH: &str = "4M";

/// Runs of the job, either way; the medians count.
const RUNS: usize = 3;

/// The figure.
///
/// # Errors
/// If the cluster does not come up, or a run is wrong.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile_mpi("allreduce")?;
    let program = program.to_str().context("a path that is no text")?;
    let cluster = Cluster::up(built, &["--nodes", "8"])?;
    cluster.output(&["link", LINKS, "--bandwidth", BANDWIDTH])?;
    std::fs::write(cluster.root().join("file"), vec![0x5a; BYTES])?;
    let job = ["run", "--quiet", "--nodes-list", "4-7", "-n", "4", program, "1"];
    // From then on the nodes have the program.
    cluster.time(&job)?;
    let alone = median((0..RUNS).map(|_| cluster.time(&job)).collect::<Result<_>>()?);
    let mut staging = cluster.command(&["stage", "file", "--nodes", "0-3"]);
    let mut staging = staging.stdout(Stdio::null()).spawn().context("cannot start coppice")?;
    let beside = (0..RUNS).map(|_| cluster.time(&job)).collect::<Result<_>>();
    let was_under_way = staging.try_wait()?.is_none();
    ensure!(staging.wait()?.success(), "the file did not get to its nodes");
    ensure!(was_under_way, "the file was there before the job had ended");
    let beside = median(beside?);
    Ok(vec![Figure {
        name: "MPI job on 4 nodes while a file goes to 4 others, wall".to_owned(),
        measured: format!("{:.2} s", beside.as_secs_f64()),
        beside: format!("alone {:.2} s: {:.2} ×", alone.as_secs_f64(), beside.as_secs_f64() / alone.as_secs_f64()),
        wanted: "–",
    }])
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
