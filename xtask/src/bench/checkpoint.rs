//! What a checkpoint costs the program: how long it stands, beside a copy of its memory; what is written for it; and
//! how long it takes until it is in the storage, and until a job goes on from it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Figure;
use super::cluster::Cluster;
use super::guest::{compile, compile_mpi};
use crate::build::Built;

/// Pages that the program has written: 64 MiB.
const PAGES: u64 = 16_384;

/// As many MiB.
const MIB: &str = "64";

/// Pages that it changes from one checkpoint to the next: 1 MiB.
const PAGES_CHANGED: &str = "256";

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Checkpoints of the MPI job.
const MPI_CHECKPOINTS: usize = 10;

/// How long the program may take to have written them.
const WAIT: Duration = Duration::from_secs(180);

/// All figures of checkpoints.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let mut figures = pauses(built)?;
    figures.extend(times(built)?);
    figures.push(of_mpi(built)?);
    Ok(figures)
}

/// For how long all ranks of an MPI job stand that sends all the time, of several checkpoints the shortest, by the
/// clock: there are more nodes than this machine has processors.
fn of_mpi(built: &Built) -> Result<Figure> {
    let program = compile_mpi("ring")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", "8", "--memory", "128M"])?;
    let job = cluster.output(&["run", "--detach", "--keep-output", "-n", "8", path, "1000000000"])?;
    // The first one says when all ranks run.
    let end = Instant::now() + WAIT;
    while cluster.json(&["checkpoint", job.trim()]).is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
    }
    let made = (0..MPI_CHECKPOINTS).map(|_| cluster.json(&["checkpoint", job.trim()]));
    let made = made.collect::<Result<Vec<Value>>>()?;
    let pause = |made: &Value| made["pause_us"].as_u64().unwrap_or(u64::MAX);
    let shortest = made.iter().min_by_key(|made| pause(made)).context("no checkpoint")?;
    let steps = shortest["steps"].as_array().context("no steps")?.iter();
    let steps = steps.map(|step| format!("{}: {} µs", step["name"].as_str().unwrap_or_default(), step["us"]));
    cluster.output(&["kill", "--signal", "KILL", job.trim()])?;
    Ok(Figure {
        name: format!("pause of an MPI job of 8 ranks on 8 nodes, wall, shortest of {MPI_CHECKPOINTS}"),
        measured: format!("{:.1} ms", pause(shortest) as f64 / 1000.0),
        beside: steps.collect::<Vec<_>>().join("; "),
        wanted: "≤ 25 ms",
    })
}

/// For how long a rank stands, and what is written, in instructions and pages.
fn pauses(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("bench_stays")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", "1", "--icount", "--memory", "256M"])?;
    let copied = cluster.output(&["run", path, &PAGES.to_string(), "copy"])?;
    let small = checkpoint(&cluster, &[path, "1"], &[])?;
    let large = checkpoint(&cluster, &[path, &PAGES.to_string()], &[])?;
    let copy = ["--phase1", "copy"];
    checkpoint(&cluster, &[path, &PAGES.to_string()], &copy)?;
    checkpoint(&cluster, &[path, &PAGES.to_string()], &[&copy[..], &["--dma-pending", "0"]].concat())?;
    checkpoint(&cluster, &[path, &PAGES.to_string(), "shared"], &[])?;
    let console = cluster.output(&["console", "0"])?;
    let worked: Vec<u64> = console.lines().filter_map(worked).collect();
    let [of_small, of_large, of_copy, of_processor, of_shared] = worked[..] else {
        bail!("the node does not say of five checkpoints what they took: {console}")
    };
    Ok(vec![
        Figure {
            name: "rank with 64 MiB written stands for a checkpoint, instructions".into(),
            measured: of_large.to_string(),
            beside: format!(
                "with one page: {of_small}; --phase1 copy: {of_copy}; by the processor only: {of_processor}; copying \
                 its memory: {}",
                copied.trim()
            ),
            wanted: "≤ 1000000",
        },
        Figure {
            name: "pages that are in it".into(),
            measured: large.to_string(),
            beside: format!("written: {PAGES}; with one page: {small}"),
            wanted: "–",
        },
        Figure {
            name: "rank with 64 MiB written that others may show stands for a checkpoint, instructions".into(),
            measured: of_shared.to_string(),
            beside: format!("of its own: {of_large}"),
            wanted: "–",
        },
    ])
}

