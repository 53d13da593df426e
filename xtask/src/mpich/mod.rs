//! `cargo xtask mpich`: an MPICH that makes static programs, in `target/mpich`, or another [`Flavour`] of it.
//!
//! It is Debian's source, unmodified, configured for TCP connections between all ranks and nothing else: no shared
//! memory, no threads (but libfabric's, where that is below it), no topology library.

mod again;
mod flavour;
pub(crate) mod suite;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use self::again::Headers;
pub(crate) use self::flavour::Flavour;
use crate::debian::Source;
use crate::pmix;
use crate::recipe::{Recipe, remove};

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
    let prefix = match flavour {
        Flavour::Pmi1 | Flavour::Pmi2 => simple()?.with_file_name(flavour.directory()),
        Flavour::Pmix => with_pmix()?,
    };
    Ok(Mpich { flavour, prefix })
}

/// The two with a client of their own, of which the second takes a minute when the first is there. Returns the prefix
/// of the first.
fn simple() -> Result<PathBuf> {
    let both = [Flavour::Pmi1, Flavour::Pmi2];
    let options = both.map(|flavour| [flavour.options(), OPTIONS].concat());
    let mut from = vec![SOURCE.version.into()];
    from.extend(options.iter().map(|options| options.join(" ")));
    let recipe = Recipe { title: format!("MPICH {}", SOURCE.version), places: &both.map(Flavour::directory), from };
    recipe.ready(|build| {
        let source = build.unpack(&SOURCE)?;
        // It would be configured each time, too, which takes a third of that.
        remove(&source.join("test/mpi"))?;
        build.configure(&source, &options[0])?;
        build.make(&source, &[])?;
        build.install_whole(&source)?;
        let headers = Headers::of(&source)?;
        let second = build.beside(both[1].directory());
        second.configure(&source, &options[1])?;
        headers.restore()?;
        second.make(&source, &[])?;
        second.install_whole(&source)
    })
}

/// The one with OpenPMIx's client.
fn with_pmix() -> Result<PathBuf> {
    let flavour = Flavour::Pmix;
    let pmix = pmix::ready()?;
    let places = [format!("--with-pmix={}", pmix.prefix.display()), format!("LDFLAGS=-L{}/lib", pmix.prefix.display())];
    let options = [flavour.options(), &places.each_ref().map(String::as_str), OPTIONS].concat();
    let title = format!("MPICH {} for PMIx", SOURCE.version);
    let from = vec![SOURCE.version.into(), options.join(" "), pmix.stamp];
    let recipe = Recipe { title, places: &[flavour.directory()], from };
    recipe.ready(|build| {
        let source = build.unpack(&SOURCE)?;
        build.configure(&source, &options)?;
        build.make(&source, &[])?;
        build.install_whole(&source)
    })
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
