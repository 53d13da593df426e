//! `cargo xtask simulate`: builds the simulator for speed, and has it try seeds.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::command::{cargo, run as execute, target};

/// What to simulate: given to the simulator as it is.
#[derive(Args)]
#[command(after_help = "\
Says how many seeds it tried, what happened in them and how fast. A seed that shows something that must not be ends \
it, with the end of what happened; `--seed N --trace` shows all of it. `cargo xtask simulate -- --help` has all \
options.")]
pub(crate) struct Options {
    /// Options of the simulator: --seed N, --seeds N, --for SECONDS, --nodes N, --pset-size N, --faulty SECONDS,
    /// --trace
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

/// Builds and runs it.
///
/// # Errors
/// If it does not build, or finds something.
pub(crate) fn run(options: &Options) -> Result<()> {
    execute(&mut cargo(&["build", "--quiet", "--profile", "simulation", "--package", "coppice-simulator"]))?;
    let mut command = Command::new(target().join("simulation/coppice-simulator"));
    command.arg("cluster").args(&options.options);
    execute(&mut command)
}
