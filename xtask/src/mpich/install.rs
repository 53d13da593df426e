//! From MPICH's source to `target/mpich`.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Flavour, VERSION};
use crate::command::{command, run_logged, target};

/// What all are configured with. Everything a node does not have is left out rather than found missing: shared
/// libraries, shared memory, a topology, threads (which asynchronous I/O would start).
const OPTIONS: &[&str] = &[
    "--with-device=ch3:sock",
    "--enable-static",
    "--disable-shared",
    "--disable-fortran",
    "--disable-cxx",
    "--without-hwloc",
    "--with-file-system=ufs",
    "--disable-aio",
    "--enable-fast=O2,ndebug",
];

/// Names what an installation was made from.
const STAMP: &str = "coppice-stamp";

/// Whether this MPICH is in its place.
pub(super) fn is_done(flavour: Flavour, prefix: &Path) -> bool {
    std::fs::read_to_string(prefix.join(STAMP)).is_ok_and(|found| found == stamp(flavour, prefix))
}

/// All that it is configured with but its place.
fn options(flavour: Flavour) -> Vec<&'static str> {
    [OPTIONS, flavour.options()].concat()
}

/// What the installation at `prefix` should be made from. MPICH's scripts have their place written into them, so that
/// is part of it.
pub(super) fn stamp(flavour: Flavour, prefix: &Path) -> String {
    format!("{VERSION}\n{}\n{}\n", options(flavour).join(" "), prefix.display())
}

/// Builds the source and puts the result in place whole.
///
/// # Errors
/// If a step fails; names its log.
pub(super) fn install(flavour: Flavour, archive: &Path, prefix: &Path) -> Result<()> {
    let build = target().join("mpich-build");
    remove(&build)?;
    let source = build.join("source");
    unpack(archive, &source, &[])?;
    let log = build.join("build.log");
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let name = flavour.directory();
    eprintln!("== MPICH {VERSION} ({name}): configuring and building, some minutes; log: {}", log.display());
    let mut configure = command("./configure", &options(flavour));
    configure.arg("--prefix").arg(prefix);
    // Into a directory beside its place: one that is in place is complete.
    let staged = build.canonicalize()?.join("staged");
    let mut destination = std::ffi::OsString::from("DESTDIR=");
    destination.push(&staged);
    let mut install = command("make", &["install"]);
    install.arg(destination);
    for step in [&mut configure, &mut command("make", &["-j", &jobs.to_string()]), &mut install] {
        run_logged(step.current_dir(&source), &log)?;
    }
    let made = staged.join(prefix.strip_prefix("/").unwrap_or(prefix));
    std::fs::write(made.join(STAMP), stamp(flavour, prefix)).context("make install left no directory")?;
    remove(prefix)?;
    std::fs::rename(&made, prefix).with_context(|| format!("cannot move MPICH to {}", prefix.display()))?;
    remove(&build)
}

/// Unpacks these directories of the source, or all of it, into a new directory.
///
/// # Errors
/// If there is no room or the archive is broken.
pub(super) fn unpack(archive: &Path, directory: &Path, members: &[String]) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let log = directory.with_extension("unpack.log");
    let mut tar = command("tar", &["--strip-components=1", "-xf"]);
    run_logged(tar.arg(archive).arg("-C").arg(directory).args(members), &log)
}

/// Removes a directory, if it is there.
///
/// # Errors
/// If it cannot be removed.
pub(super) fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}
