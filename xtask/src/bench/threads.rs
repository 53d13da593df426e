//! Threads: what waking, making and joining one costs, how little disturbs a busy core, and what a second core is
//! worth.

use std::path::Path;

use anyhow::{Context, Result};

use super::cluster::Cluster;
use super::guest::{compile_with, number};
use super::linux::Guest;
use super::{Figure, linux};
use crate::build::Built;
use crate::command::{command, output};

/// Wakes and threads measured.
const ROUNDS: &str = "2000";

/// Rounds of 10,000 pieces of work, about a second each. The I/O node pings every two seconds: some rounds see no
/// traffic.
const WORK_ROUNDS: &str = "6";

/// Threads of the programs that are to get faster, and cores they have.
const CORES: &str = "2";

/// All figures of threads and cores.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let mut figures = costs(built)?;
    figures.extend(disturbances(built)?);
    figures.extend(speed_ups(built)?);
    Ok(figures)
}

/// Instructions, all threads on one core.
fn costs(built: &Built) -> Result<Vec<Figure>> {
    let program = compile_with("gcc", "thread_cost", "thread_cost-bench", &["-pthread".into()])?;
    let peer = linux::run(&Guest { arguments: ROUNDS, ..Guest::of(&[("init", &program)]) });
    let cluster = Cluster::up(built, &["--nodes", "1", "--cores", "1", "--icount"])?;
    let output = cluster.output(&["run", utf8(&program)?, ROUNDS])?;
    let figure = |name: &str, title: &str, wanted| -> Result<Figure> {
        let measured = format!("{:.0}", number(&output, name)?);
        Ok(Figure { name: title.into(), measured, beside: beside(&peer, name), wanted })
    };
    Ok(vec![
        figure("futex-wake", "futex wake → other thread of the core runs, instructions", "≤ 1 500, below Linux")?,
        figure("create-join", "pthread_create + pthread_join, instructions", "below Linux")?,
    ])
}

/// Fixed work on a core that is busy with it, and what else the core did meanwhile. Of several rounds the one with the
/// least spread is one without traffic. All cores of a machine that counts instructions share one counter, so that what
/// core 0 does for the network shows on the other core, too.
fn disturbances(built: &Built) -> Result<Vec<Figure>> {
    let program = compile_with("gcc", "quanta", "quanta-bench", &[])?;
    let cluster = Cluster::up(built, &["--nodes", "1", "--cores", CORES, "--icount"])?;
    let arguments = format!("0 {WORK_ROUNDS}");
    let peer = linux::run(&Guest { arguments: &arguments, ..Guest::of(&[("init", &program)]) });
    eprintln!("Linux:\n{}", peer.as_deref().unwrap_or("not measured"));
    let mut figures = Vec::new();
    for core in ["1", "0"] {
        let output = cluster.output(&["run", utf8(&program)?, core, WORK_ROUNDS])?;
        eprintln!("core {core}:\n{output}");
        for (name, title) in [("spread-least", "without traffic"), ("spread-most", "the worst round")] {
            figures.push(Figure {
                name: format!("10 000 equal quanta on core {core}, spread, {title}, instructions"),
                measured: format!("{:.0}", number(&output, name)?),
                beside: beside(&peer, name),
                wanted: if name == "spread-least" { "0" } else { "–" },
            });
        }
    }
    Ok(figures)
}

/// Wall time by two threads on two cores, against one thread.
fn speed_ups(built: &Built) -> Result<Vec<Figure>> {
    // The linker warns of dlopen in libgomp, which nothing here calls.
    let options = ["-fopenmp".into(), "-Wl,--no-warnings".into()];
    let program = compile_with("gcc", "speed_up", "speed_up-bench", &options)?;
    let host = output(&mut command(utf8(&program)?, &[CORES]));
    let peer = linux::run(&Guest { arguments: CORES, cpus: CORES, counted: false, ..Guest::of(&[("init", &program)]) });
    let cluster = Cluster::up(built, &["--nodes", "1", "--cores", CORES])?;
    let output = cluster.output(&["run", utf8(&program)?, CORES])?;
    let figure = |name: &str, title: &str| -> Result<Figure> {
        let name = format!("{name}-speed-up");
        let native = host.as_ref().ok().and_then(|text| number(text, &name).ok());
        let native = native.map_or_else(|| "host not measured".to_owned(), |n| format!("host {n:.2}"));
        Ok(Figure {
            name: format!("{title}, {CORES} cores against 1, speed-up"),
            measured: format!("{:.2}", number(&output, &name)?),
            beside: format!("{}, {native}", beside(&peer, &name)),
            wanted: "≥ 1.7 where the host gives 2",
        })
    };
    Ok(vec![figure("triad", "STREAM triad by OpenMP")?, figure("loop", "computing loop by OpenMP")?])
}

/// The peer's number of this name.
fn beside(peer: &Result<String>, name: &str) -> String {
    match peer {
        Ok(text) => number(text, name).map_or_else(|error| error.to_string(), |n| format!("Linux {}", trimmed(n))),
        Err(error) => format!("Linux not measured: {error}"),
    }
}

/// A ratio with its digits, a count without.
fn trimmed(number: f64) -> String {
    if number < 100.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().context("path is not UTF-8")
}
