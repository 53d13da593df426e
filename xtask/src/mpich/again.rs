//! One source tree that is built, then configured a little otherwise, and built again.
//!
//! Only what the difference concerns is compiled again.
//!
//! `make` goes by times. Nearly all of what `configure` writes anew has the bytes that it had, and gets its time back;
//! where a header differs in nothing but one setting, too, and the sources that name what the setting is about are made
//! newer than their objects. Should more differ one day, times stay as they are and all is compiled: slower, not wrong.
//! What `configure` leaves for `make`, which makes headers by it where it is newer, gets its time back in any case.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// The setting that may differ: whether PMI version 2 is spoken.
const SETTING: &str = "USE_PMI2_API";

/// What sources have in them that it concerns. Some headers do, too, but none that has code of which this depends.
const NAMED: &str = "PMI";

/// What `configure` leaves, by which headers are made.
const CONFIGURED: &str = "config.status";

/// The headers of a tree, as a first build left them.
pub(super) struct Headers {
    tree: PathBuf,
    kept: BTreeMap<PathBuf, (SystemTime, Vec<u8>)>,
    configured: BTreeMap<PathBuf, SystemTime>,
}

impl Headers {
    /// Looks at all of them.
    ///
    /// # Errors
    /// If the tree cannot be read.
    pub(super) fn of(tree: &Path) -> Result<Self> {
        let mut configured = BTreeMap::new();
        for path in files(tree, |path| path.ends_with(CONFIGURED))? {
            let changed = path.metadata()?.modified()?;
            configured.insert(path, changed);
        }
        let mut kept = BTreeMap::new();
        for path in files(tree, |path| has_extension(path, "h"))? {
            let changed = path.metadata()?.modified()?;
            let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            kept.insert(path, (changed, bytes));
        }
        Ok(Self { tree: tree.into(), kept, configured })
    }

    /// After the tree was configured anew: lets `make` find out of date what the setting concerns.
    ///
    /// # Errors
    /// If the tree cannot be read, or times cannot be set.
    pub(super) fn restore(self) -> Result<()> {
        for (path, (changed, before)) in self.kept {
            let after = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if differ_in_setting_only(&before, &after) {
                set_time(&path, changed)?;
            }
        }
        for (path, changed) in self.configured {
            set_time(&path, changed)?;
        }
        for path in files(&self.tree, |path| has_extension(path, "c"))? {
            let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if text.windows(NAMED.len()).any(|window| window == NAMED.as_bytes()) {
                set_time(&path, SystemTime::now())?;
            }
        }
        Ok(())
    }
}

/// Whether two versions of a header are the same line by line, but for the one that has the setting.
fn differ_in_setting_only(before: &[u8], after: &[u8]) -> bool {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    before.lines().count() == after.lines().count()
        && before
            .lines()
            .zip(after.lines())
            .all(|(one, other)| one == other || (one.contains(SETTING) && other.contains(SETTING)))
}

fn set_time(path: &Path, time: SystemTime) -> Result<()> {
    let file = File::options().append(true).open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.set_modified(time).with_context(|| format!("cannot set the time of {}", path.display()))
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|found| found == wanted)
}

/// All files of a tree that are wanted.
fn files(tree: &Path, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let (mut found, mut directories) = (Vec::new(), vec![tree.to_path_buf()]);
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && wanted(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Headers, set_time};

    #[test]
    fn what_the_setting_concerns_is_newer_than_its_object_and_all_else_is_not() {
        let tree = tempfile::tempdir().expect("a directory");
        let path = |name: &str| tree.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(path(name), text).expect("a file");
        let [first, built] = [2, 1].map(|hours| SystemTime::now() - Duration::from_secs(3600 * hours));
        std::fs::create_dir(path("src")).expect("a directory");
        let before = [
            ("same.h", "1"),
            ("conf.h", "#define A 1\n/* #undef USE_PMI2_API */\n"),
            ("other.h", "#define B 1\n"),
            ("src/start.c", "PMI_Init();"),
            ("src/send.c", "write();"),
            ("src/config.status", "1"),
        ];
        for (name, text) in before {
            write(name, text);
            set_time(&path(name), first).expect("its time");
        }
        let headers = Headers::of(tree.path()).expect("headers");
        write("same.h", "1");
        write("conf.h", "#define A 1\n#define USE_PMI2_API 1\n");
        write("other.h", "#define B 2\n");
        write("src/config.status", "2");
        headers.restore().expect("restored");
        let newer = before.map(|(name, _)| path(name).metadata().and_then(|file| file.modified()).expect("") > built);
        assert_eq!(newer, [false, false, true, true, false, false]);
    }
}
