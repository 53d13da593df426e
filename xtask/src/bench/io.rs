//! Function shipping: file calls through a node and its I/O node, beside the same program run natively on the host.

use std::process::Command;

use anyhow::{Context, Result};

use super::Figure;
use super::cluster::Cluster;
use super::guest::{compile, number};
use crate::build::Built;

/// Size of the file that is written and read, MiB.
const MEBIBYTES: &str = "64";

/// All figures of file calls.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("io")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", "1"])?;
    let on_node = cluster.output(&["run", path, "measured", MEBIBYTES])?;
    let native = Command::new(&program).args(["measured", MEBIBYTES]).current_dir(cluster.root()).output()?;
    let native = String::from_utf8_lossy(&native.stdout).into_owned();
    let figure = |name: &str, key: &str, unit: &str| -> Result<Figure> {
        Ok(Figure {
            name: name.into(),
            measured: format!("{:.1} {unit}", number(&on_node, key)?),
            beside: format!("natively on the host: {:.1} {unit}", number(&native, key)?),
            wanted: "–",
        })
    };
    Ok(vec![
        figure("shipped pread of 1 byte, round trip", "pread-1-byte", "µs")?,
        figure("sequential write of 64 MiB through one node", "sequential-write", "MiB/s")?,
        figure("sequential read of 64 MiB through one node", "sequential-read", "MiB/s")?,
    ])
}
