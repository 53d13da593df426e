//! Paths of the host in JSON: as [`ByteString`] has text, so that one that is not UTF-8 is there too. For
//! `#[serde(with = …)]`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use coppice_protocol::text::{ByteString, Shown};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a path.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    bytes(path).serialize(serializer)
}

/// Reads a path.
///
/// # Errors
/// The deserializer's.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    ByteString::deserialize(deserializer).map(|path| OsString::from_vec(path.into_bytes()).into())
}

/// The same of a path that may not be there.
pub mod optional {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use coppice_protocol::text::ByteString;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a path, if there is one.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(super::bytes).serialize(serializer)
    }

    /// Reads a path, if there is one.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        let path = Option::<ByteString>::deserialize(deserializer)?;
        Ok(path.map(|path| OsString::from_vec(path.into_bytes()).into()))
    }
}

/// What the system gave us as bytes.
#[must_use]
pub fn bytes(text: impl AsRef<OsStr>) -> ByteString {
    text.as_ref().as_bytes().into()
}

/// A path or another text of the system's as people are shown it.
pub fn shown<T: AsRef<OsStr> + ?Sized>(text: &T) -> Shown<'_> {
    Shown(text.as_ref().as_bytes())
}
