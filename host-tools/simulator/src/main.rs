//! Tries seeds until something does not hold, or shows one.

use anyhow::{Context, bail};
use clap::Parser;
use coppice_simulator::{Failure, Options, run};

/// Simulates nodes and an I/O node over bad networks, and checks that the protocols hold.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The seed to run, or the first of several.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds to run, counted up from the first.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Print what happened.
    #[arg(long)]
    trace: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let end = arguments.seed.checked_add(arguments.seeds).context("there are no seeds that high")?;
    for seed in arguments.seed..end {
        match run(seed, &Options::default()) {
            Ok(report) => {
                if arguments.trace {
                    report.trace.iter().for_each(|line| println!("{line}"));
                }
                let counts: Vec<String> = report.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
                println!("seed {seed}: {}", counts.join(", "));
            }
            Err(failure) => {
                show(&failure, arguments.trace);
                bail!("{failure}; again with --seed {seed} --trace");
            }
        }
    }
    Ok(())
}

/// The end of a failed run's trace, or all of it.
fn show(failure: &Failure, all: bool) {
    let start = if all { 0 } else { failure.trace.len().saturating_sub(30) };
    failure.trace[start..].iter().for_each(|line| println!("{line}"));
}
