//! A job on many nodes that retain its program, beside a control message with nothing in it to as many.

use anyhow::{Context, Result, bail};

use super::programs::Programs;
use super::rank::Several;
use crate::bench::Figure;
use crate::bench::cluster::{Cluster, field};
use crate::build::Built;

/// Nodes of the job.
const NODES: &str = "16";

/// Times either is measured, in turns; the medians count.
const RUNS: usize = 9;

/// What may be added to two round trips, ms.
const ALLOWANCE_MS: f64 = 50.0;

/// Hash of no program: giving back what nodes retain of it does nothing but ask each of them and hear its answer.
const NO_PROGRAM: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The job's start.
///
/// # Errors
/// If a measurement fails, or not all nodes retained the program.
pub(super) fn figures(built: &Built, programs: &Programs) -> Result<Vec<Figure>> {
    let path = &programs.sizes.first().context("no program")?.path;
    let cluster = Cluster::up(built, &["--nodes", NODES])?;
    cluster.output(&["run", "-n", NODES, path])?;
    let pairs: Vec<_> =
        (0..RUNS).map(|_| Ok((submit_to_running(&cluster, path)?, round_trip(&cluster)?))).collect::<Result<_>>()?;
    let (running, trip): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
    let (running, trip): (Several, Several) = (running.into_iter().collect(), trip.into_iter().collect());
    let bound = 2.0 * trip.median() as f64 / 1e6 + ALLOWANCE_MS;
    Ok(vec![Figure {
        name: "16-node job, retained, submit → all ranks running, wall".into(),
        measured: running.show_ms(),
        beside: format!("empty control message to 16 nodes and back {}; bound {bound:.2} ms", trip.show_ms()),
        wanted: "≤ 2 × that + 50 ms",
    }])
}

fn submit_to_running(cluster: &Cluster, path: &str) -> Result<u64> {
    let job = cluster.json_of(&["run", "--json", "-n", NODES, path])?;
    let warm = field(&job["retention"], "warm_ranks")?;
    if warm.to_string() != NODES {
        bail!("only {warm} of {NODES} nodes had retained the program");
    }
    Ok(field(&job, "running_at_ns")?.saturating_sub(field(&job, "submitted_at_ns")?))
}

fn round_trip(cluster: &Cluster) -> Result<u64> {
    field(&cluster.json(&["forget", NO_PROGRAM])?, "round_trip_ns")
}
