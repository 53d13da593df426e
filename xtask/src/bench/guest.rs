//! The measuring programs of `tests/guests/c`, compiled statically.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::command::{command, root, run, target};

/// Compiles `tests/guests/c/NAME.c` and returns the program.
///
/// # Errors
/// If the compiler is missing or complains.
pub(crate) fn compile(name: &str) -> Result<PathBuf> {
    let directory = target().join("guests");
    std::fs::create_dir_all(&directory).context("cannot make a directory for guests")?;
    let output = directory.join(format!("{name}-bench"));
    let source = root().join("tests/guests/c").join(format!("{name}.c"));
    run(command("gcc", &["-O2", "-static", "-o"]).arg(&output).arg(source))?;
    Ok(output)
}

/// The number behind `name` in lines of `NAME NUMBER …`.
///
/// # Errors
/// If there is no such line.
pub(crate) fn number(output: &str, name: &str) -> Result<f64> {
    output
        .lines()
        .filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(' '))
        .find_map(|rest| rest.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("no line “{name} NUMBER” in: {output}"))
}
