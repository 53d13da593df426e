//! Builds the simulator from the copy of the tree and runs seeds until one fails.

use std::fs::File;
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use coppice_qemu::tether;

use super::copy::Copy;
use crate::command::cargo;

/// The profile it is built with: quick to build again.
const PROFILE: &str = "mutants";
/// How long a seed may take in the mean, and all of them at least: a fault may have something go on for ever.
const SEED_TIME_MAX: Duration = Duration::from_secs(5);
const ALL_TIME_MIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
/// What the line begins with in which the simulator says what it found.
const ERROR: &str = "Error: ";
/// What stands between the checker's name and the seed.
const SEED: &str = ": seed ";

/// The simulator of the copy.
pub(super) struct Simulator<'a> {
    pub(super) copy: &'a Copy,
    /// Seeds at a time.
    pub(super) threads: Option<NonZero<usize>>,
}

/// What came of a trial.
pub(super) enum Outcome {
    /// A seed failed.
    Failed(Found),
    /// None did.
    Held,
}

/// A failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Who found it.
    pub(super) checker: String,
    /// The first seed that shows it.
    pub(super) seed: u64,
}

impl Simulator<'_> {
    /// Builds it with what is in the copy, which has this name, and tries seeds from 0 on.
    ///
    /// # Errors
    /// It does not build; it ends in a way that says nothing, or not at all.
    pub(super) fn run(&self, name: &str, seeds: u64) -> Result<Outcome> {
        let log = self.copy.log(name);
        self.build(&log).with_context(|| format!("{name} cannot be built"))?;
        let program = self.copy.built().join(PROFILE).join("coppice-simulator");
        // It ends with this process, however that ends.
        let mut command = tether::command(program);
        command.args(["cluster", "--shrink", "0", "--seeds", &seeds.to_string()]);
        if let Some(threads) = self.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        let limit = ALL_TIME_MIN.max(SEED_TIME_MAX.saturating_mul(u32::try_from(seeds).unwrap_or(u32::MAX)));
        let status = run(&mut command, &log, limit)?;
        if status.success() {
            return Ok(Outcome::Held);
        }
        let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
        match text.lines().rev().find_map(found) {
            Some(found) => Ok(Outcome::Failed(found)),
            None => bail!("the simulator with {name} ended without a word ({status}); see {}", log.display()),
        }
    }

    fn build(&self, log: &Path) -> Result<()> {
        // By its lock it keeps the next build off until its compilers have ended, so it is not ended before them.
        let mut cargo = cargo(&["build", "--quiet", "--profile", PROFILE, "--package", "coppice-simulator"]);
        cargo.current_dir(self.copy.tree()).env("CARGO_TARGET_DIR", self.copy.built());
        if !run(&mut cargo, log, Duration::MAX)?.success() {
            bail!("see {}", log.display());
        }
        Ok(())
    }
}

/// What a line of the simulator's says about a failure, if it does.
fn found(line: &str) -> Option<Found> {
    let (checker, rest) = line.strip_prefix(ERROR)?.split_once(SEED)?;
    let seed = rest.split(' ').next()?.parse().ok()?;
    Some(Found { checker: checker.to_owned(), seed })
}

/// Runs a command, which writes to `log`, to its end.
fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<ExitStatus> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
    let mut child = child.context("cannot start a process")?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a process")? {
            return Ok(status);
        }
        if begin.elapsed() > limit {
            end(&mut child);
            bail!("no end after {} s; see {}", limit.as_secs(), log.display());
        }
        sleep(POLL);
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::{Found, found};

    #[test]
    fn what_the_simulator_says_is_understood() {
        let line = "Error: given up: seed 12 at 3 ns: Fabric is given up; again with: cluster --seed 12";
        assert_eq!(found(line), Some(Found { checker: "given up".into(), seed: 12 }));
        assert_eq!(found("Error: cannot read: no such file"), None);
        assert_eq!(found("seed 12 at 3 ns: Fabric is given up"), None);
    }
}
