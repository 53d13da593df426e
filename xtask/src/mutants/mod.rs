//! `cargo xtask mutants`: puts faults back on purpose, one after the other, and says which checker of the simulated
//! cluster finds each, and after how many seeds.
//!
//! | module | what |
//! | --- | --- |
//! | [`patches`] | the faults, as they lie in the tree |
//! | [`copy`] | the copy of the tree that they are put into |
//! | [`trial`] | building it, and running seeds |

mod copy;
mod patches;
mod trial;

use std::num::NonZero;

use anyhow::{Result, bail};
use clap::Args;

use self::patches::Patch;
pub(crate) use self::patches::complaints;
use self::trial::{Found, Outcome, Simulator};
use crate::mutants::copy::Copy;

/// What is tried.
#[derive(Args)]
#[command(after_help = "\
Each fault is a patch in host-tools/simulator/mutants, which says what is broken. It is applied to a copy of the tree \
below target/mutants, where the simulator is built with it and runs seeds from 0 on until one fails. In the end the \
simulator is built without any, and must hold for as many seeds as the last to be found needed. Exits with 1 if one \
was not found.")]
pub(crate) struct Options {
    /// Only these, by their names
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    only: Vec<String>,
    /// Seeds that each is tried with at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// Seeds that are run at a time [default: one for each of the host's cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

/// Tries them, and prints a table.
///
/// # Errors
/// One was not found, does not apply, or does not build; or something is found where no fault is.
pub(crate) fn run(options: &Options) -> Result<()> {
    let chosen = choose(patches::all()?, &options.only)?;
    let copy = Copy::below_target();
    let simulator = Simulator { copy: &copy, threads: options.threads };
    println!("| mutant | found by | seeds |\n| --- | --- | ---: |");
    let (mut needed, mut missed) = (Vec::new(), Vec::new());
    for patch in &chosen {
        copy.make()?;
        copy.apply(patch)?;
        match simulator.run(&patch.name, options.seeds)? {
            Outcome::Failed(Found { checker, seed }) => {
                println!("| {} | {checker} | {} |", patch.name, seed + 1);
                needed.push(seed + 1);
            }
            Outcome::Held => {
                println!("| {} | NOT FOUND | {} |", patch.name, options.seeds);
                missed.push(patch.name.as_str());
            }
        }
    }
    needed.sort_unstable();
    let most = needed.last().copied().unwrap_or(0);
    println!(
        "\n{} of {} found; seeds needed: {} in the median, {most} at most",
        needed.len(),
        chosen.len(),
        median(&needed)
    );
    if most > 0 {
        copy.make()?;
        if let Outcome::Failed(Found { checker, seed }) = simulator.run("none", most)? {
            bail!(
                "without any fault put back seed {seed} fails, too ({checker}): `cargo xtask simulate -- --seed {seed}`"
            );
        }
    }
    if !missed.is_empty() {
        bail!("not found within {} seeds: {}", options.seeds, missed.join(", "));
    }
    Ok(())
}

/// Those with these names, or all.
fn choose(all: Vec<Patch>, only: &[String]) -> Result<Vec<Patch>> {
    if let Some(unknown) = only.iter().find(|name| all.iter().all(|patch| patch.name != **name)) {
        bail!("there is no {}", patches::path_of(unknown).display());
    }
    Ok(all.into_iter().filter(|patch| only.is_empty() || only.contains(&patch.name)).collect())
}

/// The one in the middle, or the lower one of the two; 0 of none.
fn median(sorted: &[u64]) -> u64 {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_one_of_them() {
        assert_eq!([median(&[]), median(&[7]), median(&[1, 7]), median(&[1, 2, 7])], [0, 7, 1, 2]);
    }
}
