//! How long the kernel keeps a core to itself: the longest section that nothing interrupts, of calls that take long and
//! of the end of a large process, and how long a call of another rank takes meanwhile.

use anyhow::{Context, Result};

use super::cluster::Cluster;
use super::guest::{compile, number};
use super::{Figure, grouped};
use crate::build::Built;

/// Memory of the node.
const MEMORY: &str = "2G";

/// What is mapped of it, MiB.
const MAPPED: &str = "1700";

/// Pages that lie far apart: with their tables they take the same again.
const SPARSE: &str = "160000";

/// All figures of sections.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("sections")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let counted = Cluster::up(built, &["--nodes", "1", "--memory", MEMORY, "--icount"])?;
    let text = counted.output(&["run", path, "measure", MAPPED, SPARSE])?;
    let figure = |text: &str, name: &str, title: &str| -> Result<Figure> {
        Ok(Figure {
            name: format!("longest section of the kernel, {title}, instructions"),
            measured: grouped(number(text, name)? as u64),
            beside: "–".into(),
            wanted: "≤ 1 000 000",
        })
    };
    let mut figures = Vec::new();
    for (name, title) in [
        ("populate", "1.7 GiB brought in"),
        ("mprotect", "1.7 GiB protected"),
        ("munmap", "1.7 GiB unmapped"),
        ("sparse-touch", "160 000 far pages touched"),
        ("sparse-mprotect", "160 000 far pages protected"),
        ("sparse-munmap", "160 000 far pages unmapped"),
    ] {
        figures.push(figure(&text, name, title)?);
    }
    let beside = ["run", "-n", "2", "--ranks-per-node", "2", path, "beside", MAPPED];
    let text = counted.output(&beside)?;
    figures.push(figure(&text, "end-section", "two ranks, one brings in, unmaps, ends with 1.7 GiB")?);
    drop(counted);

    let cluster = Cluster::up(built, &["--nodes", "1", "--memory", MEMORY])?;
    let text = cluster.output(&beside)?;
    for (name, title) in [("populate", "brings in 1.7 GiB"), ("unmap", "unmaps it"), ("end", "ends with it")] {
        let worst_ns = number(&text, &format!("{name}-worst-ns"))?;
        figures.push(Figure {
            name: format!("stat of a rank while another {title}, worst, ms"),
            measured: format!("{:.1}", worst_ns / 1e6),
            beside: format!("of {} calls", grouped(number(&text, &format!("{name}-calls"))? as u64)),
            wanted: "≤ 20",
        });
    }
    Ok(figures)
}
