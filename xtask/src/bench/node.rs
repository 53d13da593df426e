//! What a node costs: instructions to boot and to make a system call, memory the kernel keeps, work done when idle.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cluster::{Cluster, field};
use super::guest::{compile, number};
use super::{Figure, grouped, linux};
use crate::build::Built;

/// How long an idle node is watched.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Calls measured; a million would measure the same.
const CALLS: &str = "100000";

/// All figures of one node.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("getpid")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let peer = linux::run(&linux::Guest::of(&[("init", &program)]));
    let beside = |name: &str| match &peer {
        Ok(text) => number(text, name).map_or_else(|error| error.to_string(), |n| format!("Linux {}", rounded(n))),
        Err(error) => format!("Linux not measured: {error}"),
    };

    let counted = Cluster::up(built, &["--nodes", "1", "--icount"])?;
    let node = first_node(&counted)?;
    // The clock counts instructions while the node works, and real time while it waits for the I/O node.
    let booted = field(&node, "boot_ns")?.saturating_sub(field(&node, "boot_idle_ns")?);
    let output = counted.output(&["run", path, CALLS])?;
    drop(counted);

    let cluster = Cluster::up(built, &["--nodes", "1"])?;
    let node = first_node(&cluster)?;
    let memory = node.get("memory").context("node has no memory figures")?;
    let idle = idle_share(field(&node, "pid")?)?;
    Ok(vec![
        Figure {
            name: "kernel entry → node ready, instructions".into(),
            measured: grouped(booted),
            beside: beside("counter-at-main"),
            wanted: "≤ 20 000 000",
        },
        Figure {
            name: "getpid round trip, instructions".into(),
            measured: rounded(number(&output, "getpid")?),
            beside: beside("getpid"),
            wanted: "≤ 150, aim 110",
        },
        Figure {
            name: "zero-fill page fault, instructions".into(),
            measured: rounded(number(&output, "zero-fill-fault")?),
            beside: beside("zero-fill-fault"),
            wanted: "–",
        },
        Figure {
            name: "kernel memory on a ready node, KiB".into(),
            measured: grouped(field(memory, "kernel_bytes")? / 1024),
            beside: format!("of {} KiB", grouped(field(memory, "total_bytes")? / 1024)),
            wanted: "≤ 8 192",
        },
        Figure {
            name: "idle node, host CPU of its QEMU over 10 s".into(),
            measured: format!("{:.2} %", idle * 100.0),
            beside: "of one core".into(),
            wanted: "≤ 1 %",
        },
    ])
}

fn rounded(number: f64) -> String {
    if number < 10_000.0 { format!("{number:.1}") } else { grouped(number as u64) }
}

fn first_node(cluster: &Cluster) -> Result<Value> {
    cluster.json(&["nodes"])?.get(0).cloned().context("cluster has no node")
}

/// Share of one core that a process uses while nobody asks anything of it.
fn idle_share(pid: u64) -> Result<f64> {
    let before = cpu_ticks(pid)?;
    std::thread::sleep(IDLE_TIME);
    let ticks = cpu_ticks(pid)? - before;
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok(ticks as f64 / ticks_per_second / IDLE_TIME.as_secs_f64())
}

/// User and system time a process has used, in clock ticks (proc_pid_stat(5), fields 14 and 15).
fn cpu_ticks(pid: u64) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the machine's process is gone")?;
    let after_name = stat.rsplit_once(')').context("unexpected /proc/PID/stat")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    ticks(11).zip(ticks(12)).map(|(user, system)| user + system).context("unexpected /proc/PID/stat")
}
