//! `cargo xtask openmpi`: an Open MPI that makes static programs, in `target/openmpi`.
//!
//! It is Debian's source, unmodified, over the OpenPMIx of [`pmix`]: messages go over TCP, or through memory between
//! ranks of one node, and all components are built in. Only what nodes need is: it is built by `cargo xtask test`, too.

use std::path::PathBuf;

use anyhow::Result;

use crate::debian::Source;
use crate::pmix;
use crate::recipe::Recipe;

const SOURCE: Source =
    Source { title: "Open MPI", package: "openmpi", version: "4.1.4", packed: "tar.xz", patched: false };

/// What it is configured with. What a node does not have is left out rather than found missing, so that it is left out
/// wherever this is built.
const OPTIONS: &[&str] = &[
    "--enable-static",
    "--disable-shared",
    "--disable-dependency-tracking",
    "--disable-dlopen",
    // Languages and interfaces.
    "--disable-mpi-fortran",
    "--disable-mpi-java",
    "--disable-oshmem",
    // MPI-IO is ompio's, to plain files.
    "--disable-io-romio",
    "--disable-libompitrace",
    "--disable-getpwuid",
    "--disable-per-user-config-files",
    // It would write into the program's code.
    "--without-memory-manager",
    // Other networks, and memory of other processes.
    "--without-verbs",
    "--without-ucx",
    "--without-ofi",
    "--without-psm",
    "--without-psm2",
    "--without-mxm",
    "--without-portals4",
    "--without-hcoll",
    "--without-fca",
    "--without-libnl",
    "--without-cma",
    "--without-xpmem",
    "--without-knem",
    "--without-cuda",
    // Other file systems.
    "--without-lustre",
    "--without-pvfs2",
    "--without-gpfs",
    // Other starters.
    "--without-slurm",
    "--without-alps",
    "--without-tm",
    "--without-lsf",
    "--without-sge",
    "--without-moab",
    "--without-singularity",
    "--without-flux-pmi",
    "--without-zlib",
    "--enable-mpi-ext=",
    "CFLAGS=-O1",
];

/// Components that are not built, though they could be: each is one more way to do what another of its kind does here,
/// watches, or is for starters that nodes do not have. What nodes need, and `mpirun` on one host, stays.
const NOT_BUILT: &[&str] = &[
    // Other ways to messages, and what stands between.
    "mtl",
    "pml-cm",
    "pml-crcpw",
    "pml-v",
    "vprotocol",
    "btl-sm",
    "pml-monitoring",
    "coll-monitoring",
    "osc-monitoring",
    "common-monitoring",
    // Collective operations that are not chosen unless they are asked for, and for memory that ranks share.
    "coll-adapt",
    "coll-han",
    "coll-spacc",
    "coll-sync",
    "coll-sm",
    "op-avx",
    "topo-treematch",
    // Of MPI-IO, one way to write what is collected, and no shared file pointers, which need locks.
    "fcoll-dynamic",
    "fcoll-dynamic_gen2",
    "fcoll-two_phase",
    "sharedfp-lockedfile",
    "sharedfp-sm",
    // Checkpoints of its own.
    "crcp",
    "crs",
    "snapc",
    "sstore",
    "compress",
    "memchecker",
    "mpool-hugepage",
    "mpool-memkind",
    // Other starters and ways to place and reach what they start.
    "errmgr-dvm",
    "ess-slurm",
    "filem",
    "odls-pspawn",
    "oob-ud",
    "plm-isolated",
    "plm-slurm",
    "ras-simulator",
    "ras-slurm",
    "regx-naive",
    "regx-reverse",
    "rmaps-mindist",
    "rmaps-ppr",
    "rmaps-rank_file",
    "rmaps-resilient",
    "rmaps-seq",
    "rtc",
    "schizo-flux",
    "schizo-moab",
    "schizo-singularity",
    "schizo-slurm",
    "state-dvm",
    "state-novm",
];

/// An Open MPI that is built and in its place.
pub(crate) struct OpenMpi {
    /// Where `bin/mpicc`, `bin/mpirun`, `lib` and `include` are.
    pub(crate) prefix: PathBuf,
}

/// Builds it and the OpenPMIx below it, unless they are there.
///
/// # Errors
/// If the source cannot be had, or does not build; says where the log of it lies.
pub(crate) fn ready() -> Result<OpenMpi> {
    let pmix = pmix::ready()?;
    let not_built = format!("--enable-mca-no-build={}", NOT_BUILT.join(","));
    let recipe = Recipe {
        title: format!("Open MPI {}", SOURCE.version),
        places: &["openmpi"],
        from: vec![SOURCE.version.into(), OPTIONS.join(" "), not_built.clone(), pmix.stamp],
    };
    let prefix = recipe.ready(|build| {
        let source = build.unpack(&SOURCE)?;
        let with = ["pmix", "libevent", "hwloc"].map(|what| format!("--with-{what}={}", pmix.prefix.display()));
        let with: Vec<&str> = with.iter().map(String::as_str).collect();
        build.configure(&source, &[OPTIONS, &[not_built.as_str()], &with].concat())?;
        build.make(&source, &[])?;
        build.install_whole(&source)
    })?;
    Ok(OpenMpi { prefix })
}

/// Builds it and says where it is.
///
/// # Errors
/// As [`ready`].
pub(crate) fn run() -> Result<()> {
    let openmpi = ready()?;
    println!("Open MPI {} is in {}, with OpenPMIx {}", SOURCE.version, openmpi.prefix.display(), pmix::VERSION);
    println!("{} -static -o program program.c", openmpi.prefix.join("bin/mpicc").display());
    Ok(())
}
