//! `cargo xtask soak`: what the suite tries with a few seeds, with fresh ones and for long. The parts take turns, so
//! that a short run has tried something of each; the first part that finds something does not end the others.

mod child;
mod clusters;
mod programs;
mod properties;
mod sweep;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::target;
use crate::{build, setup};

/// Longest turn of a part that can stop at any time.
const TURN_MAX: Duration = Duration::from_secs(60);
/// Turns that each part should have in the shortest run.
const TURNS_MIN: u32 = 2;

/// What to try, and how long.
#[derive(Args)]
#[command(after_help = "\
Parts: properties (all property tests, with many more cases), simulator (sessions over bad networks), world (whole \
simulated clusters), fuzz (every parser of the protocols), objects (random programs that combine kernel objects), \
calls (random system calls), threads and retention (endurance of clusters), storm (random faults against a stream of \
jobs), verbs (commands that are interrupted at random moments), writes (disks that fill at any write), staging (a \
large program and a file on 32 nodes, with losses, a link that is cut and relays that are killed), checkpoints \
(programs that are checkpointed at random moments, whatever is killed then), kills (whatever is killed at each step of \
a checkpoint), mpich (MPICH's own tests, checkpointed every second), and what else the cluster tests have for long \
runs.\n\n\
What is found is printed with the line that shows it again, and logged in target/soak. The exit status says whether \
anything was. Ctrl-C ends it early, with its summary; nothing stays behind.")]
pub(crate) struct Options {
    /// How long, without building
    #[arg(long, value_name = "M", default_value_t = 60)]
    minutes: u32,
    /// Only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// The first seed [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Leave out what needs QEMU
    #[arg(long)]
    host_only: bool,
}

/// What a turn has to do with.
pub(crate) struct Turn<'a> {
    /// When it is to end. What cannot stop then is not begun.
    end: Instant,
    /// A number that no other turn has.
    seed: u64,
    watch: &'a sweep::Watch,
    logs: PathBuf,
}

/// What a turn came to.
#[derive(Default)]
pub(crate) struct Came {
    /// How many seeds, cases, inputs or programs were tried.
    tried: u64,
    /// What was found, each with the line that shows it again.
    found: Vec<String>,
}

/// Something that is tried.
pub(crate) trait Part {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it counts.
    fn unit(&self) -> &'static str;
    /// The time without which a turn makes no sense.
    fn needs(&self) -> Duration;
    /// Tries until the turn is over.
    ///
    /// # Errors
    /// If it cannot be tried at all.
    fn take(&mut self, turn: &Turn<'_>) -> Result<Came>;
}

/// One part's sum.
#[derive(Default)]
struct Sum {
    tried: u64,
    spent: Duration,
    found: usize,
}

/// Runs all of it.
///
/// # Errors
/// If something could not be built, or anything was found.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.host_only {
        setup::everything()?;
        build::everything()?;
    }
    let watch = sweep::Watch::start()?;
    let mut parts: Vec<Box<dyn Part>> = vec![Box::new(properties::Properties::build()?), Box::new(programs::fuzz()?)];
    for simulator in programs::simulators()? {
        parts.push(Box::new(simulator));
    }
    if !options.host_only {
        parts.extend(clusters::parts()?.into_iter().map(|part| Box::new(part) as Box<dyn Part>));
    }
    if let Some(unknown) = options.only.iter().find(|name| parts.iter().all(|part| part.name() != **name)) {
        let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
        bail!("there is no part {unknown}; there are {}", names.join(", "));
    }
    parts.retain(|part| options.only.is_empty() || options.only.iter().any(|name| name == part.name()));
    let logs = target().join("soak");
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let found = take_turns(options, &mut parts, &watch, logs);
    watch.sweep();
    let found = found?;
    if found > 0 {
        bail!("{found} things were found; they are listed above");
    }
    Ok(())
}

/// Lets the parts take turns until the time is over. Returns how much was found.
fn take_turns(options: &Options, parts: &mut [Box<dyn Part>], watch: &sweep::Watch, logs: PathBuf) -> Result<usize> {
    let start = Instant::now();
    let time = Duration::from_secs(u64::from(options.minutes) * 60);
    let end = start + time;
    let length = TURN_MAX.min(time / (TURNS_MIN * parts.len().max(1) as u32));
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut seed = options.seed.unwrap_or(since_1970.as_secs());
    println!("soak: {} minutes, seeds from {seed} on", options.minutes);
    let mut sums: Vec<Sum> = parts.iter().map(|_| Sum::default()).collect();
    while Instant::now() < end && !watch.is_interrupted() {
        let mut had_turn = false;
        for (part, sum) in parts.iter_mut().zip(&mut sums) {
            let left = end.saturating_duration_since(Instant::now());
            if watch.is_interrupted() || left < part.needs() {
                continue;
            }
            let began = Instant::now();
            let turn = Turn { end: (began + length.max(part.needs())).min(end), seed, watch, logs: logs.clone() };
            let came = part.take(&turn)?;
            // Seeds are counted up inside of turns too.
            seed = seed.wrapping_add(1_000_003);
            had_turn = true;
            sum.tried += came.tried;
            sum.spent += began.elapsed();
            sum.found += came.found.len();
            println!("{}", line(part.as_ref(), sum));
            came.found.iter().for_each(|found| println!("FOUND by {}: {found}", part.name()));
        }
        if !had_turn {
            break;
        }
    }
    let found = sums.iter().map(|sum| sum.found).sum();
    println!("\nsoak: {:.1} minutes, {found} found", start.elapsed().as_secs_f64() / 60.0);
    parts.iter().zip(&sums).for_each(|(part, sum)| println!("{}", line(part.as_ref(), sum)));
    Ok(found)
}

/// What a part came to so far.
fn line(part: &dyn Part, sum: &Sum) -> String {
    let seconds = sum.spent.as_secs_f64();
    let rate = if seconds > 0.0 { sum.tried as f64 / seconds } else { 0.0 };
    let (name, unit) = (part.name(), part.unit());
    format!("{name:<12} {:>10} {unit:<9} {rate:>9.1}/s {seconds:>7.0} s {:>3} found", sum.tried, sum.found)
}
