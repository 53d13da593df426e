//! Original sources, and programs that are used as they are, from Debian's archive.
//!
//! `apt-get` fetches them and verifies signatures and hashes. It works with lists and settings of its own under
//! `target`, so it needs no root, and nothing of this machine's apt is changed.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::{command, run_logged, target};

/// Debian's release that they are from.
const SUITE: &str = "bookworm";

/// Who signs that release.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where they are fetched from.
const MIRROR: &str = "http://deb.debian.org/debian";

/// The source of a package of [`SUITE`]. Debian's own revision is not part of the name: the original source is the same
/// in all of them, and of its patches the newest are the ones to have.
pub(crate) struct Source {
    /// What people call it.
    pub(crate) title: &'static str,
    /// Debian's name of it.
    pub(crate) package: &'static str,
    /// Version of the original source.
    pub(crate) version: &'static str,
    /// How the original source is packed: `tar.xz`.
    pub(crate) packed: &'static str,
    /// Whether Debian's patches are to be applied: it does not build without them.
    pub(crate) patched: bool,
}

impl Source {
    /// Unpacks it into a new directory; fetches it if it is not there.
    ///
    /// # Errors
    /// If it cannot be fetched or unpacked; says what to do.
    pub(crate) fn unpack(&self, directory: &Path) -> Result<()> {
        let archive = self.archive()?;
        if !self.patched {
            return unpack(&archive, directory, &[]);
        }
        let log = directory.with_extension("unpack.log");
        // What it says of signatures was verified when it was fetched.
        let mut dpkg = command("dpkg-source", &["--no-check", "--extract"]);
        run_logged(dpkg.arg(self.description()?).arg(directory), &log)
    }

    /// The archive of the original source; fetched if it is not there.
    ///
    /// # Errors
    /// If it cannot be fetched; says what to do.
    pub(crate) fn archive(&self) -> Result<PathBuf> {
        let directory = self.directory();
        let name = format!("{}_{}.orig.{}", self.package, self.version, self.packed);
        let archive = directory.join(&name);
        if archive.exists() {
            return Ok(archive);
        }
        check_keyring()?;
        eprintln!("== {} {}: fetching Debian's source package", self.title, self.version);
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        // What is not verified to its end stays in a directory that is not looked into.
        let download = fetch(&["source", "--download-only"], self.package).with_context(|| {
            let what = if self.patched { "its .dsc and what that names" } else { &name };
            format!(
                "cannot fetch {} from {MIRROR}: is this machine online? Or put {what} there by hand: {}",
                self.title,
                directory.display()
            )
        })?;
        // The archive last: where it is, the rest is, too.
        let mut files = listed(&download)?;
        files.sort_by_key(|file| file.file_name().is_some_and(|found| *found == *name));
        for file in &files {
            let place = directory.join(file.file_name().unwrap_or_default());
            std::fs::rename(file, &place).with_context(|| format!("cannot write {}", place.display()))?;
        }
        if !archive.exists() {
            bail!("apt-get brought no {name}; {MIRROR} may have another version of {} now", self.title);
        }
        Ok(archive)
    }

    /// Debian's description of the package, which names its files.
    fn description(&self) -> Result<PathBuf> {
        let directory = self.directory();
        let mut files = listed(&directory)?;
        files.sort();
        let found = files.into_iter().rfind(|file| file.extension().is_some_and(|extension| extension == "dsc"));
        found.with_context(|| format!("no .dsc in {}; remove it, and it is fetched again", directory.display()))
    }

    /// Where its files are.
    fn directory(&self) -> PathBuf {
        target().join(format!("{}-source", self.package))
    }
}

/// A package of [`SUITE`] whose programs are used as they are. It is unpacked and not installed: nothing of it is
/// started or set up on this machine.
pub(crate) struct Binary {
    /// What people call it.
    pub(crate) title: &'static str,
    /// Debian's name of it.
    pub(crate) package: &'static str,
}

impl Binary {
    /// Unpacks it into a directory, all or nothing, unless that is there; fetches it before.
    ///
    /// # Errors
    /// If it cannot be fetched or unpacked; says what to do.
    pub(crate) fn unpack(&self, directory: &Path) -> Result<()> {
        if directory.exists() {
            return Ok(());
        }
        check_keyring()?;
        eprintln!("== {}: fetching Debian's package", self.title);
        let download = fetch(&["download"], self.package)
            .with_context(|| format!("cannot fetch {} from {MIRROR}: is this machine online?", self.title))?;
        let mut archives = listed(&download)?;
        archives.retain(|file| file.extension().is_some_and(|extension| extension == "deb"));
        archives.sort();
        let archive =
            archives.pop().with_context(|| format!("apt-get brought no package in {}", download.display()))?;
        let partial = directory.with_extension("partial");
        let _ = std::fs::remove_dir_all(&partial);
        let log = directory.with_extension("unpack.log");
        run_logged(command("dpkg-deb", &["--extract"]).arg(archive).arg(&partial), &log)?;
        std::fs::rename(&partial, directory).with_context(|| format!("cannot write {}", directory.display()))
    }
}

fn check_keyring() -> Result<()> {
    if !Path::new(KEYRING).exists() {
        bail!("no {KEYRING}, which Debian's packages are verified with; install the package debian-archive-keyring");
    }
    Ok(())
}

/// What a directory has.
fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Unpacks these directories of an archive, or all of it, into a new directory.
///
/// # Errors
/// If there is no room or the archive is broken.
pub(crate) fn unpack(archive: &Path, directory: &Path, members: &[String]) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let log = directory.with_extension("unpack.log");
    let mut tar = command("tar", &["--strip-components=1", "-xf"]);
    run_logged(tar.arg(archive).arg("-C").arg(directory).args(members), &log)
}

/// Fetches a package or its source, as these words tell `apt-get`, and returns the directory that it is in.
fn fetch(how: &[&str], package: &str) -> Result<PathBuf> {
    let directory = target().join("debian");
    for directory in [&directory.join("lists/partial"), &directory.join("cache/archives/partial")] {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let directory = directory.canonicalize()?;
    // The lists are for all packages, and apt-get does not wait for another one that has them.
    let lock = File::create(directory.join("lock")).context("cannot make the lock of Debian's lists")?;
    lock.lock().context("cannot wait for another fetch from Debian")?;
    let download = directory.join("download").join(package);
    std::fs::create_dir_all(&download).with_context(|| format!("cannot make {}", download.display()))?;
    let sources = directory.join("sources.list");
    let lines = ["deb-src", "deb"].map(|kind| format!("{kind} [signed-by={KEYRING}] {MIRROR} {SUITE} main\n"));
    std::fs::write(&sources, lines.concat()).with_context(|| format!("cannot write {}", sources.display()))?;
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
    apt(&["update", "--error-on=any"]).and_then(|()| apt(&[how, &[package]].concat()))?;
    Ok(download)
}
