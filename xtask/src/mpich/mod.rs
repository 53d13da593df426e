//! `cargo xtask mpich`: an MPICH that makes static programs, in `target/mpich`, or another [`Flavour`] of it.
//!
//! It is Debian's source, unmodified, configured for TCP sockets between all ranks and nothing else: no shared memory,
//! no threads of its own, no topology library. What it was built from and how is written beside it; a build with
//! another version, other options or another place is made anew, any other call does nothing.

mod flavour;
mod install;
mod source;
pub(crate) mod suite;

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

pub(crate) use flavour::Flavour;
pub(crate) use source::VERSION;

use crate::command::target;

/// What to build.
#[derive(Args)]
pub(crate) struct Options {
    /// What its programs speak with whoever starts them
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = Flavour::Pmi1)]
    pmi: Flavour,
}

/// An MPICH that is built and in its place.
pub(crate) struct Mpich {
    /// Which one.
    flavour: Flavour,
    /// Where `bin/mpicc`, `bin/mpiexec`, `lib` and `include` are.
    pub(crate) prefix: PathBuf,
}

/// Builds the one that everything uses that does not care, unless it is there.
///
/// # Errors
/// As [`ready_with`].
pub(crate) fn ready() -> Result<Mpich> {
    ready_with(Flavour::Pmi1)
}

/// Builds one, unless it is there.
///
/// # Errors
/// If the source cannot be had, or does not build; says where the log of it lies.
pub(crate) fn ready_with(flavour: Flavour) -> Result<Mpich> {
    let target = target();
    std::fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    let prefix = target.canonicalize()?.join(flavour.directory());
    // Two builds at once wait for each other here; the lock ends with the file.
    let lock = File::create(target.join("mpich.lock")).context("cannot make the lock of MPICH's build")?;
    lock.lock().context("cannot wait for another build of MPICH")?;
    if !install::is_done(flavour, &prefix) {
        let archive = source::archive()?;
        install::install(flavour, &archive, &prefix)?;
    }
    Ok(Mpich { flavour, prefix })
}

/// Builds it and says where it is.
///
/// # Errors
/// As [`ready_with`].
pub(crate) fn run(options: &Options) -> Result<()> {
    let mpich = ready_with(options.pmi)?;
    println!("MPICH {VERSION} is in {}", mpich.prefix.display());
    println!("{} -static -o program program.c", mpich.prefix.join("bin/mpicc").display());
    Ok(())
}
