//! Tries seeds until something does not hold, or shows one.

mod crowds;
mod deaths;
mod gatherings;
mod starts;
mod transfers;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Parser, Subcommand};
use coppice_simulator::{Failure, Options, Report, cluster, overlay, run, survivors};

/// Simulates parts of Coppice, or whole clusters, among faults, and checks that what must hold does.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Sessions between nodes and an I/O node over bad networks
    Sessions(Seeds),
    /// Whole clusters: service node, I/O nodes and nodes
    Cluster {
        #[command(flatten)]
        seeds: Seeds,
        /// Nodes of the cluster
        #[arg(long, value_name = "N", default_value_t = cluster::Options::default().nodes)]
        nodes: u32,
        /// Nodes of a pset
        #[arg(long, value_name = "N", default_value_t = cluster::Options::default().pset_size)]
        pset_size: u32,
        /// Users who submit job after job
        #[arg(long, value_name = "N", default_value_t = cluster::Options::default().users)]
        users: usize,
        /// Simulated time during which things go wrong, seconds
        #[arg(long, value_name = "S", default_value_t = cluster::Options::default().faulty_ns / 1_000_000_000)]
        faulty: u64,
        /// Nothing but one job on all nodes, one of which dies
        #[arg(long, conflicts_with_all = ["only", "faulty", "users"])]
        whole: bool,
        /// The ranks of every job use the same files
        #[arg(long)]
        shares: bool,
        /// The faults that strike, by their numbers in the trace; the others do not
        #[arg(long, value_name = "N", value_delimiter = ',', num_args = 0..)]
        only: Option<Vec<u64>>,
        /// How long to look for a smaller run that fails in the same way, seconds
        #[arg(long, value_name = "S", default_value_t = 60)]
        shrink: u64,
    },
    /// One job on a cluster of very many nodes: what it costs the service node
    Crowd(crowds::Crowd),
    /// A cluster of very many nodes that tools can be looked at with: it answers on its socket
    Served(crowds::Served),
    /// The start of a large job, in the old order and in the new one
    Startup(starts::Starts),
    /// How the nodes of a job hear of one that has died
    Failures(deaths::Deaths),
    /// Jobs whose nodes die while their ranks start and find each other
    Survivors {
        #[command(flatten)]
        seeds: Seeds,
        /// Most nodes of a job
        #[arg(long, value_name = "N", default_value_t = survivors::Options::default().nodes_max)]
        nodes: u32,
    },
    /// Performance overlays of jobs whose nodes die, come late or lie
    Overlay {
        #[command(flatten)]
        seeds: Seeds,
        /// Most nodes of a job
        #[arg(long, value_name = "N", default_value_t = overlay::Options::default().nodes_max)]
        nodes: u32,
    },
    /// The overlay of a large job: how long it takes to start, and an epoch to come together
    Gathering(gatherings::Gatherings),
    /// One file to many members, in several ways
    Distribution(transfers::Transfer),
}

#[derive(Args)]
struct Seeds {
    /// The seed to run, or the first of several
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many seeds to run, counted up from the first
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Run seeds for so long instead, seconds
    #[arg(long = "for", value_name = "S", conflicts_with = "seeds")]
    seconds: Option<u64>,
    /// How many to run at a time [default: one for each of the host's cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Print what happened
    #[arg(long)]
    trace: bool,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().what {
        What::Sessions(seeds) => try_seeds(&seeds, |seed| run(seed, &Options::default())).map_err(|failure| {
            show(&failure, seeds.trace);
            anyhow!("{failure}; again with: sessions --seed {} --trace", failure.seed)
        }),
        What::Survivors { seeds, nodes } => {
            let options = survivors::Options { nodes_max: nodes, ..Default::default() };
            try_seeds(&seeds, |seed| survivors::run(seed, &options)).map_err(|failure| {
                show(&failure, seeds.trace);
                anyhow!("{failure}; again with: survivors --nodes {nodes} --seed {} --trace", failure.seed)
            })
        }
        What::Overlay { seeds, nodes } => {
            let options = overlay::Options { nodes_max: nodes, ..Default::default() };
            try_seeds(&seeds, |seed| overlay::run(seed, &options)).map_err(|failure| {
                show(&failure, seeds.trace);
                anyhow!("{failure}; again with: overlay --nodes {nodes} --seed {} --trace", failure.seed)
            })
        }
        What::Crowd(crowd) => crowd.show(),
        What::Served(served) => served.serve(),
        What::Distribution(transfer) => transfer.show(),
        What::Gathering(gatherings) => {
            gatherings.show();
            Ok(())
        }
        What::Startup(starts) => starts.show(),
        What::Failures(deaths) => deaths.show(),
        What::Cluster { seeds, nodes, pset_size, users, whole, shares, faulty, only, shrink } => {
            if nodes == 0 || pset_size == 0 {
                bail!("a cluster has at least one node, and a pset, too");
            }
            let faulty_ns = faulty.checked_mul(1_000_000_000).context("--faulty is too long")?;
            let faulty_ns = if whole { 0 } else { faulty_ns };
            let options =
                cluster::Options { nodes, pset_size, users, is_whole: whole, shares, faulty_ns, ..Default::default() };
            let run = |seed| match &only {
                None if whole || shares => cluster::run(seed, &options),
                None => cluster::run(seed, &options).and_then(|report| with_checkpoints(seed, report)),
                Some(only) => cluster::run_with(seed, &options, only.iter().copied()),
            };
            try_seeds(&seeds, run).map_err(|failure| explain(failure, &options, shrink, seeds.trace))
        }
    }
}

