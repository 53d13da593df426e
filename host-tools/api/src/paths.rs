//! Where everything of a cluster lies on the host.
//!
//! | what | `COPPICE_HOME` set | otherwise |
//! | --- | --- | --- |
//! | state: database, programs, logs, regions | `$COPPICE_HOME/state/CLUSTER` | `$XDG_STATE_HOME/coppice/CLUSTER` |
//! | runtime: sockets, gone after `down` | `$COPPICE_HOME/run/CLUSTER` | `$XDG_RUNTIME_DIR/coppice/CLUSTER` |
//!
//! `XDG_STATE_HOME` is by default `~/.local/state`; without `XDG_RUNTIME_DIR` it is `/tmp/coppice-UID/CLUSTER`,
//! or `/tmp/coppice-UID.N/CLUSTER` if that is somebody else's.
//! Both are open to their owner alone. A directory that belongs to somebody else is never used.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use coppice_protocol::text::ByteString;

use crate::limits::{CLUSTER_NAME_BYTES_MAX, SOCKET_NAME_BYTES_MAX, SOCKET_PATH_BYTES_MAX};
use crate::path::{bytes, shown};

/// Name of a cluster that is fit to be a file name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterName(String);

/// Why a cluster's directories cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The name is not fit to be a file name.
    #[error(
        "'{}' is no name for a cluster; use 1 to {max} letters, digits, '-' and '_', the first a letter or digit",
        .0, max = CLUSTER_NAME_BYTES_MAX
    )]
    Name(ByteString),
    /// Nothing says where to put things.
    #[error(
        "neither COPPICE_HOME nor HOME is set to an absolute path; set COPPICE_HOME to a directory for Coppice's files"
    )]
    NoHome,
    /// `COPPICE_HOME` depends on where one is.
    #[error("COPPICE_HOME is '{}', which is not an absolute path; set it to one that starts with /", shown(.0))]
    Relative(PathBuf),
    /// Unix sockets in it would have too long a path.
    #[error(
        "'{}' is too long a path for sockets ({bytes} bytes, at most {max}); set {variable} to a shorter one",
        shown(directory), max = SOCKET_PATH_BYTES_MAX - SOCKET_NAME_BYTES_MAX
    )]
    TooLong {
        /// The directory.
        directory: PathBuf,
        /// Length of its path, bytes.
        bytes: usize,
        /// The environment variable that decides it.
        variable: &'static str,
    },
    /// It is not a directory of the user alone.
    #[error("'{}' {problem}; remove it or set COPPICE_HOME to another directory", shown(directory))]
    Unsafe {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It cannot be made or read.
    #[error("cannot use '{}': {source}", shown(directory))]
    Io {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ClusterName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterName {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let goes_well = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !starts_well || !goes_well || text.len() > CLUSTER_NAME_BYTES_MAX {
            return Err(PathError::Name(text.into()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<&OsStr> for ClusterName {
    type Error = PathError;

    /// What the system gave us, such as the value of a variable.
    fn try_from(text: &OsStr) -> Result<Self, PathError> {
        text.to_str().ok_or_else(|| PathError::Name(bytes(text)))?.parse()
    }
}

/// The files and directories of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterPaths {
    name: ClusterName,
    state: PathBuf,
    runtime: PathBuf,
    /// Directories above `runtime` that must be the user's alone too, because anyone may write to what is above them.
    runtime_parent: PathBuf,
}

impl ClusterPaths {
    /// Finds the directories of a cluster from the environment; makes nothing.
    ///
    /// # Errors
    /// [`PathError::NoHome`], [`PathError::Relative`], [`PathError::TooLong`].
    pub fn find(name: ClusterName) -> Result<Self, PathError> {
        Self::find_with(name, |variable| std::env::var_os(variable), rustix::process::getuid().as_raw())
    }

    /// [`ClusterPaths::find`] in a given environment.
    ///
    /// # Errors
    /// As [`ClusterPaths::find`].
    pub fn find_with(
        name: ClusterName,
        environment: impl Fn(&str) -> Option<OsString>,
        user: u32,
    ) -> Result<Self, PathError> {
        if let Some(home) = environment("COPPICE_HOME").map(PathBuf::from).filter(|home| home.is_relative()) {
            return Err(PathError::Relative(home));
        }
        // As the XDG specification says: a relative path there is to be ignored.
        let absolute = |variable| environment(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let (state_parent, runtime_parent, variable) = if let Some(home) = absolute("COPPICE_HOME") {
            (home.join("state"), home.join("run"), "COPPICE_HOME")
        } else {
            let state = absolute("XDG_STATE_HOME")
                .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
                .ok_or(PathError::NoHome)?;
            let runtime = absolute("XDG_RUNTIME_DIR").filter(|path| path.is_dir());
            let (runtime, variable) = match runtime {
                Some(directory) => (directory.join("coppice"), "XDG_RUNTIME_DIR"),
                None => (own_directory(Path::new("/tmp"), user), "COPPICE_HOME"),
            };
            (state.join("coppice"), runtime, variable)
        };
        let runtime = runtime_parent.join(name.as_str());
        let bytes = runtime.as_os_str().as_bytes().len();
        if bytes + SOCKET_NAME_BYTES_MAX > SOCKET_PATH_BYTES_MAX {
            return Err(PathError::TooLong { directory: runtime, bytes, variable });
        }
        Ok(Self { state: state_parent.join(name.as_str()), runtime, runtime_parent, name })
    }

    /// Makes the directories, open to the user alone, and checks that they belong to the user.
    ///
    /// # Errors
    /// [`PathError::Unsafe`], [`PathError::Io`].
    pub fn create(&self) -> Result<(), PathError> {
        let above = [&self.runtime_parent, &self.state, &self.runtime].map(Clone::clone);
        let below = [self.consoles(), self.programs(), self.output(), self.regions()];
        above.iter().chain(&below).try_for_each(|directory| make_private(directory))
    }

    /// Checks that the runtime directory, if there is one, belongs to the user alone: what answers on a socket in a
    /// directory of somebody else is not our service node.
    ///
    /// # Errors
    /// [`PathError::Unsafe`], [`PathError::Io`].
    pub fn check_runtime(&self) -> Result<(), PathError> {
        [&self.runtime_parent, &self.runtime]
            .into_iter()
            .filter(|path| path.symlink_metadata().is_ok())
            .try_for_each(|directory| check_private(directory))
    }

    /// Removes the runtime directory and all sockets in it, and the one above if nothing else is there.
    ///
    /// # Errors
    /// [`PathError::Io`].
    pub fn remove_runtime(&self) -> Result<(), PathError> {
        match fs::remove_dir_all(&self.runtime) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&self.runtime, error)),
            _ => {
                // Other clusters may live there; then this fails, as it should.
                let _ = fs::remove_dir(&self.runtime_parent);
                Ok(())
            }
        }
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// Directory of everything that outlives `down`.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Directory of the sockets; gone after `down`.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// The SQLite database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.state.join("coppice.db")
    }

    /// What overlays of jobs have gathered.
    #[must_use]
    pub fn profiles(&self) -> PathBuf {
        self.state.join("profiles.db")
    }

    /// Room on the disk for records that cannot be written to the database for now.
    #[must_use]
    pub fn reserve(&self) -> PathBuf {
        self.state.join("coppice.reserve")
    }

    /// Locked by the service node for as long as it lives; its process id is written in it.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    /// Says which machine has the cluster while it is up.
    #[must_use]
    pub fn holder(&self) -> PathBuf {
        self.state.join("machine")
    }

    /// Log of the service node.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state.join("coppiced.log")
    }

    /// Log of a helper process: `fabric` or an I/O node.
    #[must_use]
    pub fn helper_log(&self, name: &str) -> PathBuf {
        self.state.join(format!("{name}.log"))
    }

    /// Whether KVM works, as found out earlier.
    #[must_use]
    pub fn accelerator_cache(&self) -> PathBuf {
        self.state.join("accelerator.json")
    }

    /// Directory of the programs' bytes, each under its hash.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.state.join("programs")
    }

    /// Directory of the consoles' logs.
    #[must_use]
    pub fn consoles(&self) -> PathBuf {
        self.state.join("consoles")
    }

    /// Directory of checkpoints, if no other is named.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.state.join("checkpoints")
    }

    /// Directory of the nodes' regions, a file each by the node's number.
    #[must_use]
    pub fn regions(&self) -> PathBuf {
        self.state.join("regions")
    }

    /// The file of a node's region.
    #[must_use]
    pub fn region(&self, node: u32) -> PathBuf {
        self.regions().join(node.to_string())
    }

    /// Directory of what is kept of jobs' output, a log each.
    #[must_use]
    pub fn output(&self) -> PathBuf {
        self.state.join("output")
    }

    /// Log of what a node printed on its serial line since it was last booted.
    #[must_use]
    pub fn console(&self, node: u32) -> PathBuf {
        self.consoles().join(format!("node-{node}.log"))
    }

    /// Socket of the HTTP API.
    #[must_use]
    pub fn api_socket(&self) -> PathBuf {
        self.runtime.join("api.sock")
    }

    /// Socket of a machine's QMP monitor.
    #[must_use]
    pub fn qmp_socket(&self, node: u32) -> PathBuf {
        self.runtime.join(format!("n{node}.qmp"))
    }

    /// Ramdisk of a node while it is being booted.
    #[must_use]
    pub fn personality(&self, node: u32) -> PathBuf {
        self.runtime.join(format!("n{node}.personality"))
    }
}

