//! From source to `target/release`: the kernel, the boot image that carries it, and the host tools beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{cargo, run, target};

/// Target of everything that runs on a node.
pub(crate) const NODE_TARGET: &str = "x86_64-unknown-none";

/// What a build leaves behind.
pub(crate) struct Built {
    /// The control tool; everything else lies beside it.
    pub(crate) coppice: PathBuf,
    /// The boot image of a node.
    pub(crate) image: PathBuf,
}

/// Builds the kernel that the boot image carries.
///
/// # Errors
/// If it does not build.
pub(crate) fn kernel() -> Result<PathBuf> {
    run(&mut cargo(&["build", "--release", "--target", NODE_TARGET, "--package", "coppice-kernel"]))?;
    Ok(node_directory().join("coppice-kernel"))
}

/// Builds everything a user runs.
///
/// # Errors
/// If a step fails.
pub(crate) fn everything() -> Result<Built> {
    let kernel = kernel()?;
    run(cargo(&["build", "--release", "--target", NODE_TARGET, "--package", "coppice-boot"])
        .env("COPPICE_KERNEL_ELF", kernel))?;
    run(&mut cargo(&["build", "--release"]))?;
    let release = target().join("release");
    let image = release.join("coppice-node.elf");
    install(&node_directory().join("coppice-boot"), &image)?;
    Ok(Built { coppice: release.join("coppice"), image })
}

/// Where the node's programs are built.
fn node_directory() -> PathBuf {
    target().join(NODE_TARGET).join("release")
}

/// Puts a file in place whole: a cluster that boots at this moment sees the old one or the new one.
fn install(from: &Path, to: &Path) -> Result<()> {
    let staged = to.with_extension("new");
    std::fs::copy(from, &staged).with_context(|| format!("cannot copy {} to {}", from.display(), staged.display()))?;
    std::fs::rename(&staged, to).with_context(|| format!("cannot rename {} to {}", staged.display(), to.display()))
}
