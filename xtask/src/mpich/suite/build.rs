//! MPICH's test programs, built statically with its compiler.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::DIRECTORIES;
use crate::command::{command, run_logged, target};
use crate::debian::unpack;
use crate::mpich::{Mpich, SOURCE};
use crate::recipe::{read_stamp, remove};

/// What the programs are configured with: only what MPICH here has.
const OPTIONS: &[&str] = &["--disable-fortran", "--disable-cxx", "--disable-rma"];

/// Names what the programs were built with.
const STAMP: &str = "coppice-stamp";

/// Builds these programs (`DIRECTORY/PROGRAM`), or all, and returns the directory above theirs.
///
/// # Errors
/// If a step fails; names its log.
pub(super) fn programs(mpich: &Mpich, wanted: Option<&BTreeSet<&str>>) -> Result<PathBuf> {
    let directory = target().join(format!("{}-tests", mpich.flavour.directory()));
    let configured = directory.join(STAMP);
    let stamp = read_stamp(&mpich.prefix).context("no stamp in MPICH's directory; remove it from target")?;
    let stamp = format!("{stamp}{}\n", OPTIONS.join(" "));
    let log = directory.with_extension("log");
    if std::fs::read_to_string(&configured).ok().as_deref() != Some(&stamp) {
        eprintln!("== MPICH's test programs: configuring; log: {}", log.display());
        remove(&directory)?;
        let top = format!("mpich-{}", SOURCE.version);
        unpack(&SOURCE.archive()?, &directory, &[format!("{top}/test/mpi")])?;
        let tests = directory.join("test/mpi");
        let mut configure = command("./configure", OPTIONS);
        configure.arg(format!("--with-mpi={}", mpich.prefix.display())).current_dir(&tests);
        run_logged(&mut configure, &log)?;
        make(&tests.join("dtpools"), &[], &log)?;
        make(&tests.join("util"), &[], &log)?;
        std::fs::write(&configured, stamp).context("cannot write the stamp of MPICH's test programs")?;
    }
    let tests = directory.join("test/mpi");
    eprintln!("== MPICH's test programs: building; log: {}", log.display());
    for directory in DIRECTORIES {
        let prefix = format!("{directory}/");
        let names: Option<Vec<&str>> =
            wanted.map(|names| names.iter().filter_map(|name| name.strip_prefix(&prefix)).collect());
        match names {
            Some(names) if names.is_empty() => {}
            Some(names) => make(&tests.join(directory), &names, &log)?,
            None => make(&tests.join(directory), &[], &log)?,
        }
    }
    Ok(tests)
}

/// Runs make for these targets, or all. What is built already is left alone.
fn make(directory: &Path, targets: &[&str], log: &Path) -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // `-all-static` is libtool's; `-s` leaves out symbols nobody reads here, which are most of 700 MB.
    let mut make = command("make", &["-j", &jobs.to_string(), "LDFLAGS=-all-static -s"]);
    run_logged(make.args(targets).current_dir(directory), log)
}
