//! The faults that can be put back: files in `host-tools/simulator/mutants`, each with a few lines that say what is
//! broken and who should notice, then a unified diff.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::{command, root};

/// Where they are, below the workspace's root.
const DIRECTORY: &str = "host-tools/simulator/mutants";
/// How their names end.
const EXTENSION: &str = "patch";
/// What the diff begins with.
const DIFF: &str = "--- a/";

/// One of them.
pub(super) struct Patch {
    /// Its file's name, without the end.
    pub(super) name: String,
}

impl Patch {
    pub(super) fn path(&self) -> PathBuf {
        path_of(&self.name)
    }
}

/// The file of a patch with this name.
pub(super) fn path_of(name: &str) -> PathBuf {
    root().join(DIRECTORY).join(name).with_extension(EXTENSION)
}

/// All of them, by name.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn all() -> Result<Vec<Patch>> {
    let entries = std::fs::read_dir(root().join(DIRECTORY)).with_context(|| format!("cannot read {DIRECTORY}"))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {DIRECTORY}"))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| Patch { name }).collect())
}

/// Complaints about patches that do not apply to the tree any more, or do not say what they are about.
///
/// # Errors
/// They cannot be read, or there is no `git`.
pub(crate) fn complaints() -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for patch in all()? {
        let path = patch.path();
        let shown = path.strip_prefix(root()).unwrap_or(&path).display();
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?;
        if !says_what_it_is(&text) {
            complaints.push(format!("{shown}: does not start with what is broken and who should notice"));
        }
        if let Some(why) = why_not(&path)? {
            complaints.push(format!("{shown}: does not apply any more: {why}"));
        }
    }
    Ok(complaints)
}

/// Whether there is something to read above the diff.
fn says_what_it_is(text: &str) -> bool {
    text.split_once(DIFF).is_some_and(|(prose, _)| !prose.trim().is_empty())
}

/// Why a patch does not apply to the tree, if it does not.
fn why_not(path: &Path) -> Result<Option<String>> {
    let output = command("git", &["apply", "--check"]).arg(path).output().context("cannot start git")?;
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Ok((!output.status.success()).then_some(said))
}

#[cfg(test)]
mod tests {
    use super::says_what_it_is;

    #[test]
    fn a_patch_says_what_it_is_about() {
        assert!(says_what_it_is("It never ends.\n\n--- a/a.rs\n+++ b/a.rs\n"));
        assert!(!says_what_it_is("\n--- a/a.rs\n+++ b/a.rs\n") && !says_what_it_is("It never ends.\n"));
    }
}
