//! QEMU's command line being written, with what QEMU makes of commas.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A command line being written.
pub(crate) struct Arguments(pub(crate) Vec<OsString>);

impl Arguments {
    /// An option without a value.
    pub(crate) fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.into());
        self
    }

    /// An option with its value.
    pub(crate) fn option(&mut self, flag: &str, value: impl Into<OsString>) -> &mut Self {
        self.flag(flag).0.push(value.into());
        self
    }

    /// An option that takes a whole path, where a comma means nothing.
    pub(crate) fn path(&mut self, flag: &str, path: &Path) -> &mut Self {
        self.option(flag, path)
    }
}

/// A value of comma-separated `key=value` pairs being written.
pub(crate) struct Value(Vec<u8>);

impl Value {
    /// A text that may hold anything.
    pub(crate) fn new(text: &str) -> Self {
        Self(Vec::new()).path(Path::new(text))
    }

    /// Pairs that are ours.
    pub(crate) fn text(pairs: &str) -> Self {
        Self(pairs.as_bytes().to_vec())
    }

    /// More pairs that are ours.
    pub(crate) fn and(mut self, pairs: &str) -> Self {
        self.0.extend_from_slice(pairs.as_bytes());
        self
    }

    /// A path inside a value: QEMU reads two commas as one that belongs to the value, and any other byte as itself.
    pub(crate) fn path(mut self, path: &Path) -> Self {
        for byte in path.as_os_str().as_bytes() {
            match byte {
                b',' => self.0.extend_from_slice(b",,"),
                byte => self.0.push(*byte),
            }
        }
        self
    }
}

impl From<Value> for OsString {
    fn from(value: Value) -> Self {
        Self::from_vec(value.0)
    }
}
