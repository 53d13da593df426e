//! TCP and MPI between two nodes, beside the same programs on Debian's Linux on the same two machines and the same
//! switch.

use anyhow::{Context, Result};

use super::cluster::Cluster;
use super::guest::{compile, compile_mpi, number};
use super::{Figure, pair};
use crate::build::Built;

/// Round trips of one byte, and MiB of the stream.
const TCP: [&str; 2] = ["2000", "64"];

/// Round trips of one byte, of a large message, and its bytes.
const MPI: [&str; 3] = ["2000", "30", "1048576"];

/// Address of the node that is called, to a job and in [`pair`].
const FIRST: &str = "10.128.0.1";

/// All figures of two nodes and their network.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let (tcp, pingpong) = (compile("tcp")?, compile_mpi("pingpong")?);
    let tcp_arguments = [&[FIRST], &TCP[..]].concat();
    let cluster = Cluster::up(built, &["--nodes", "2", "--memory", "256M"])?;
    let on_nodes = |program: &std::path::Path, arguments: &[&str]| {
        let program = program.to_str().context("path is not UTF-8")?;
        cluster.output(&[&["run", "--quiet", "--nodes-list", "0,1", program], arguments].concat())
    };
    let tcp_here = on_nodes(&tcp, &tcp_arguments)?;
    let mpi_here = on_nodes(&pingpong, &MPI)?;
    drop(cluster);
    let tcp_linux = pair::run(built, "plain", &tcp, &tcp_arguments.join(" "))?;
    let mpi_linux = pair::run(built, "mpi", &pingpong, &MPI.join(" "))?;

    let figure = |name: &str, here: &str, linux: &str, key: &str, unit: &str, wanted| -> Result<Figure> {
        let (here, linux) = (number(here, key)?, number(linux, key)?);
        Ok(Figure {
            name: name.into(),
            measured: format!("{here:.1} {unit}"),
            beside: format!("Linux: {linux:.1} {unit}; ratio {:.2}", here / linux),
            wanted,
        })
    };
    Ok(vec![
        figure("TCP, 1 byte, half a round trip", &tcp_here, &tcp_linux, "tcp-half-round-trip", "µs", "ratio ≤ 1")?,
        figure("TCP, stream of 64 MiB", &tcp_here, &tcp_linux, "tcp-throughput", "MiB/s", "ratio ≥ 1")?,
        figure("MPI, 1 byte, half a round trip", &mpi_here, &mpi_linux, "mpi-half-round-trip", "µs", "ratio ≤ 1")?,
        figure("MPI, messages of 1 MiB", &mpi_here, &mpi_linux, "mpi-bandwidth", "MiB/s", "ratio ≥ 1")?,
    ])
}
