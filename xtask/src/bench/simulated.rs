//! What thousands of nodes do, simulated: needs no machines, so no cluster is built for it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{cargo, run, target};

/// What the groups are called, and the simulator's commands: one file to many thousands of members, the start of a job
/// of a million ranks, what jobs on many thousands of nodes cost the service node, and their overlays.
pub(super) const NAMES: [&str; 4] = ["distribution", "startup", "crowd", "gathering"];

/// Those of them that can be drawn.
pub(super) const DRAWN: [&str; 2] = ["distribution", "startup"];

/// Prints the table of docs/distribution.md, docs/process-management.md, docs/simulation.md or docs/overlay.md, and
/// draws its plot to a file, if one is named.
///
/// # Errors
/// If a plot is wanted of what is not drawn, or the simulator does not build or run.
pub(super) fn show(name: &str, plot: Option<&Path>) -> Result<()> {
    if plot.is_some() && !DRAWN.contains(&name) {
        bail!("--plot is, of what is simulated, for {} alone", DRAWN.join(" and "));
    }
    run(&mut cargo(&["build", "--quiet", "--profile", "simulation", "--package", "coppice-simulator"]))?;
    let mut simulator = Command::new(target().join("simulation/coppice-simulator"));
    simulator.arg(name);
    if let Some(path) = plot {
        simulator.arg("--plot").arg(path);
    }
    run(&mut simulator)
}
