//! One file to many nodes whose links are the limit: through two trees, beside every node reading it from the I/O
//! node, on the same nodes. Copies one after another are reckoned from what some of them took, and so is a binomial
//! tree, in which whoever has the whole file sends it to one more at a time: nodes send no whole files.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::Figure;
use crate::bench::cluster::{Cluster, field};
use crate::build::Built;

/// Length of the file, bytes.
const BYTES: usize = 16 << 20;

/// Nodes, and the bandwidth of their links, in Mbit/s: slow enough for two processors to drive all of them, even if
/// they have something else to do.
const SIZES: [(u32, u32); 2] = [(16, 12), (32, 6)];

/// Nodes to which it is copied alone; the others would take as long.
const COPIES: u32 = 4;

/// Transfers through two trees; the median counts.
const TRANSFERS: usize = 3;

const BUSYBOX: &str = "/bin/busybox";

/// The figures.
///
/// # Errors
/// If a cluster does not come up, or a node does not get the file.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (nodes, megabits) in SIZES {
        figures.extend(ways(built, nodes, megabits)?);
    }
    Ok(figures)
}

fn ways(built: &Built, nodes: u32, megabits: u32) -> Result<Vec<Figure>> {
    let (count, bandwidth) = (nodes.to_string(), format!("{megabits}M"));
    let cluster = Cluster::up(built, &["--nodes", &count, "--bandwidth", &bandwidth])?;
    let content: Vec<u8> = (0..BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(cluster.root().join("file"), content)?;
    // What runs there from now on is there.
    cluster.output(&["run", "--quiet", "-n", &count, BUSYBOX, "dd", "if=/dev/null", "of=/dev/null"])?;

    let mut trees: Vec<Transfer> = (0..TRANSFERS).map(|_| transfer(&cluster, &count)).collect::<Result<_>>()?;
    trees.sort_by_key(|transfer| transfer.time);
    let tree = trees.get(TRANSFERS / 2).context("nothing was transferred")?;
    let begin = Processors::now()?;
    let read = ["run", "--quiet", "-n", &count, BUSYBOX, "dd", "if=/file", "of=/dev/null", "bs=64k"];
    let (read, read_idle) = (cluster.time(&read)?, begin.idle_since()?);
    let copies: Vec<Duration> = (0..COPIES).map(|node| copy(&cluster, node)).collect::<Result<_>>()?;
    let one = copies.iter().sum::<Duration>() / COPIES;
    let rounds = (nodes + 1).next_power_of_two().ilog2();

    let bound = BYTES as f64 * 8.0 / (f64::from(megabits) * 1e6);
    let figure = |way: &str, time: Duration, beside: String, wanted| Figure {
        name: format!("16 MiB to {nodes} nodes, {megabits} Mbit/s, {way}, ÷ one link's time of {bound:.1} s"),
        measured: format!("{:.2} ({:.1} s)", time.as_secs_f64() / bound, time.as_secs_f64()),
        beside,
        wanted,
    };
    let of_copies = format!(", of {COPIES} the mean: {:.1} s", one.as_secs_f64());
    let idle = |share: f64| format!("host {:.0} % idle", share * 100.0);
    let of_trees = format!(
        "from {:.2} to {:.2}; of home {:.2}; {}",
        trees.first().map_or(0.0, |transfer| transfer.time.as_secs_f64() / bound),
        trees.last().map_or(0.0, |transfer| transfer.time.as_secs_f64() / bound),
        tree.home_bytes as f64 / BYTES as f64,
        idle(tree.idle)
    );
    Ok(vec![
        figure("two trees", tree.time, of_trees, "≤ 1.3"),
        figure("each reads it from the I/O node", read, idle(read_idle), "–"),
        figure("one copy after another", one * nodes, format!("reckoned: {nodes} times one copy{of_copies}"), "–"),
        figure("binomial tree", one * rounds, format!("reckoned: {rounds} rounds of one copy{of_copies}"), "–"),
    ])
}

/// One transfer through two trees.
struct Transfer {
    /// Until home knew that all have the file.
    time: Duration,
    home_bytes: u64,
    /// Share of their time that the host's processors had nothing to do.
    idle: f64,
}

/// To all nodes, for a job that does nothing.
fn transfer(cluster: &Cluster, count: &str) -> Result<Transfer> {
    let begin = Processors::now()?;
    cluster.output(&["run", "--quiet", "-n", count, "--stage", "file=/in/file", BUSYBOX, "true"])?;
    let idle = begin.idle_since()?;
    let jobs = cluster.json(&["jobs"])?;
    let last = jobs.as_array().and_then(|jobs| jobs.last()).context("no job")?;
    let transfer = cluster.json(&["job", &field(last, "job")?.to_string()])?["transfers"][0].take();
    ensure!(field(&transfer, "lost")? == 0, "not every node got the file: {transfer}");
    let time = Duration::from_nanos(field(&transfer, "elapsed_ns")?);
    Ok(Transfer { time, home_bytes: field(&transfer, "home_bytes")?, idle })
}

/// To one node alone.
fn copy(cluster: &Cluster, node: u32) -> Result<Duration> {
    let report = cluster.json(&["stage", "file", "--nodes", &node.to_string()])?;
    ensure!(field(&report, "had")? == 0, "node {node} had it: {report}");
    Ok(Duration::from_nanos(field(&report, "took_ns")?))
}

/// What the host's processors have done until now, in clock ticks (proc_stat(5)).
struct Processors {
    idle: u64,
    all: u64,
}

impl Processors {
    fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/stat").context("cannot see what the processors do")?;
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).context("unexpected /proc/stat")?;
        let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let idle = ticks.iter().skip(3).take(2).sum();
        Ok(Self { idle, all: ticks.iter().take(8).sum() })
    }

    /// Share of the time since then in which they had nothing to do.
    fn idle_since(&self) -> Result<f64> {
        let now = Self::now()?;
        Ok(now.idle.saturating_sub(self.idle) as f64 / now.all.saturating_sub(self.all).max(1) as f64)
    }
}
