//! What it costs to make a process data and to make it again from that, on its node, with all that it has in the
//! kernel. Its pages stay where they are.

use anyhow::{Context, Result};

use super::Figure;
use super::cluster::Cluster;
use super::guest::compile_with;
use crate::build::Built;

/// How often, on average. The node's clock counts instructions.
const EVERY: &str = "20ms";

/// How long each program is there, seconds.
const SECONDS: &str = "2";

/// What a node says of a process at its end.
struct Said {
    /// Each time took so many instructions.
    instructions: u64,
    /// The last record's length.
    bytes: u64,
}

/// All figures of frozen processes.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile_with("gcc", "holds_much", "holds_much-bench", &["-pthread".into()])?;
    let path = program.to_str().context("path is not UTF-8")?;
    let much = frozen(built, &[path, SECONDS])?;
    let nothing = frozen(built, &[path, SECONDS, "nothing"])?;
    let figure = |name: &str, measured: u64, beside: u64| Figure {
        name: format!("process with 64 objects and 16 threads made data and made again, {name}"),
        measured: measured.to_string(),
        beside: format!("with neither {beside}"),
        wanted: "–",
    };
    Ok(vec![
        figure("instructions", much.instructions, nothing.instructions),
        figure("bytes beside its pages", much.bytes, nothing.bytes),
    ])
}

fn frozen(built: &Built, program: &[&str]) -> Result<Said> {
    let cluster = Cluster::up(built, &["--nodes", "1", "--icount", "--freeze-every", EVERY])?;
    cluster.output(&[&["run"], program].concat())?;
    let console = cluster.output(&["console", "0"])?;
    said(&console).with_context(|| format!("the node says nothing of a process that was taken apart: {console}"))
}

fn said(console: &str) -> Option<Said> {
    let line = console.lines().find(|line| line.contains("was taken apart"))?;
    let number = |before: &str, behind: &str| line.split_once(before)?.1.split_once(behind)?.0.trim().parse().ok();
    Some(Said { instructions: number("each took ", " ns")?, bytes: number("last record ", " bytes")? })
}
