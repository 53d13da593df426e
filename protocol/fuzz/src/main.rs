//! Looks for inputs under which a parser of the protocols panics, for some time.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use coppice_fuzz::{Found, Hunt, TARGETS, Target, from_hex, to_hex};

/// Inputs between two looks at the clock.
const SLICE: u64 = 2_000;

/// Tries changed and damaged inputs on every parser of the protocols.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Only this target
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// How long, seconds
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u64,
    /// What inputs to make; the same seed makes the same ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Try this input alone, in hexadecimal, and show what becomes of it
    #[arg(long, value_name = "HEX", requires = "target")]
    input: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let is_wanted = |target: &&Target| arguments.target.as_ref().is_none_or(|name| name == target.name);
    let targets: Vec<&'static Target> = TARGETS.iter().filter(is_wanted).collect();
    if targets.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        bail!("there is no such target; there are {}", names.join(", "));
    }
    if let Some(input) = &arguments.input {
        let input = from_hex(input).context("the input is not hexadecimal")?;
        return targets.into_iter().try_for_each(|target| target.check(&input).map(drop).map_err(failure));
    }
    // What is caught is told at the end.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let mut hunts = targets
        .iter()
        .map(|target| Hunt::new(target, arguments.seed))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failure)?;
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        hunts.iter_mut().try_for_each(|hunt| hunt.go_on(SLICE)).map_err(failure)?;
    }
    for (target, hunt) in targets.iter().zip(&hunts) {
        println!("{}: {} inputs, {} kinds", target.name, hunt.inputs(), hunt.made());
    }
    Ok(())
}

fn failure(found: Found) -> anyhow::Error {
    let Found { target, input, what } = found;
    anyhow::anyhow!(
        "{target}: {what}; again with: cargo run -p coppice-fuzz -- --target {target} --input {input}; keep it as a \
         line of protocol/fuzz/corpus/{target}.txt",
        input = to_hex(&input)
    )
}
