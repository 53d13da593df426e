//! A name by which a running cluster is found whatever was deleted: an abstract Unix socket of the service node.
//!
//! Such a name lies in no directory, belongs to the process that has it and ends with it. It says which user's cluster
//! it is and where its state is; whoever connects learns from the system which process that is, and hears nothing.

use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::process::Pid;

use crate::paths::ClusterPaths;

/// The service node of a cluster, found by its name.
#[derive(Debug)]
pub struct Present {
    process: Pid,
}

impl Present {
    /// Its process, when it was looked for. It may have ended since.
    #[must_use]
    pub fn process(&self) -> Pid {
        self.process
    }
}

/// Takes the name of a cluster. It is had as long as what this returns lives; connections to it are to be taken and
/// dropped.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if somebody has it.
pub fn announce(paths: &ClusterPaths) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&name(paths)?)
}

/// Who has the name of a cluster, if it is a process of this user.
#[must_use]
pub fn find(paths: &ClusterPaths) -> Option<Present> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        // Nobody is waited for: one who takes no more connections is not found.
        rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK,
        None,
    );
    let connection = UnixStream::from(socket.ok()?);
    let address = rustix::net::SocketAddrUnix::new_abstract_name(&bytes(paths)).ok()?;
    rustix::net::connect(&connection, &address).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(connection.as_fd()).ok()?;
    (peer.uid == rustix::process::getuid()).then_some(Present { process: peer.pid })
}

fn name(paths: &ClusterPaths) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(bytes(paths))
}

/// The same for the same user and state directory, and short.
fn bytes(paths: &ClusterPaths) -> Vec<u8> {
    let state = blake3::hash(paths.state().as_os_str().as_encoded_bytes());
    format!("coppice/{}/{}", rustix::process::getuid().as_raw(), &state.to_hex()[..32]).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::{announce, find};
    use crate::paths::ClusterPaths;

    fn paths(home: &Path) -> ClusterPaths {
        let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| OsString::from(home));
        ClusterPaths::find_with("test".parse().expect("a name"), variable, 1000).expect("paths")
    }

    #[test]
    fn who_has_the_name_is_found_until_it_is_given_up() {
        let home = tempfile::tempdir().expect("directory");
        let paths = paths(home.path());
        assert!(find(&paths).is_none());
        let name = announce(&paths).expect("free");
        assert_eq!(announce(&paths).expect_err("taken").kind(), std::io::ErrorKind::AddrInUse);
        let own = rustix::process::getpid();
        assert_eq!(find(&paths).expect("present").process(), own);
        drop(name);
        assert!(find(&paths).is_none());
    }
}
