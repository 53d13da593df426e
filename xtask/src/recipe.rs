//! What is built from somebody else's source and put into a directory of `target`: MPICH, OpenPMIx, Open MPI.
//!
//! What it was built from and how is written beside it, in a stamp; a build with another version, other options or
//! another place is made anew, any other call does nothing. A log has all that the build said.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{command, run_logged, target};
use crate::debian::Source;

/// Names what a directory was made from.
const STAMP: &str = "coppice-stamp";

/// Something to be built.
pub(crate) struct Recipe<'a> {
    /// What people call it, with its version.
    pub(crate) title: String,
    /// Directories of `target` that it goes to. The first is its prefix; the log and the lock have its name, too.
    pub(crate) places: &'a [&'a str],
    /// Lines that say what it is made from and how; if they change it is made anew.
    pub(crate) from: Vec<String>,
}

/// A build that is under way.
pub(crate) struct Build {
    /// Where it happens; gone afterwards.
    pub(crate) directory: PathBuf,
    /// What it said.
    log: PathBuf,
    /// Where the result goes.
    pub(crate) prefix: PathBuf,
}

impl Recipe<'_> {
    /// Has it built, unless it is there, and returns its prefix.
    ///
    /// # Errors
    /// If a step fails; names its log, which stays.
    pub(crate) fn ready(&self, build: impl FnOnce(&Build) -> Result<()>) -> Result<PathBuf> {
        let target = target();
        std::fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
        let target = target.canonicalize()?;
        let name = self.places[0];
        // Two builds at once wait for each other here; the lock ends with the file.
        let lock = File::create(target.join(format!("{name}.lock")))
            .with_context(|| format!("cannot make the lock of the build of {}", self.title))?;
        lock.lock().with_context(|| format!("cannot wait for another build of {}", self.title))?;
        let prefix = target.join(name);
        let stamp = self.stamp(&prefix);
        if self.places.iter().all(|place| read_stamp(&target.join(place)).as_ref() == Some(&stamp)) {
            return Ok(prefix);
        }
        let directory = target.join(format!("{name}-build"));
        remove(&directory)?;
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let log = directory.join("build.log");
        eprintln!("== {}: configuring and building, some minutes; log: {}", self.title, log.display());
        build(&Build { directory: directory.clone(), log, prefix: prefix.clone() })?;
        for place in self.places {
            let place = target.join(place);
            std::fs::write(place.join(STAMP), &stamp)
                .with_context(|| format!("the build of {} left no {}", self.title, place.display()))?;
        }
        remove(&directory)?;
        Ok(prefix)
    }

    /// What it should be made from. Scripts have their place written into them, so that is part of it.
    fn stamp(&self, prefix: &Path) -> String {
        format!("{}\n{}\n", self.from.join("\n"), prefix.display())
    }
}

impl Build {
    /// The same for another place of the recipe, which is beside the first.
    pub(crate) fn beside(&self, place: &str) -> Self {
        Self { directory: self.directory.clone(), log: self.log.clone(), prefix: self.prefix.with_file_name(place) }
    }

    /// Unpacks a source and returns its directory.
    ///
    /// # Errors
    /// If it cannot be fetched or unpacked.
    pub(crate) fn unpack(&self, source: &Source) -> Result<PathBuf> {
        let directory = self.directory.join(source.package);
        source.unpack(&directory)?;
        Ok(directory)
    }

    /// Runs `./configure` for this build's prefix.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn configure(&self, source: &Path, options: &[&str]) -> Result<()> {
        self.step(command("./configure", options).arg("--prefix").arg(&self.prefix).current_dir(source))
    }

    /// Runs make in a directory, for these targets and variables, with as many jobs as there are cores.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn make(&self, directory: &Path, words: &[&str]) -> Result<()> {
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.step(command("make", &["-j", &jobs.to_string()]).args(words).current_dir(directory))
    }

    /// Installs what was built in `source` into a directory beside the prefix, and puts it in place whole.
    ///
    /// # Errors
    /// If a step fails.
    pub(crate) fn install_whole(&self, source: &Path) -> Result<()> {
        let staged = self.directory.join("staged");
        let mut destination = OsString::from("DESTDIR=");
        destination.push(&staged);
        self.step(command("make", &["install"]).arg(destination).current_dir(source))?;
        let made = staged.join(self.prefix.strip_prefix("/").unwrap_or(&self.prefix));
        put(&made, &self.prefix)
    }

    /// Runs a command; the log has what it says.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn step(&self, command: &mut Command) -> Result<()> {
        run_logged(command, &self.log)
    }
}

/// The stamp of a directory, if it has one.
pub(crate) fn read_stamp(place: &Path) -> Option<String> {
    std::fs::read_to_string(place.join(STAMP)).ok()
}

/// Puts a directory in the place of another.
///
/// # Errors
/// If it is not there or cannot be moved.
pub(crate) fn put(made: &Path, place: &Path) -> Result<()> {
    remove(place)?;
    std::fs::rename(made, place).with_context(|| format!("cannot move {} to {}", made.display(), place.display()))
}

/// Removes a directory, if it is there.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}
