//! Jobs on many thousands of nodes and what they cost the service node, simulated: needs no machines, so no cluster is
//! built for it.

use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, run, target};

/// What the group is called.
pub(super) const NAME: &str = "crowd";

/// Prints the table.
///
/// # Errors
/// If the simulator does not build or run.
pub(super) fn show() -> Result<()> {
    run(&mut cargo(&["build", "--quiet", "--profile", "simulation", "--package", "coppice-simulator"]))?;
    run(Command::new(target().join("simulation/coppice-simulator")).arg("crowd"))
}
