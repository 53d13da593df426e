//! MPICH's source, from Debian's archive.
//!
//! `apt-get` fetches it and verifies signatures and hashes. It works with lists and settings of its own under
//! `target`, so it needs no root, and nothing of this machine's apt is changed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::{command, run_logged, target};

/// Version of MPICH.
pub(crate) const VERSION: &str = "4.0.2";

/// Version of Debian's source package of it, the one in [`SUITE`].
const PACKAGE: &str = "mpich=4.0.2-3";

/// Debian's release that has it.
const SUITE: &str = "bookworm";

/// Who signs that release.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where it is fetched from.
const MIRROR: &str = "http://deb.debian.org/debian";

/// The archive of the original source; fetched if it is not there.
///
/// # Errors
/// If it cannot be fetched; says what to do.
pub(super) fn archive() -> Result<PathBuf> {
    let directory = target().join("mpich-source");
    let name = format!("mpich_{VERSION}.orig.tar.xz");
    let archive = directory.join(&name);
    if archive.exists() {
        return Ok(archive);
    }
    if !Path::new(KEYRING).exists() {
        bail!("no {KEYRING}, which Debian's sources are verified with; install the package debian-archive-keyring");
    }
    eprintln!("== MPICH {VERSION}: fetching Debian's source package");
    // What is not verified to its end stays in a directory that is not looked into.
    let download = directory.join("download");
    let lists = directory.join("lists");
    for directory in [&download, &lists.join("partial"), &directory.join("cache/archives/partial")] {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let directory = directory.canonicalize()?;
    let sources = directory.join("sources.list");
    std::fs::write(&sources, format!("deb-src [signed-by={KEYRING}] {MIRROR} {SUITE} main\n"))?;
    let settings = [
        format!("Dir::Etc::sourcelist={}", sources.display()),
        "Dir::Etc::sourceparts=/dev/null".into(),
        "Dir::Etc::preferencesparts=/dev/null".into(),
        format!("Dir::State::lists={}", directory.join("lists").display()),
        format!("Dir::Cache={}", directory.join("cache").display()),
        "Acquire::Languages=none".into(),
        // As root it would fetch as another user, who may not write here.
        "APT::Sandbox::User=root".into(),
    ];
    let log = directory.join("fetch.log");
    let apt = |arguments: &[&str]| {
        let mut apt = command("apt-get", &["-q"]);
        settings.iter().for_each(|setting| {
            apt.args(["-o", setting]);
        });
        apt.args(arguments).current_dir(&download);
        run_logged(&mut apt, &log)
    };
    apt(&["update", "--error-on=any"]).and_then(|()| apt(&["source", "--download-only", PACKAGE])).with_context(
        || {
            format!(
                "cannot fetch MPICH from {MIRROR}: is this machine online? Or put {name} there by hand: {}",
                directory.display()
            )
        },
    )?;
    std::fs::rename(download.join(&name), &archive).with_context(|| format!("apt-get brought no {name}"))?;
    Ok(archive)
}
