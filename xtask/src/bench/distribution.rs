//! One file to many thousands of members, simulated: needs no machines, so no cluster is built for it.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, run, target};

/// What the group is called.
pub(super) const NAME: &str = "distribution";

/// Prints the table of docs/distribution.md, and draws its plot to a file, if one is named.
///
/// # Errors
/// If the simulator does not build or run.
pub(super) fn show(plot: Option<&Path>) -> Result<()> {
    run(&mut cargo(&["build", "--quiet", "--profile", "simulation", "--package", "coppice-simulator"]))?;
    let mut simulator = Command::new(target().join("simulation/coppice-simulator"));
    simulator.arg("distribution");
    if let Some(path) = plot {
        simulator.arg("--plot").arg(path);
    }
    run(&mut simulator)
}
