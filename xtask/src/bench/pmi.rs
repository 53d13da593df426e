//! How long ranks take to find each other, beside MPICH's own starter on this host.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Figure;
use super::cluster::Cluster;
use super::guest::{compile_mpi, number};
use crate::build::Built;
use crate::mpich;

/// Runs measured after a first one; the median counts.
const RUNS: usize = 5;

/// All figures of starting MPI programs.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile_mpi("init")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let mpiexec = mpich::ready()?.prefix.join("bin/mpiexec");
    let cluster = Cluster::up(built, &["--nodes", "32"])?;
    [8_u32, 32]
        .map(|ranks| {
            let n = ranks.to_string();
            let on_nodes = median(|| cluster.output(&["run", "--quiet", "-n", &n, path]))?;
            let native = median(|| {
                let output = Command::new(&mpiexec).args(["-n", &n, path]).output()?;
                if !output.status.success() {
                    bail!("mpiexec failed: {}", String::from_utf8_lossy(&output.stderr));
                }
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            })?;
            Ok(Figure {
                name: format!("MPI_Init to first message, {ranks} ranks, slowest rank"),
                measured: format!("{on_nodes:.1} ms"),
                beside: format!("mpiexec on the host, no emulation: {native:.1} ms"),
                wanted: "–",
            })
        })
        .into_iter()
        .collect()
}

/// The median of what runs after a first one print.
fn median(run: impl Fn() -> Result<String>) -> Result<f64> {
    run()?;
    let mut times =
        (0..RUNS).map(|_| run().and_then(|text| number(&text, "init-to-message"))).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().context("nothing was measured")
}
