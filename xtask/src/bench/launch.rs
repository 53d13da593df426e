//! How long a user waits: for a cluster to come up, for a job to run.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Figure;
use super::cluster::Cluster;
use super::guest::{compile, compile_with};
use crate::build::Built;

/// Nodes of the measured cluster.
const NODES: u32 = 16;

/// Nodes of one with very many, and their memory.
const MANY: u32 = 200;
const MANY_MEMORY: &str = "32M";

/// Runs measured; the median counts.
const RUNS: usize = 7;

/// All figures of launching.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("true")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let machines = bare_machines(&built.image)?;
    let nodes = NODES.to_string();
    let cluster = Cluster::up(built, &["--nodes", &nodes])?;
    let up = cluster.up_time;
    let first = cluster.time(&["run", "-n", &nodes, path])?;
    let later = median((0..RUNS).map(|_| cluster.time(&["run", "-n", &nodes, path])).collect::<Result<_>>()?);
    let empty = median((0..RUNS).map(|_| cluster.time(&["nodes"])).collect::<Result<_>>()?);
    drop(cluster);
    let mut figures = vec![
        Figure {
            name: "up of 16 nodes until all are ready, wall".into(),
            measured: format!("{:.2} s", up.as_secs_f64()),
            beside: format!("16 machines that end at once, 2 at a time: {:.2} s", machines.as_secs_f64()),
            wanted: "≤ 6 s",
        },
        Figure {
            name: "run of `true` on 16 nodes, first time, wall".into(),
            measured: format!("{:.3} s", first.as_secs_f64()),
            beside: format!("`coppice nodes`: {:.3} s", empty.as_secs_f64()),
            wanted: "–",
        },
        Figure {
            name: "run of `true` on 16 nodes, later, median of 7, wall".into(),
            measured: format!("{:.3} s", later.as_secs_f64()),
            beside: format!("`coppice nodes`: {:.3} s", empty.as_secs_f64()),
            wanted: "≤ 0.5 s",
        },
    ];
    figures.extend(of_many(built, path)?);
    Ok(figures)
}

/// What it takes on very many small nodes: the first program that they run, for which each emulator translates all that
/// a kernel does for a program; one that they have not seen, behind that; and both again.
fn of_many(built: &Built, path: &str) -> Result<Vec<Figure>> {
    // Another file, which does as much.
    let other = compile_with("gcc", "true", "true-other-bench", &["-g".into()])?;
    let other = other.to_str().context("path is not UTF-8")?;
    let nodes = MANY.to_string();
    let cluster = Cluster::up(built, &["--nodes", &nodes, "--memory", MANY_MEMORY])?;
    let time = |path| cluster.time(&["run", "--quiet", "-n", &nodes, path]);
    let (first, of_other) = (time(path)?, time(other)?);
    let later = median((0..RUNS).map(|_| time(path)).collect::<Result<_>>()?);
    let figure = |name: &str, took: Duration, beside: String, wanted| Figure {
        name: format!("run of {name} on {MANY} nodes of {MANY_MEMORY}, wall"),
        measured: format!("{:.2} s", took.as_secs_f64()),
        beside,
        wanted,
    };
    let up = format!("`up`: {:.1} s", cluster.up_time.as_secs_f64());
    let others = || "–".to_owned();
    Ok(vec![
        figure("`true`, the first program that they run", first, up, "≤ 3 s"),
        figure("another program, first time", of_other, others(), "≤ 3 s"),
        figure("`true`, later, median of 7", later, others(), "≤ 0.5 s"),
    ])
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// What as many machines cost that get nowhere: QEMU, firmware and the boot image, which ends its machine at once
/// because it was given no personality.
fn bare_machines(image: &Path) -> Result<Duration> {
    let start = Instant::now();
    for _ in 0..NODES / 2 {
        let pair: Vec<_> = (0..2).map(|_| bare_machine(image)).collect::<Result<_>>()?;
        for mut machine in pair {
            machine.wait()?;
        }
    }
    Ok(start.elapsed())
}

fn bare_machine(image: &Path) -> Result<Child> {
    Command::new("timeout")
        .args(["10", "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", "64M"])
        .args(["-nodefaults", "-display", "none", "-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
        .arg("-kernel")
        .arg(image)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start QEMU")
}
