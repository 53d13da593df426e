//! The programs that try seeds by themselves: the simulator, and the changer of the protocols' inputs.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::child::{self, Ended};
use super::{Came, Part, Turn};
use crate::command::{cargo, run as execute, target};

/// Simulated seeds at a time: at its end the time is looked at.
const SEEDS: u64 = 8;
/// Longest such a run may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Simulated worlds of a kind.
pub(super) struct Simulator {
    program: PathBuf,
    name: &'static str,
    /// What the program calls it.
    world: &'static str,
}

/// Changed inputs.
pub(super) struct Fuzz(PathBuf);

fn built(package: &str) -> Result<PathBuf> {
    // With the checks of a debug build: overflow is something to find.
    execute(&mut cargo(&["build", "--quiet", "--package", package]))?;
    Ok(target().join("debug").join(package))
}

pub(super) fn simulators() -> Result<[Simulator; 2]> {
    let program = built("coppice-simulator")?;
    let of = |(name, world)| Simulator { program: program.clone(), name, world };
    Ok([("simulator", "sessions"), ("world", "cluster")].map(of))
}

pub(super) fn fuzz() -> Result<Fuzz> {
    built("coppice-fuzz").map(Fuzz)
}

impl Part for Simulator {
    fn name(&self) -> &'static str {
        self.name
    }

    fn unit(&self) -> &'static str {
        "seeds"
    }

    fn needs(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn take(&mut self, turn: &Turn<'_>) -> Result<Came> {
        let mut came = Came::default();
        let mut seed = turn.seed;
        while Instant::now() < turn.end {
            let mut command = Command::new(&self.program);
            command.args([self.world, "--seed", &seed.to_string(), "--seeds", &SEEDS.to_string()]);
            let ran = child::run(command, &format!("{}-{seed}", self.name), LIMIT, turn)?;
            match ran.ended {
                Ended::Well => came.tried += SEEDS,
                Ended::Interrupted => break,
                Ended::Badly | Ended::Late => {
                    came.found.push(format!(
                        "seeds {seed} and on: cargo run -p coppice-simulator -- {} --seed SEED{}",
                        self.world,
                        ran.tail()
                    ));
                }
            }
            seed = seed.wrapping_add(SEEDS);
        }
        Ok(came)
    }
}

impl Part for Fuzz {
    fn name(&self) -> &'static str {
        "fuzz"
    }

    fn unit(&self) -> &'static str {
        "inputs"
    }

    fn needs(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn take(&mut self, turn: &Turn<'_>) -> Result<Came> {
        let mut came = Came::default();
        let seconds = turn.end.saturating_duration_since(Instant::now()).as_secs().max(1);
        let mut command = Command::new(&self.0);
        command.args(["--seconds", &seconds.to_string(), "--seed", &turn.seed.to_string()]);
        let limit = Duration::from_secs(seconds) + LIMIT;
        let ran = child::run(command, &format!("fuzz-{}", turn.seed), limit, turn)?;
        match ran.ended {
            Ended::Well => {
                // Lines such as "control: 1000 inputs, 30 kinds".
                let words = ran.text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
                came.tried = words.sum();
            }
            Ended::Interrupted => {}
            Ended::Badly | Ended::Late => came.found.push(ran.tail()),
        }
        Ok(came)
    }
}
