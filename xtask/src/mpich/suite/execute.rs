//! Running one of MPICH's test programs, on nodes or on this host.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};

use super::cases::Case;
use super::{IO, SPAWN};
use crate::bench::cluster::Cluster;
use crate::build::Built;

/// Memory of a node: some of the programs send messages of hundreds of megabytes.
const MEMORY: &str = "1G";

/// MPICH's time limits are for processors; these nodes are emulated, many on one host.
const TIME_FACTOR: u32 = 5;

/// What became of a program.
pub(super) enum Outcome {
    Passed,
    /// Why not, in one line.
    Failed(String),
}

/// Where programs are run.
pub(super) struct Runner {
    place: Place,
    programs: PathBuf,
}

enum Place {
    Nodes { cluster: Cluster, ranks_per_node: u32 },
    Native { mpiexec: PathBuf },
}

impl Runner {
    /// On the nodes of a new cluster.
    ///
    /// # Errors
    /// If it does not come up.
    pub(super) fn nodes(
        built: &Built,
        nodes: u32,
        ranks_per_node: u32,
        arguments: &[String],
        programs: &Path,
    ) -> Result<Self> {
        let nodes = nodes.to_string();
        let mut up = vec!["--nodes", &nodes, "--memory", MEMORY];
        up.extend(arguments.iter().map(String::as_str));
        let cluster = Cluster::up(built, &up)?;
        Ok(Self { place: Place::Nodes { cluster, ranks_per_node }, programs: programs.into() })
    }

    /// On this host, under MPICH's mpiexec.
    pub(super) fn native(mpiexec: PathBuf, programs: &Path) -> Self {
        Self { place: Place::Native { mpiexec }, programs: programs.into() }
    }

    /// What the table calls it.
    pub(super) fn name(&self) -> &'static str {
        match self.place {
            Place::Nodes { .. } => "nodes",
            Place::Native { .. } => "native",
        }
    }

    /// Runs a program to its end.
    pub(super) fn run(&self, case: &Case) -> Outcome {
        let mut command = self.command(case);
        if case.is_in(IO) {
            command.arg(&case.program);
        } else {
            command.arg(self.programs.join(&case.program));
        }
        command.args(&case.arguments);
        match command.output().context("cannot start it") {
            Ok(output) => judge(&output),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }

    fn command(&self, case: &Case) -> Command {
        let ranks = case.ranks.to_string();
        match &self.place {
            Place::Nodes { cluster, ranks_per_node } => {
                let seconds = (case.time_max * TIME_FACTOR).as_secs().to_string();
                let per_node = ranks_per_node.to_string();
                let mut arguments = vec!["run", "--quiet", "--timeout", &seconds, "-n", &ranks];
                if *ranks_per_node > 1 {
                    arguments.extend(["--ranks-per-node", &per_node]);
                }
                case.environment.iter().for_each(|pair| arguments.extend(["--env", pair]));
                let mut command = cluster.command(&arguments);
                if case.is_in(IO) {
                    command.arg("--root").arg(&self.programs).current_dir(&self.programs);
                } else if case.is_in(SPAWN) {
                    // They name the directory above theirs, too, and cannot do that of the root.
                    let above = self.programs.parent().unwrap_or(&self.programs);
                    let beside = self.programs.strip_prefix(above).unwrap_or(&self.programs).join(SPAWN);
                    command.arg("--root").arg(above).arg("--cwd").arg(beside);
                }
                command
            }
            Place::Native { mpiexec } => {
                let seconds = case.time_max.as_secs().to_string();
                let mut command = Command::new(mpiexec);
                command.args(["-n", &ranks]).env("MPIEXEC_TIMEOUT", &seconds);
                command.envs(case.environment.iter().filter_map(|pair| pair.split_once('=')));
                let beside = if case.is_in(SPAWN) { SPAWN } else { "." };
                command.current_dir(self.programs.join(beside));
                command
            }
        }
    }
}

/// As MPICH's runner judges: status 0, and “No Errors” or “Test passed” on a line.
fn judge(output: &Output) -> Outcome {
    let text = String::from_utf8_lossy(&output.stdout);
    let good = |line: &str| {
        let line = line.trim().to_ascii_lowercase();
        line == "no errors" || line == "test passed"
    };
    if output.status.success() && text.lines().any(good) {
        return Outcome::Passed;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = errors.lines().chain(text.lines()).map(str::trim).find(|line| !line.is_empty());
    Outcome::Failed(format!("{}: {}", output.status, said.unwrap_or("said nothing")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, Output};

    use super::{Outcome, judge};

    #[test]
    fn a_program_that_says_nothing_has_failed() {
        let output = |status: i32, text: &str| Output {
            status: ExitStatus::from_raw(status),
            stdout: text.as_bytes().to_vec(),
            stderr: Vec::new(),
        };
        assert!(matches!(judge(&output(0, "some\n No Errors\n")), Outcome::Passed));
        assert!(matches!(judge(&output(0, "")), Outcome::Failed(_)));
        assert!(matches!(judge(&output(256, " No Errors\n")), Outcome::Failed(_)));
        assert!(matches!(judge(&output(0, "Found 3 errors\n")), Outcome::Failed(_)));
    }
}
