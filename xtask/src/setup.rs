//! What a fresh machine lacks: rustup targets, and Debian packages when we may install them.

use std::path::Path;

use anyhow::{Result, bail};

use crate::command::{command, output, run};
use crate::prometheus;

/// Targets of the node's code and of the static Rust test programs.
const TARGETS: &[&str] = &["x86_64-unknown-none", "x86_64-unknown-linux-musl"];

/// A program we call and the Debian package that brings it.
struct Package {
    program: &'static str,
    name: &'static str,
}

const FOR_RUN: &[Package] = &[
    Package { program: "/usr/bin/qemu-system-x86_64", name: "qemu-system-x86" },
    Package { program: "/bin/busybox", name: "busybox-static" },
];

const FOR_TESTS: &[Package] = &[
    Package { program: "/usr/bin/gcc", name: "gcc" },
    Package { program: "/usr/lib/x86_64-linux-gnu/libc.a", name: "libc6-dev" },
    Package { program: "/usr/bin/g++", name: "g++" },
    Package { program: "/usr/bin/musl-gcc", name: "musl-tools" },
    Package { program: "/usr/lib/x86_64-linux-gnu/libsqlite3.a", name: "libsqlite3-dev" },
    Package { program: "/usr/bin/strace", name: "strace" },
    Package { program: "/usr/bin/gdb", name: "gdb" },
    Package { program: "/usr/bin/tmux", name: "tmux" },
    Package { program: "/usr/bin/chromium", name: "chromium" },
    Package { program: "/usr/bin/chromedriver", name: "chromium-driver" },
    Package { program: "/usr/bin/python3", name: "python3" },
    Package { program: "/usr/lib/python3/dist-packages/numpy", name: "python3-numpy" },
    Package { program: "/usr/lib/python3/dist-packages/mpi4py", name: "python3-mpi4py" },
];

const FOR_FIGURES: &[Package] = &[Package { program: "/usr/bin/dot", name: "graphviz" }];

const FOR_MPICH: &[Package] = &[
    Package { program: "/usr/bin/gcc", name: "gcc" },
    Package { program: "/usr/lib/x86_64-linux-gnu/libc.a", name: "libc6-dev" },
    Package { program: "/usr/bin/make", name: "make" },
    Package { program: "/usr/bin/xz", name: "xz-utils" },
];

/// What building Open MPI and OpenPMIx needs besides.
const FOR_OPENMPI: &[Package] = &[
    Package { program: "/usr/bin/autoconf", name: "autoconf" },
    Package { program: "/usr/bin/automake", name: "automake" },
    Package { program: "/usr/bin/libtoolize", name: "libtool" },
    Package { program: "/usr/bin/flex", name: "flex" },
    Package { program: "/usr/bin/bzip2", name: "bzip2" },
    Package { program: "/usr/bin/dpkg-source", name: "dpkg-dev" },
];

/// What building SQLite's tests needs besides.
const FOR_SQLITE: &[Package] = &[
    Package { program: "/usr/lib/x86_64-linux-gnu/libtcl8.6.a", name: "tcl8.6-dev" },
    Package { program: "/usr/bin/tclsh8.6", name: "tcl8.6" },
    Package { program: "/usr/lib/x86_64-linux-gnu/libz.a", name: "zlib1g-dev" },
];

/// The rustup targets; all that a build needs.
///
/// # Errors
/// If rustup cannot install them.
pub(crate) fn for_build() -> Result<()> {
    let installed = output(&mut command("rustup", &["target", "list", "--installed"]))?;
    let missing: Vec<&str> =
        TARGETS.iter().copied().filter(|target| !installed.lines().any(|line| line == *target)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    run(command("rustup", &["target", "add"]).args(missing))
}

/// What booting nodes and running programs on them needs besides.
///
/// # Errors
/// If something is missing and this user cannot install it; says the command that does.
pub(crate) fn for_run() -> Result<()> {
    for_build()?;
    packages(FOR_RUN)
}

/// What the whole test suite needs.
///
/// # Errors
/// As [`for_run`].
pub(crate) fn everything() -> Result<()> {
    for_run()?;
    packages(FOR_TESTS)?;
    pythons_tests()?;
    for_openmpi()?;
    prometheus::ready()
}

/// What drawing pictures needs.
///
/// # Errors
/// As [`for_run`].
pub(crate) fn for_figures() -> Result<()> {
    packages(FOR_FIGURES)
}

/// What building MPICH and programs with it needs.
///
/// # Errors
/// If something is missing and this user cannot install it; says the command that does.
pub(crate) fn for_mpich() -> Result<()> {
    packages(FOR_MPICH)
}

/// What building Open MPI and programs with it needs.
///
/// # Errors
/// If something is missing and this user cannot install it; says the command that does.
pub(crate) fn for_openmpi() -> Result<()> {
    for_mpich()?;
    packages(FOR_OPENMPI)
}

/// What building SQLite's own tests, and running them on a node, needs.
///
/// # Errors
/// If something is missing and this user cannot install it; says the command that does.
pub(crate) fn for_sqlite() -> Result<()> {
    for_run()?;
    for_mpich()?;
    packages(FOR_SQLITE)
}

/// The tests of the system's Python, which are a package of each of its versions.
fn pythons_tests() -> Result<()> {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = output(&mut command("/usr/bin/python3", &["-c", code]))?;
    let version = version.trim();
    if Path::new(&format!("/usr/lib/python{version}/test/test_struct.py")).exists() {
        return Ok(());
    }
    install(&[&format!("libpython{version}-testsuite")])
}

fn packages(wanted: &[Package]) -> Result<()> {
    let is_missing = |package: &&Package| !Path::new(package.program).exists();
    let missing: Vec<&str> = wanted.iter().filter(is_missing).map(|package| package.name).collect();
    install(&missing)
}

fn install(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !rustix::process::geteuid().is_root() {
        bail!("missing on this machine: {list}; install with: sudo apt-get install {list}");
    }
    run(&mut command("apt-get", &["update", "-q"]))?;
    run(command("apt-get", &["install", "-q", "-y", "--no-install-recommends"])
        .args(missing)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}