/// Names that are tried for a directory where everybody may make one.
const NAMES_TRIED: u32 = 16;

/// The user's own directory for sockets where everybody may make directories: the first of a few names that is the
/// user's, or else the first that is nobody's, so that nobody keeps anybody from it by taking a name.
fn own_directory(parent: &Path, user: u32) -> PathBuf {
    let named = |number: u32| match number {
        0 => parent.join(format!("coppice-{user}")),
        _ => parent.join(format!("coppice-{user}.{number}")),
    };
    let is_own = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let names = || (0..NAMES_TRIED).map(named);
    names().find(is_own).or_else(|| names().find(is_free)).unwrap_or_else(|| named(0))
}

/// Makes a directory with its parents; the directory itself open to the user alone.
fn make_private(directory: &Path) -> Result<(), PathError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| io_error(directory, error))?;
    check_private(directory)
}

/// Is this a directory, not a link to one, that only the user may enter?
fn check_private(directory: &Path) -> Result<(), PathError> {
    let metadata = directory.symlink_metadata().map_err(|error| io_error(directory, error))?;
    let problem = if !metadata.is_dir() {
        "is not a directory"
    } else if metadata.uid() != rustix::process::getuid().as_raw() {
        "belongs to another user"
    } else if metadata.mode() & 0o077 != 0 {
        "is open to other users (chmod 700 closes it)"
    } else {
        return Ok(());
    };
    Err(PathError::Unsafe { directory: directory.to_owned(), problem })
}

fn io_error(directory: &Path, source: io::Error) -> PathError {
    PathError::Io { directory: directory.to_owned(), source }
}

#[cfg(test)]
mod tests;
