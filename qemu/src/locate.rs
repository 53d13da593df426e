//! Which QEMU there is.

use std::io;
use std::path::PathBuf;
use std::process::Command;

/// The program looked for.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// Oldest QEMU that has all a machine uses (`-netdev dgram` came with it).
pub const VERSION_MIN: Version = Version { major: 7, minor: 2 };

/// Bytes of `--version` output that are looked at.
const VERSION_TEXT_BYTES_MAX: usize = 4096;

/// A QEMU that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// Absolute path of the program.
    pub path: PathBuf,
    /// Which version it says it is.
    pub version: Version,
}

/// A version; later ones compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why there is no usable QEMU.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// It is not in the search path.
    #[error("{PROGRAM} is not installed: run `apt-get install qemu-system-x86` (as root), or put it into PATH")]
    Missing,
    /// It is there and does not run.
    #[error("{} does not run: {error}", path.display())]
    Broken {
        /// The program.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It runs and does not say a version.
    #[error("{} --version says nothing that looks like QEMU: {text:?}", path.display())]
    Strange {
        /// The program.
        path: PathBuf,
        /// What it says instead.
        text: String,
    },
    /// It is too old.
    #[error("{} is QEMU {version}, and {VERSION_MIN} or later is needed", path.display())]
    TooOld {
        /// The program.
        path: PathBuf,
        /// Its version.
        version: Version,
    },
}

/// Finds QEMU in the search path and asks it for its version, which takes some tens of milliseconds.
///
/// # Errors
/// Why there is none, with the command that mends it.
pub fn find_qemu() -> Result<Qemu, LocateError> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&paths)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(PROGRAM))
        .find(|path| path.is_file())
        .ok_or(LocateError::Missing)?;
    let version = match Command::new(&path).arg("--version").output() {
        Ok(output) => {
            let text = &output.stdout[..output.stdout.len().min(VERSION_TEXT_BYTES_MAX)];
            let text = String::from_utf8_lossy(text);
            parse_version(&text).ok_or_else(|| LocateError::Strange { path: path.clone(), text: first_line(&text) })?
        }
        Err(error) => return Err(LocateError::Broken { path, error }),
    };
    if version < VERSION_MIN {
        return Err(LocateError::TooOld { path, version });
    }
    Ok(Qemu { path, version })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(80).collect()
}

/// Reads `QEMU emulator version 7.2.22 (…)`.
fn parse_version(text: &str) -> Option<Version> {
    let (_, numbers) = text.split_once("QEMU emulator version ")?;
    let mut numbers = numbers.split(|c: char| !c.is_ascii_digit());
    Some(Version { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version = |text| parse_version(text).map(|version| version.to_string());
        assert_eq!(version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)").as_deref(), Some("7.2"));
        assert_eq!(version("QEMU emulator version 10.0.2\nCopyright").as_deref(), Some("10.0"));
        assert_eq!(version("QEMU emulator version 99999999999999.1"), None);
        assert_eq!(version("bash: no such thing"), None);
        assert!(Version { major: 10, minor: 0 } > VERSION_MIN);
    }

    #[test]
    fn missing_qemu_says_how_to_get_it() {
        assert!(LocateError::Missing.to_string().contains("apt-get install qemu-system-x86"));
    }
}
