//! What an overlay costs those that it looks at, and how soon an epoch is there.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::cluster::{Cluster, field};
use super::guest::{compile, compile_mpi};
use super::{Figure, grouped};
use crate::build::Built;

/// Rounds of a fixed quantum of work: 100 million instructions each.
const ROUNDS: &str = "60";

/// How often that is done in each way, of which the median counts.
const WORK_RUNS: usize = 3;

/// Nodes whose epochs are waited for.
const NODES: u32 = 32;

/// How long these are looked at, seconds.
const SECONDS: &str = "20";

/// How often an MPI program runs in each way, of which the median counts.
const RUNS: usize = 5;

/// All figures of overlays.
///
/// # Errors
/// If a measurement fails.
pub(super) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let mut figures = of_one_core(built)?;
    figures.extend(of_epochs(built)?);
    figures.extend(of_a_program(built)?);
    Ok(figures)
}

/// Instructions of a node of one core for the same work, which are what its clock shows.
fn of_one_core(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("quanta")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", "1", "--memory", "64M", "--icount"])?;
    let run = |overlay: &[&str]| -> Result<(u64, u64)> {
        cluster.output(&[&["run", "--quiet"], overlay, &[path, "0", ROUNDS]].concat())?;
        let job = cluster.json(&["jobs", "--limit", "1"])?;
        let number = job[0]["job"].to_string();
        let job = cluster.json(&["job", &number])?;
        let epochs = cluster.json(&["profile", &number])?["epochs"].as_array().map_or(0, Vec::len);
        Ok((field(&job["rank_reports"][0], "run_ns")?, epochs as u64))
    };
    // Answers of the host come at other instructions each time, which is as much as what is measured.
    let median = |overlay: &[&str]| -> Result<(u64, u64)> {
        let mut runs = (0..WORK_RUNS).map(|_| run(overlay)).collect::<Result<Vec<_>>>()?;
        runs.sort_unstable();
        Ok(runs[WORK_RUNS / 2])
    };
    run(&[])?;
    let (without, _) = median(&[])?;
    let mut figures = Vec::new();
    for (name, arguments, wanted) in [
        ("at 1 Hz", &["--overlay=1"][..], "≤ 0.01 %"),
        ("at 10 Hz", &["--overlay=10"], "–"),
        ("at 1 Hz, sampled at 100 Hz", &["--overlay=1", "--sample=100"], "–"),
    ] {
        let (with, epochs) = median(arguments)?;
        let more = with.saturating_sub(without);
        figures.push(Figure {
            name: format!("a core's work, overlay {name}, more instructions than without"),
            measured: format!("{:.3} %", more as f64 * 100.0 / without as f64),
            beside: format!("for each of {epochs} epochs: {} instructions", grouped(more / epochs.max(1))),
            wanted,
        });
    }
    Ok(figures)
}

/// From the end of an epoch until all of it is in the service node.
fn of_epochs(built: &Built) -> Result<Vec<Figure>> {
    let cluster = Cluster::up(built, &["--nodes", &NODES.to_string(), "--memory", "64M"])?;
    let n = NODES.to_string();
    cluster.output(&["run", "--quiet", "--overlay=1", "-n", &n, "/bin/busybox", "sleep", SECONDS])?;
    let job = cluster.json(&["jobs", "--limit", "1"])?[0]["job"].to_string();
    let epochs = cluster.json(&["profile", &job])?;
    let epochs = epochs["epochs"].as_array().context("no epochs")?;
    let whole = |epoch: &&Value| epoch["ranks"] == NODES;
    let mut lags = epochs.iter().filter(whole).map(lag).collect::<Result<Vec<Duration>>>()?;
    if lags.is_empty() {
        bail!("no epoch has all ranks");
    }
    lags.sort_unstable();
    let ms = |lag: Duration| format!("{:.1} ms", lag.as_secs_f64() * 1e3);
    Ok(vec![Figure {
        name: format!("epoch's end to all of {NODES} nodes in the service node, median"),
        measured: ms(lags[lags.len() / 2]),
        beside: format!("{} of {} whole; longest: {}", lags.len(), epochs.len(), ms(lags[lags.len() - 1])),
        wanted: "≤ 50 ms",
    }])
}

fn lag(epoch: &Value) -> Result<Duration> {
    Ok(Duration::from_nanos(field(epoch, "came_ns")?.saturating_sub(field(epoch, "end_ns")?)))
}

/// How much longer an MPI program takes.
fn of_a_program(built: &Built) -> Result<Vec<Figure>> {
    let program = compile_mpi("halo")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", "4", "--memory", "64M"])?;
    let ways: [(&str, &[&str]); 4] = [
        ("without", &[]),
        ("at 1 Hz", &["--overlay=1"]),
        ("at 10 Hz", &["--overlay=10"]),
        ("at 1 Hz, sampled at 100 Hz", &["--overlay=1", "--sample=100"]),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    // In turns, so that what the host does meanwhile is much the same for all.
    for _ in 0..=RUNS {
        for ((_, overlay), times) in ways.iter().zip(&mut times) {
            let time = cluster.time(&[&["run", "--quiet", "-n", "4"], *overlay, &[path, "192", "400"]].concat())?;
            times.push(time.as_secs_f64());
        }
    }
    let median = |times: &[f64]| {
        // The first loads the program.
        let mut times = times.get(1..).unwrap_or_default().to_vec();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().context("nothing was measured")
    };
    let without = median(&times[0])?;
    let figure = |((name, _), times): (&(&str, &[&str]), &Vec<f64>)| -> Result<Figure> {
        let with = median(times)?;
        Ok(Figure {
            name: format!("an MPI program (halo, 4 nodes), overlay {name}"),
            measured: format!("{:.0} ms", with * 1e3),
            beside: format!("{:.3} × that without", with / without),
            wanted: "–",
        })
    };
    ways.iter().zip(&times).map(figure).collect()
}
