//! `/etc/ld.so.cache`: where glibc's dynamic linker finds libraries, by their names. Its format is in glibc's
//! `sysdeps/generic/dl-cache.h`; what is damaged is as good as not there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What the format that is in use since glibc 2.2 begins with; one that is older may stand before it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// Length of the header and of an entry, bytes.
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;

/// Entries that are read.
const ENTRIES_MAX: usize = 100_000;

/// Flags of a library for x86-64 and glibc.
const FLAGS: u32 = 0x0303;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Cache(BTreeMap<Vec<u8>, Vec<PathBuf>>);

impl Cache {
    /// Reads one.
    pub(super) fn parse(file: &[u8]) -> Self {
        Self(entries(file).unwrap_or_default())
    }

    /// Where a library lies, in the order in which it is looked for there.
    pub(super) fn find(&self, name: &[u8]) -> impl Iterator<Item = PathBuf> {
        self.0.get(name).into_iter().flatten().cloned()
    }
}

fn entries(file: &[u8]) -> Option<BTreeMap<Vec<u8>, Vec<PathBuf>>> {
    let start = file.windows(MAGIC.len()).position(|bytes| bytes == MAGIC)?;
    let file = file.get(start..)?;
    let number = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let text = |at: u32| file.get(at as usize..)?.split(|byte| *byte == 0).next();
    let mut found: BTreeMap<Vec<u8>, Vec<PathBuf>> = BTreeMap::new();
    let count = (number(MAGIC.len())? as usize).min(ENTRIES_MAX);
    for entry in (0..count).map(|index| HEADER_BYTES + index * ENTRY_BYTES) {
        let [flags, name, path] = [number(entry)?, number(entry + 4)?, number(entry + 8)?];
        if flags == FLAGS {
            found.entry(text(name)?.to_vec()).or_default().push(OsStr::from_bytes(text(path)?).into());
        }
    }
    Some(found)
}