/// Has a cluster with this seed make checkpoints, too, in which somebody dies.
fn with_checkpoints(seed: u64, report: Report) -> Result<Report, Failure> {
    let tried = cluster::try_some(seed)?;
    let mut counts = report.counts;
    counts.push(("checkpoints in which somebody died", tried.from.values().sum()));
    Ok(Report { counts, ..report })
}

/// Shows a failure and what it needs.
fn explain(failure: Failure, options: &cluster::Options, seconds: u64, all: bool) -> anyhow::Error {
    eprintln!("{failure}");
    let (begin, limit) = (Instant::now(), Duration::from_secs(seconds));
    let struck = failure.faults.len();
    let cluster::Shrunk { failure, options, runs } = cluster::shrink(failure, options, || begin.elapsed() >= limit);
    show(&failure, all);
    let cluster::Options { nodes, pset_size, users, faulty_ns, .. } = options;
    let faults: Vec<String> = failure.faults.iter().map(u64::to_string).collect();
    eprintln!("of {struck} faults it needs {} ({runs} other runs tried)", faults.len());
    anyhow!(
        "{}: {failure}; again with: cluster --seed {} --nodes {nodes} --pset-size {pset_size} --users {users} \
         --faulty {} --only={} --trace",
        failure.violation.checker,
        failure.seed,
        faulty_ns / 1_000_000_000,
        faults.join(",")
    )
}

/// What came out of the seeds up to now.
#[derive(Default)]
struct Tried {
    seeds: u64,
    totals: BTreeMap<&'static str, u64>,
    /// Of those that failed the one with the smallest number.
    failure: Option<Failure>,
}

/// Runs seeds, several at a time: each is a world of its own.
fn try_seeds(seeds: &Seeds, run: impl Fn(u64) -> Result<Report, Failure> + Sync) -> Result<(), Failure> {
    let end = seeds.seed.saturating_add(seeds.seeds);
    let limit = seeds.seconds.map(Duration::from_secs);
    let begin = Instant::now();
    let goes_on = |seed: u64| limit.map_or(seed < end, |limit| begin.elapsed() < limit);
    let (next, tried) = (AtomicU64::new(seeds.seed), Mutex::new(Tried::default()));
    let lock = || tried.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        while lock().failure.is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !goes_on(seed) {
                break;
            }
            let result = run(seed);
            let mut tried = lock();
            match result {
                Ok(report) => {
                    tried.seeds += 1;
                    report.counts.iter().for_each(|(name, count)| *tried.totals.entry(name).or_default() += count);
                    show_report(&report, seeds);
                }
                Err(failure) if tried.failure.as_ref().is_some_and(|known| known.seed < failure.seed) => {}
                Err(failure) => tried.failure = Some(failure),
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads =
        if seeds.trace || seeds.seeds == 1 && limit.is_none() { 1 } else { seeds.threads.map_or(cores, NonZero::get) };
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let Tried { seeds: tried, totals, failure } = tried.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let seconds = begin.elapsed().as_secs_f64();
    totals.iter().for_each(|(name, count)| println!("{count:>12} {name}"));
    println!("{tried} seeds in {seconds:.1} s, {:.2} a second", tried as f64 / seconds);
    Ok(())
}

/// Shows what is wanted of a run that was as it must be.
fn show_report(report: &Report, seeds: &Seeds) {
    if seeds.trace {
        report.trace.iter().for_each(|line| println!("{line}"));
    } else if seeds.seeds == 1 && seeds.seconds.is_none() {
        println!("digest {:016x}", report.digest);
    }
}

/// The end of a failed run's trace, or all of it.
fn show(failure: &Failure, all: bool) {
    let start = if all { 0 } else { failure.trace.len().saturating_sub(30) };
    failure.trace[start..].iter().for_each(|line| println!("{line}"));
}
