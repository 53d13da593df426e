//! `cargo xtask pmix`: a static OpenPMIx, with what it is made of, in `target/pmix`, and its own tests in
//! `target/pmix-tests`.
//!
//! They are Debian's sources. OpenPMIx is made with libevent and with an hwloc that looks at nothing but `/sys` and
//! `/proc`; all components are built in, nothing is loaded at run time, and nothing is compressed.

mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::command;
use crate::debian::Source;
use crate::recipe::{Build, Recipe, read_stamp, remove};

/// Version of OpenPMIx.
pub(crate) const VERSION: &str = PMIX.version;

const PMIX: Source = Source {
    title: "OpenPMIx",
    package: "pmix",
    version: "4.2.2",
    packed: "tar.xz",
    // The original lacks an #include.
    patched: true,
};

const PMIX_OPTIONS: &[&str] = &[
    "--enable-static",
    "--disable-shared",
    "--disable-dependency-tracking",
    "--disable-dlopen",
    // Its tests use what is internal.
    "--disable-visibility",
    "--disable-per-user-config-files",
    "--with-tests-examples=no",
    "--with-zlib=no",
    "--with-munge=no",
    "--with-curl=no",
    "--with-jansson=no",
    "--without-slurm",
    "--without-libltdl",
    "--without-libev",
    "CFLAGS=-O2",
];

const HWLOC: Source = Source { title: "hwloc", package: "hwloc", version: "2.9.0", packed: "tar.bz2", patched: false };

const HWLOC_OPTIONS: &[&str] = &[
    "--enable-static",
    "--disable-shared",
    "--disable-dependency-tracking",
    "--disable-plugins",
    "--disable-io",
    "--disable-pci",
    "--disable-libudev",
    "--disable-opencl",
    "--disable-cuda",
    "--disable-nvml",
    "--disable-rsmi",
    "--disable-levelzero",
    "--disable-gl",
    "--disable-libxml2",
    "--disable-cairo",
    "--without-x",
    "CFLAGS=-O2",
];

const LIBEVENT: Source =
    Source { title: "libevent", package: "libevent", version: "2.1.12-stable", packed: "tar.gz", patched: false };

const LIBEVENT_OPTIONS: &[&str] = &[
    "--enable-static",
    "--disable-shared",
    "--disable-dependency-tracking",
    "--disable-openssl",
    "--disable-samples",
    "--disable-libevent-regress",
    "CFLAGS=-O2",
];

/// An OpenPMIx that is built and in its place.
pub(crate) struct Pmix {
    /// Where `lib`, `include` and `bin` are; libevent's and hwloc's are in the same.
    pub(crate) prefix: PathBuf,
    /// What it was made from.
    pub(crate) stamp: String,
    /// Where its tests are.
    tests: PathBuf,
}

/// Builds it, unless it is there.
///
/// # Errors
/// If the source cannot be had, or does not build; says where the log of it lies.
pub(crate) fn ready() -> Result<Pmix> {
    let mut from = Vec::new();
    for (source, options) in [(LIBEVENT, LIBEVENT_OPTIONS), (HWLOC, HWLOC_OPTIONS), (PMIX, PMIX_OPTIONS)] {
        from.extend([source.version.to_string(), options.join(" ")]);
    }
    from.push(tests::names());
    let recipe = Recipe { title: format!("OpenPMIx {VERSION}"), places: &["pmix", tests::PLACE], from };
    let prefix = recipe.ready(build)?;
    let stamp = read_stamp(&prefix).unwrap_or_default();
    let tests = prefix.with_file_name(tests::PLACE);
    Ok(Pmix { prefix, stamp, tests })
}

/// Builds it and says where it is.
///
/// # Errors
/// As [`ready`].
pub(crate) fn run() -> Result<()> {
    let pmix = ready()?;
    println!("OpenPMIx {VERSION} is in {}", pmix.prefix.display());
    println!("with libevent {} and hwloc {}", LIBEVENT.version, HWLOC.version);
    println!("its tests are in {}", pmix.tests.display());
    Ok(())
}

/// One after the other into the same prefix: each finds those before it there.
fn build(build: &Build) -> Result<()> {
    // What cannot be fetched is known at once.
    for source in [LIBEVENT, HWLOC, PMIX] {
        source.archive()?;
    }
    remove(&build.prefix)?;
    let source = build.unpack(&LIBEVENT)?;
    build.configure(&source, LIBEVENT_OPTIONS)?;
    build.make(&source, &[])?;
    build.make(&source, &["install"])?;

    let source = build.unpack(&HWLOC)?;
    build.configure(&source, HWLOC_OPTIONS)?;
    // The library, not its programs.
    build.make(&source, &["SUBDIRS=include hwloc"])?;
    build.make(&source, &["SUBDIRS=include hwloc", "install"])?;

    let source = build.unpack(&PMIX)?;
    build.step(command("./autogen.pl", &[]).current_dir(&source))?;
    let prefix = build.prefix.display();
    let (libevent, hwloc) = (format!("--with-libevent={prefix}"), format!("--with-hwloc={prefix}"));
    build.configure(&source, &[PMIX_OPTIONS, &[&libevent, &hwloc]].concat())?;
    build.make(&source, &[])?;
    build.make(&source, &["install"])?;
    settings(&build.prefix)?;
    tests::build(build, &source)
}

/// Has servers of this host not say that nothing is compressed.
fn settings(prefix: &Path) -> Result<()> {
    let file = prefix.join("etc/pmix-mca-params.conf");
    std::fs::write(&file, "pcompress_base_silence_warning = 1\n")
        .with_context(|| format!("cannot write {}", file.display()))
}
