//! `cargo xtask mpich`: an MPICH that makes static programs, in `target/mpich`, or another [`Flavour`] of it.
//!
//! It is Debian's source, unmodified, configured for TCP connections between all ranks and nothing else: no shared
//! memory, no threads (but libfabric's, where that is below it), no topology library.

mod flavour;
pub(crate) mod suite;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

pub(crate) use self::flavour::Flavour;
use crate::debian::Source;
use crate::pmix;
use crate::recipe::Recipe;

/// Its source.
const SOURCE: Source = Source { title: "MPICH", package: "mpich", version: "4.0.2", packed: "tar.xz", patched: false };

/// What all are configured with. Everything a node does not have is left out rather than found missing: shared
/// libraries, shared memory, a topology, threads (which asynchronous I/O would start).
const OPTIONS: &[&str] = &[
    "--enable-static",
    "--disable-shared",
    "--disable-fortran",
    "--disable-cxx",
    "--without-hwloc",
    "--with-file-system=ufs",
    "--disable-aio",
    "--enable-fast=O2,ndebug",
];

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
    let mut options: Vec<String> = flavour.options().iter().map(ToString::to_string).collect();
    let mut from = vec![SOURCE.version.into()];
    if flavour == Flavour::Pmix {
        let pmix = pmix::ready()?;
        options.push(format!("--with-pmix={}", pmix.prefix.display()));
        options.push(format!("LDFLAGS=-L{}", pmix.prefix.join("lib").display()));
        from.push(pmix.stamp);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).chain(OPTIONS.iter().copied()).collect();
    from.insert(1, options.join(" "));
    let title = format!("MPICH {}{}", SOURCE.version, flavour.title());
    let recipe = Recipe { title, places: &[flavour.directory()], from };
    let prefix = recipe.ready(|build| {
        let source = build.unpack(&SOURCE)?;
        build.configure(&source, &options)?;
        build.make(&source, &[])?;
        build.install_whole(&source)
    })?;
    Ok(Mpich { flavour, prefix })
}

/// Builds it and says where it is.
///
/// # Errors
/// As [`ready_with`].
pub(crate) fn run(options: &Options) -> Result<()> {
    let mpich = ready_with(options.pmi)?;
    println!("MPICH {} is in {}", SOURCE.version, mpich.prefix.display());
    println!("{} -static -o program program.c", mpich.prefix.join("bin/mpicc").display());
    Ok(())
}
