//! `cargo xtask mpich`: an MPICH that makes static programs, in `target/mpich`.
//!
//! It is Debian's source, unmodified, configured for TCP sockets between all ranks and nothing else: no shared memory,
//! no threads of its own, no topology library.

pub(crate) mod suite;

use std::path::PathBuf;

use anyhow::Result;

use crate::debian::Source;
use crate::recipe::Recipe;

/// Its source.
const SOURCE: Source = Source { title: "MPICH", package: "mpich", version: "4.0.2", packed: "tar.xz", patched: false };

/// What it is configured with. Everything a node does not have is left out rather than found missing: shared
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
    let recipe = Recipe {
        title: format!("MPICH {}", SOURCE.version),
        places: &["mpich"],
        from: vec![SOURCE.version.into(), OPTIONS.join(" ")],
    };
    let prefix = recipe.ready(|build| {
        let source = build.unpack(&SOURCE)?;
        build.configure(&source, OPTIONS)?;
        build.make(&source, &[])?;
        build.install_whole(&source)
    })?;
    Ok(Mpich { prefix })
}

/// Builds it and says where it is.
///
/// # Errors
/// As [`ready`].
pub(crate) fn run() -> Result<()> {
    let mpich = ready()?;
    println!("MPICH {} is in {}", SOURCE.version, mpich.prefix.display());
    println!("{} -static -o program program.c", mpich.prefix.join("bin/mpicc").display());
    Ok(())
}
