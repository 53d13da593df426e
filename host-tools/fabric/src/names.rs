//! Link names, socket paths and the text form of an Ethernet address.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use coppice_protocol::ids::MacAddress;
use coppice_protocol::text::Shown;
use serde::{Deserialize, Serialize};

use crate::limits::SOCKET_PATH_BYTES_MAX;

/// Longest link name, bytes.
pub const LINK_NAME_BYTES_MAX: usize = 32;

/// Name of a link, which is the name of its station: 1 to 32 of `a-z`, `0-9`, `-` and `_`. So it is safe in a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkName(String);

/// Why a text is not a name, an address or a usable path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text cannot name a link.
    #[error("{0:?} is no link name: use 1 to {LINK_NAME_BYTES_MAX} of a-z, 0-9, '-' and '_'")]
    Link(String),
    /// The text is no Ethernet address.
    #[error("{0:?} is no Ethernet address: write it like 02:00:0a:40:00:01")]
    Address(String),
    /// The socket's path does not fit into a socket address.
    #[error(
        "the socket path {} is {bytes} bytes long and the system allows {SOCKET_PATH_BYTES_MAX}: use a directory with \
         a shorter name",
        Shown(path.as_os_str().as_encoded_bytes())
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length, bytes.
        bytes: usize,
    },
}

impl LinkName {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`NameError::Link`] if it has a character too many or a wrong one.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        if name.is_empty() || name.len() > LINK_NAME_BYTES_MAX || !name.bytes().all(allowed) {
            return Err(NameError::Link(name));
        }
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where the station's socket lies in `directory`: `<name>.sock`.
    ///
    /// # Errors
    /// [`NameError::PathTooLong`].
    pub fn station_socket(&self, directory: &Path) -> Result<PathBuf, NameError> {
        socket_path(directory, &self.0, "sock")
    }

    /// Where the switch's socket of this link lies in `directory`: `<name>.sw`.
    ///
    /// # Errors
    /// [`NameError::PathTooLong`].
    pub fn switch_socket(&self, directory: &Path) -> Result<PathBuf, NameError> {
        socket_path(directory, &self.0, "sw")
    }
}

fn socket_path(directory: &Path, name: &str, extension: &str) -> Result<PathBuf, NameError> {
    let path = directory.join(format!("{name}.{extension}"));
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(NameError::PathTooLong { path, bytes });
    }
    Ok(path)
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LinkName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl TryFrom<String> for LinkName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl From<LinkName> for String {
    fn from(name: LinkName) -> Self {
        name.0
    }
}

/// Reads an Ethernet address written as six pairs of hexadecimal digits with colons between.
///
/// # Errors
/// [`NameError::Address`].
pub fn parse_mac(text: &str) -> Result<MacAddress, NameError> {
    let bad = || NameError::Address(text.chars().take(32).collect());
    let mut bytes = [0; 6];
    let mut pairs = text.split(':');
    for byte in &mut bytes {
        let pair = pairs.next().ok_or_else(bad)?;
        if pair.len() != 2 || !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
    }
    match pairs.next() {
        None => Ok(MacAddress(bytes)),
        Some(_) => Err(bad()),
    }
}

/// Serde's view of an Ethernet address as text, so that commands can be read by people.
pub(crate) mod mac_text {
    use coppice_protocol::ids::MacAddress;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(mac: &MacAddress, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(mac)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MacAddress, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_mac(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_link_names() {
        for good in ["n0", "io-12", "a_b", &"x".repeat(32)] {
            assert_eq!(LinkName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "N0", "é", "a b", "a,b", &"x".repeat(33)] {
            assert_eq!(LinkName::new(bad), Err(NameError::Link(bad.to_owned())));
        }
    }

    #[test]
    fn addresses_as_text() {
        let mac = MacAddress([2, 0, 10, 64, 0, 255]);
        assert_eq!(parse_mac(&mac.to_string()), Ok(mac));
        for bad in
            ["", "02:00:0a:40:00", "02:00:0a:40:00:01:02", "2:0:a:40:0:1", "+2:00:0a:40:00:01", "02-00-0a-40-00-01"]
        {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn socket_path_must_fit() {
        let name = LinkName::new("n0").unwrap();
        assert_eq!(name.switch_socket(Path::new("/run")).unwrap(), Path::new("/run/n0.sw"));
        let long = PathBuf::from(format!("/{}", "d".repeat(100)));
        assert!(name.switch_socket(&long).is_ok());
        let error = name.station_socket(&long.join("e")).unwrap_err();
        assert!(error.to_string().contains("shorter name"), "{error}");
    }
}
