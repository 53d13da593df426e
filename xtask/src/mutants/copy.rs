//! The copy of the tree that faults are put into. It stays from one to the next, and only files that differ are
//! written, so that what has not changed is not built again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::patches::Patch;
use crate::command::{command, root, target};

/// See this module.
pub(super) struct Copy {
    /// Where it is, with what is built of it.
    directory: PathBuf,
}

impl Copy {
    /// In the directory for what is built.
    pub(super) fn below_target() -> Self {
        Self { directory: target().join("mutants") }
    }

    /// The tree.
    pub(super) fn tree(&self) -> PathBuf {
        self.directory.join("tree")
    }

    /// Where cargo puts what it builds of it.
    pub(super) fn built(&self) -> PathBuf {
        self.directory.join("build")
    }

    /// Where to write what was said about one.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.directory.join(name).with_extension("log")
    }

    /// Makes the copy, or makes it equal again.
    ///
    /// # Errors
    /// A file cannot be read or written, or there is no `git`.
    pub(super) fn make(&self) -> Result<()> {
        let (from, to) = (root(), self.tree());
        let wanted = files()?;
        for name in &wanted {
            let bytes = fs::read(from.join(name)).with_context(|| format!("cannot read {}", name.display()))?;
            write_if_other(&to.join(name), &bytes)?;
        }
        remove_others(&to, Path::new(""), &wanted)
    }

    /// Puts a fault into the copy.
    ///
    /// # Errors
    /// The patch does not apply: names it.
    pub(super) fn apply(&self, patch: &Patch) -> Result<()> {
        let mut apply = command("git", &["apply"]);
        // The copy is no part of the repository that it lies in.
        apply.current_dir(self.tree()).env("GIT_CEILING_DIRECTORIES", &self.directory).arg(patch.path());
        let output = apply.output().context("cannot start git")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} does not apply any more: {}", patch.path().display(), said.trim());
        }
        Ok(())
    }
}

/// The files of the tree, also those that are not committed.
fn files() -> Result<BTreeSet<PathBuf>> {
    let mut list = command("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = list.output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    // Some may have been deleted and not yet committed as such.
    Ok(paths.filter(|path| root().join(path).is_file()).collect())
}

fn write_if_other(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, bytes)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Removes what is below `directory` of the tree and not wanted.
fn remove_others(tree: &Path, directory: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    let here = tree.join(directory);
    for entry in fs::read_dir(&here).with_context(|| format!("cannot read {}", here.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", here.display()))?;
        let name = directory.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_others(tree, &name, wanted)?;
        } else if !wanted.contains(&name) {
            let path = tree.join(&name);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{remove_others, write_if_other};

    #[test]
    fn what_is_as_it_should_be_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, other) = (directory.path().join("a/b/c.rs"), directory.path().join("a/d.rs"));
        write_if_other(&file, b"1").expect("written");
        write_if_other(&other, b"2").expect("written");
        let mut permissions = fs::metadata(&file).expect("there").permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&file, permissions).expect("set");
        let before = fs::metadata(&file).expect("there").modified().expect("known");
        write_if_other(&file, b"1").expect("nothing to do");
        remove_others(directory.path(), Path::new(""), &BTreeSet::from([PathBuf::from("a/b/c.rs")])).expect("removed");
        assert_eq!(fs::metadata(&file).expect("there").modified().expect("known"), before);
        assert!(!other.exists());
    }
}
