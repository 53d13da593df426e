//! The measuring programs of `tests/guests/c`, compiled statically.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, root, run, run_logged, target};

/// Compiles `tests/guests/c/NAME.c` and returns the program.
///
/// # Errors
/// If the compiler is missing or complains.
pub(crate) fn compile(name: &str) -> Result<PathBuf> {
    compile_with("gcc", name, &format!("{name}-bench"), &[])
}

/// Compiles `tests/guests/c/NAME.c` with that compiler and these options, as `output`, and returns the program.
///
/// # Errors
/// If the compiler is missing or complains.
pub(crate) fn compile_with(compiler: &str, name: &str, output: &str, options: &[String]) -> Result<PathBuf> {
    let directory = target().join("guests");
    std::fs::create_dir_all(&directory).context("cannot make a directory for guests")?;
    let output = directory.join(output);
    let source = root().join("tests/guests/c").join(format!("{name}.c"));
    run(command(compiler, &["-O2", "-Wall", "-static", "-o"]).arg(&output).args(options).arg(source))?;
    Ok(output)
}

/// Compiles `tests/guests/mpi/NAME.c` with our MPICH and returns the program.
///
/// # Errors
/// If MPICH cannot be built or its compiler complains.
pub(crate) fn compile_mpi(name: &str) -> Result<PathBuf> {
    compile_mpi_with(&crate::mpich::ready()?.prefix, name, &format!("{name}-bench"))
}

/// Compiles `tests/guests/mpi/NAME.c` with the MPI in that directory, as `output`, and returns the program.
///
/// # Errors
/// If its compiler complains.
pub(crate) fn compile_mpi_with(mpi: &Path, name: &str, output: &str) -> Result<PathBuf> {
    let source = root().join("tests/guests/mpi").join(format!("{name}.c"));
    linked(&mpi.join("bin/mpicc").to_string_lossy(), &source, output, &[])
}

/// Compiles `tests/guests/pmix/NAME.c` with our OpenPMIx and returns the program.
///
/// # Errors
/// If OpenPMIx cannot be built or the compiler complains.
pub(crate) fn compile_pmix(name: &str) -> Result<PathBuf> {
    let prefix = crate::pmix::ready()?.prefix;
    let (include, library) = (format!("-I{}/include", prefix.display()), format!("-L{}/lib", prefix.display()));
    let source = root().join("tests/guests/pmix").join(format!("{name}.c"));
    let below = ["-lpmix", "-lhwloc", "-levent_pthreads", "-levent_core", "-lm", "-lpthread"];
    linked("gcc", &source, &format!("{name}-bench"), &[&[include.as_str(), &library][..], &below].concat())
}

/// Compiles a source to a static program in the directory of guests; a log has what was said.
fn linked(compiler: &str, source: &Path, output: &str, options: &[&str]) -> Result<PathBuf> {
    let directory = target().join("guests");
    std::fs::create_dir_all(&directory).context("cannot make a directory for guests")?;
    let log = directory.join(format!("{output}.log"));
    let output = directory.join(output);
    let mut compiler = command(compiler, &["-O2", "-Wall", "-static", "-o"]);
    run_logged(compiler.arg(&output).arg(source).args(options), &log)?;
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