/// What a second checkpoint writes, and how long draining and restarting take.
fn times(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("writes_few")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let cluster = Cluster::up(built, &["--nodes", "2", "--memory", "256M"])?;
    let arguments =
        ["run", "--detach", "--keep-output", "--nodes-list", "0", path, MIB, "10000000", "1", PAGES_CHANGED];
    let job = cluster.output(&arguments)?;
    let job = job.trim();
    wait_for(&cluster, job, "round 20:")?;
    let first = cluster.json(&["checkpoint", job])?;
    wait_for(&cluster, job, "round 600:")?;
    let second = cluster.json(&["checkpoint", job])?;
    // The program runs meanwhile, as it does while it is drained.
    let bytes = first["bytes"].as_u64().with_context(|| format!("no bytes in {first}"))?;
    let plain = plain_copy(&cluster.root(), bytes)?;
    cluster.output(&["kill", "--signal", "KILL", job])?;
    // Its exit status says that it was killed.
    let _killed = cluster.output(&["wait", job]);
    let number = |made: &Value, what: &str| made[what].as_u64().with_context(|| format!("no {what} in {made}"));
    let drained = number(&first, "drain_ms")?.saturating_sub(number(&first, "local_ms")?);
    let name = second["checkpoint"].as_str().context("a checkpoint without a name")?.to_owned();
    let from_region = restarted(&cluster, &name, "0")?;
    let from_storage = restarted(&cluster, &name, "1")?;
    Ok(vec![
        Figure {
            name: "second checkpoint, 1 MiB written since, pages written".into(),
            measured: (number(&second, "bytes")? / PAGE_BYTES).to_string(),
            beside: format!("the first: {}; changed: {PAGES_CHANGED}", number(&first, "bytes")? / PAGE_BYTES),
            wanted: "≤ 256 + state",
        },
        Figure {
            name: "pause of these, wall".into(),
            measured: format!("{} ms", number(&first, "pause_us")? / 1000),
            beside: format!("the second: {} ms", number(&second, "pause_us")? / 1000),
            wanted: "–",
        },
        Figure {
            name: "draining the first".into(),
            measured: format!("{drained} ms"),
            beside: format!(
                "a plain copy of as many bytes, on stable storage, beside the same program: {} ms",
                plain.as_millis()
            ),
            wanted: "≥ 80 % of its speed",
        },
        Figure {
            name: "restart to the first line of output, 64 MiB, from the region".into(),
            measured: format!("{} ms", from_region.as_millis()),
            beside: format!("from the storage: {} ms", from_storage.as_millis()),
            wanted: "–",
        },
        Figure { name: "the same program under CRIU".into(), measured: criu(), beside: "–".into(), wanted: "–" },
    ])
}

/// Waits until a job has said something.
fn wait_for(cluster: &Cluster, job: &str, words: &str) -> Result<()> {
    let end = Instant::now() + WAIT;
    while !cluster.output(&["logs", job])?.contains(words) {
        if Instant::now() > end {
            bail!("the program has not said {words} in {} s", WAIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Makes a checkpoint of a program that says when it is ready, and ends it. Gives how many pages are in it.
fn checkpoint(cluster: &Cluster, program: &[&str], options: &[&str]) -> Result<u64> {
    let job = cluster.output(&[&["run", "--detach", "--keep-output"], program].concat())?;
    let job = job.trim();
    wait_for(cluster, job, "ready")?;
    let made = cluster.json(&[&["checkpoint", job], options].concat())?;
    cluster.output(&["kill", "--signal", "KILL", job])?;
    made["pages"].as_u64().context("the checkpoint does not say how many pages it has")
}

/// How long a plain copy of so many bytes takes that cannot be compressed, until it is on stable storage.
fn plain_copy(directory: &Path, bytes: u64) -> Result<Duration> {
    let (from, to) = (directory.join("plain"), directory.join("copy"));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let noise = (0..bytes / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    std::fs::write(&from, noise.collect::<Vec<u8>>())?;
    let start = Instant::now();
    std::fs::copy(&from, &to)?;
    let mut copy = File::options().append(true).open(&to)?;
    copy.flush()?;
    copy.sync_all()?;
    Ok(start.elapsed())
}

/// How long it takes on a node from the order to restart until the job says something.
fn restarted(cluster: &Cluster, checkpoint: &str, node: &str) -> Result<Duration> {
    let start = Instant::now();
    let job = cluster.output(&["restart", checkpoint, "--detach", "--keep-output", "--nodes-list", node])?;
    let job = job.trim();
    while cluster.output(&["logs", job])?.is_empty() {
        if start.elapsed() > WAIT {
            bail!("the job did not go on in {} s", WAIT.as_secs());
        }
    }
    let took = start.elapsed();
    cluster.output(&["kill", "--signal", "KILL", job])?;
    Ok(took)
}

/// Whether the host can do the same with CRIU.
fn criu() -> String {
    match Command::new("criu").arg("check").output() {
        Ok(checked) if checked.status.success() => "it can; not measured".into(),
        Ok(checked) => {
            let said = String::from_utf8_lossy(&checked.stderr);
            let first = said.lines().find(|line| line.contains("Error")).unwrap_or("it does not say why");
            format!("not on this host: {first}")
        }
        Err(_) => "not installed".into(),
    }
}

/// For how long a node's core worked while a rank was taken apart and put together, in instructions.
fn worked(line: &str) -> Option<u64> {
    line.split_once("worked for ")?.1.split_once(" ns")?.0.parse().ok()
}
