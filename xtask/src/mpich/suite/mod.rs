//! `cargo xtask mpi-suite`: MPICH's own tests of messages, collective operations, files and ranks that start others, on
//! the nodes of one cluster.
//!
//! They run as MPICH's runner has them: ranks, arguments, environment and time limits from its lists; one has passed
//! if it ends with status 0 and says “No Errors”. What fails is compared with `tests/guests/mpi/known-failures.txt`.

mod build;
mod cases;
mod execute;
mod library;

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::cases::{Case, Known};
use self::execute::{Outcome, Runner};
use self::library::Library;
use super::ready;
use crate::build::everything;
use crate::command::root;
use crate::setup;

/// The directories of MPICH's tests that are run.
const DIRECTORIES: [&str; 4] = ["pt2pt", "coll", IO, SPAWN];

/// The directory of those that use files. One reads what its first argument names, which is its program.
const IO: &str = "io";

/// The directory of those that start others, which they look for beside them.
const SPAWN: &str = "spawn";

/// Ranks that one of these starts at once, at most.
const SPAWNED_MAX: u32 = 10;

/// Those that `cargo xtask test` runs, too, in the form of MPICH's lists.
const FAST: &str = include_str!("../../../../tests/guests/mpi/fast.txt");

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Only programs whose line in MPICH's list contains this
    filter: Option<String>,
    /// What the programs are built with
    #[arg(long, value_enum, default_value_t = Library::Mpich)]
    mpi: Library,
    /// Run each on this host under MPICH's own mpiexec as well
    #[arg(long)]
    native: bool,
    /// Only on this host
    #[arg(long, conflicts_with = "native")]
    native_only: bool,
    /// Ranks that share a node
    #[arg(long, value_name = "N", default_value_t = 1)]
    ranks_per_node: u32,
    /// Arguments of `coppice up`, such as --up=--loss=1%
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    up: Vec<String>,
}

/// Builds the few of MPICH's test programs that `cargo xtask test` runs.
///
/// # Errors
/// If they do not build.
pub(crate) fn build_fast() -> Result<()> {
    let lines = FAST.lines().filter(|line| !line.starts_with('#'));
    let programs: BTreeSet<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    build::programs(&ready()?, Some(&programs)).map(drop)
}

/// Builds, runs and prints.
///
/// # Errors
/// If a program fails that is not known to.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::everything()?;
    let programs = build::programs(&options.mpi.ready()?, None)?;
    let known = std::fs::read_to_string(root().join("tests/guests/mpi/known-failures.txt"))?;
    let known = Known::parse(&known)?;
    let mut cases = Vec::new();
    for directory in DIRECTORIES {
        let list = programs.join(directory).join("testlist");
        let text = std::fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
        cases.extend(cases::parse(directory, &text)?);
    }
    cases.retain(|case| options.filter.as_ref().is_none_or(|filter| case.title().contains(filter)));
    let more = |case: &Case| if case.is_in(SPAWN) { SPAWNED_MAX } else { 0 };
    let ranks = cases.iter().map(|case| case.ranks + more(case)).max();
    let ranks = ranks.context("no program in MPICH's lists matches")?;
    let mut runners = Vec::new();
    if !options.native_only {
        let nodes = ranks.div_ceil(options.ranks_per_node.max(1));
        runners.push(Runner::nodes(&everything()?, nodes, options.ranks_per_node, &options.up, &programs)?);
    }
    if options.native || options.native_only {
        runners.push(Runner::native(options.mpi.starter()?, &programs));
    }
    let mut tally = Tally::default();
    for case in &cases {
        tally.add(case, &known, &runners);
    }
    tally.conclude(!options.native_only)
}

/// What came of all programs.
#[derive(Default)]
struct Tally {
    passed: Vec<u32>,
    run: u32,
    skipped: u32,
    unexpected: Vec<String>,
    stale: Vec<String>,
}

impl Tally {
    /// Runs a program everywhere and prints its line.
    fn add(&mut self, case: &Case, known: &Known, runners: &[Runner]) {
        let title = case.title();
        if let Some(ticket) = &case.expected_failure {
            println!("skipped  {title}: MPICH does not expect it to work ({ticket})");
            self.skipped += 1;
            return;
        }
        self.run += 1;
        self.passed.resize(runners.len(), 0);
        for (place, runner) in runners.iter().enumerate() {
            let begun = std::time::Instant::now();
            let outcome = runner.run(case);
            let seconds = begun.elapsed().as_secs_f64();
            let on = runner.name();
            let reason = known.reason(case);
            match outcome {
                Outcome::Passed => {
                    self.passed[place] += 1;
                    println!("passed   {on:6} {seconds:6.1} s  {title}");
                    if reason.is_some() && place == 0 {
                        self.stale.push(title.clone());
                    }
                }
                Outcome::Failed(why) => {
                    println!("failed   {on:6} {seconds:6.1} s  {title}: {}", reason.unwrap_or(&why));
                    if reason.is_none() && place == 0 {
                        self.unexpected.push(format!("{title}: {why}"));
                    }
                }
            }
        }
    }

    fn conclude(&self, on_nodes: bool) -> Result<()> {
        let passed: Vec<String> = self.passed.iter().map(|passed| format!("{passed} of {}", self.run)).collect();
        println!("\npassed: {}; skipped: {}", passed.join(", natively "), self.skipped);
        if !on_nodes {
            return Ok(());
        }
        for title in &self.stale {
            println!("known to fail, but passed: {title}");
        }
        if !self.unexpected.is_empty() {
            bail!("not known to fail:\n  {}", self.unexpected.join("\n  "));
        }
        Ok(())
    }
}
