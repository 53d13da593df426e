//! `cargo xtask mpich`: an MPICH that makes static programs, in `target/mpich`.
//!
//! It is Debian's source, unmodified, configured for TCP sockets between all ranks and nothing else: no shared memory,
//! no threads of its own, no topology library. What it was built from and how is written beside it; a build with
//! another version, other options or another place is made anew, any other call does nothing.

mod install;
mod source;
pub(crate) mod suite;

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result};

pub(crate) use source::VERSION;

use crate::command::target;

/// An MPICH that is built and in its place.
pub(crate) struct Mpich {
    /// Where `bin/mpicc`, `bin/mpiexec`, `lib` and `include` are.
    pub(crate) prefix: PathBuf,
}

/// Builds it, unless it is there.
///
/// # Errors
/// If the source cannot be had, or does not build; says where the log of it lies.
pub(crate) fn ready() -> Result<Mpich> {
    let target = target();
    std::fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    let prefix = target.canonicalize()?.join("mpich");
    // Two builds at once wait for each other here; the lock ends with the file.
    let lock = File::create(target.join("mpich.lock")).context("cannot make the lock of MPICH's build")?;
    lock.lock().context("cannot wait for another build of MPICH")?;
    if !install::is_done(&prefix) {
        let archive = source::archive()?;
        install::install(&archive, &prefix)?;
    }
    Ok(Mpich { prefix })
}

/// Builds it and says where it is.
///
/// # Errors
/// As [`ready`].
pub(crate) fn run() -> Result<()> {
    let mpich = ready()?;
    println!("MPICH {VERSION} is in {}", mpich.prefix.display());
    println!("{} -static -o program program.c", mpich.prefix.join("bin/mpicc").display());
    Ok(())
}
