//! Which file is meant by the program's name, and what a process inherits.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use coppice_api::shown;
use rustix::fs::Mode;

/// The program's file, absolute, without links if it is there. A name without a slash is looked for here first, then in
/// `PATH`.
pub(crate) fn find(name: &Path) -> anyhow::Result<PathBuf> {
    let found = find_in(name, &std::env::var_os("PATH").unwrap_or_default())?;
    Ok(found.canonicalize().unwrap_or(found))
}

fn find_in(name: &Path, path: &std::ffi::OsStr) -> anyhow::Result<PathBuf> {
    if name.as_os_str().is_empty() {
        return Err(anyhow!("the program's name is empty"));
    }
    let here = std::path::absolute(name).context("cannot find the working directory")?;
    let has_directory = name.parent().is_some_and(|parent| !parent.as_os_str().is_empty());
    if has_directory || here.exists() {
        // If it is not there the service node says so.
        return Ok(here);
    }
    let found = std::env::split_paths(path).map(|directory| directory.join(name)).find(|file| file.is_file());
    match found {
        Some(file) => std::path::absolute(file).context("cannot find the working directory"),
        None => Err(anyhow!("there is no program '{}' in this directory or in PATH", shown(name))),
    }
}

/// Our file mode creation mask. It can only be read by setting it.
pub(super) fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::find_in;

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        let directory = tempfile::tempdir().expect("directory");
        std::fs::write(directory.path().join("prog"), "").expect("file");
        let path = directory.path().as_os_str();
        assert_eq!(find_in(Path::new("prog"), path).expect("found"), directory.path().join("prog"));
        assert_eq!(find_in(Path::new("/no/prog"), path).expect("as given"), PathBuf::from("/no/prog"));
        assert!(find_in(Path::new("./prog"), path).expect("as given").ends_with("prog"));
        let error = find_in(Path::new("nosuch"), path).expect_err("missing").to_string();
        assert!(error.contains("'nosuch'") && error.contains("PATH"), "{error}");
        assert!(find_in(Path::new(""), path).is_err());
    }
}
