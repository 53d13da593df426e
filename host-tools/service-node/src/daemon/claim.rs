//! That there is one service node for a cluster: by a lock on a file of its state directory, and by a name that lies in
//! no directory. The file says which process it is; the name is there whatever was deleted. Both are of this machine;
//! for state directories that several machines share there is a record that names the machine.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use coppice_api::holder::{self, Holder};
use coppice_api::paths::ClusterPaths;
use coppice_api::{presence, shown};
use rustix::fs::FlockOperation;

use crate::limits::{LOCK_RETRY_INTERVAL, LOCK_TIME_MAX};

/// What a cluster's only service node has as long as it lives.
pub(super) struct Claim {
    _lock: File,
    /// `None`: another user has taken it.
    name: Option<UnixListener>,
}

impl Claim {
    /// Claims a cluster.
    ///
    /// # Errors
    /// Somebody has it, or the lock cannot be used; one line.
    pub(super) fn take(paths: &ClusterPaths) -> anyhow::Result<Self> {
        // First, as locks may hold across machines, and their process is then not ours.
        holder::check(paths)?;
        let mut lock = lock(paths)?;
        let name = name(paths)?;
        holder::take(paths)?;
        // Only now, so that it never names one that is to end at once.
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id()).with_context(|| shown(&paths.lock()).to_string())?;
        Ok(Self { _lock: lock, name })
    }

    /// Gives the cluster up: whoever waits for that finds nothing left, on whatever machine.
    pub(super) fn give_up(self, paths: &ClusterPaths) {
        if let Err(error) = holder::give_up(paths, &Holder::own()) {
            tracing::warn!(%error, "the state directory goes on to name this machine");
        }
    }

    /// Lets the cluster be found by its name: who connects needs to hear nothing.
    pub(super) fn be_found(&self) -> anyhow::Result<()> {
        let Some(name) = &self.name else {
            tracing::warn!("the cluster's name on this machine is taken by another user");
            return Ok(());
        };
        let name = name.try_clone()?;
        name.set_nonblocking(true)?;
        let name = tokio::net::UnixListener::from_std(name)?;
        tokio::spawn(async move {
            loop {
                if name.accept().await.is_err() {
                    // Descriptors have run out; those who connect have found it all the same.
                    tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
                }
            }
        });
        Ok(())
    }
}

fn lock(paths: &ClusterPaths) -> anyhow::Result<File> {
    let path = paths.lock();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .with_context(|| shown(&path).to_string())?;
    match try_lock(&file, paths) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            Err(up_already(paths, owner.trim()))
        }
        Err(errno) => bail!("cannot lock {}: {errno}", shown(&path)),
    }
}

/// Takes the lock at once, or while its holder is only on its way out: a service node that was killed keeps its lock
/// until the last of its threads is gone, but answers no more on its socket. Just before that its socket may still be
/// there, and take calls that nobody will hear.
fn try_lock(file: &File, paths: &ClusterPaths) -> rustix::io::Result<()> {
    let end = Instant::now() + LOCK_TIME_MAX;
    loop {
        let taken = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        let answers = || UnixStream::connect(paths.api_socket()).is_ok_and(|call| !is_ending(&call));
        if taken != Err(rustix::io::Errno::WOULDBLOCK) || answers() || Instant::now() >= end {
            return taken;
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
}

/// Whether the process that was called has given its memory back already, and is about to close its descriptors.
fn is_ending(call: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(call);
    peer.is_ok_and(|peer| has_no_memory(peer.pid))
}

fn has_no_memory(process: rustix::process::Pid) -> bool {
    // Empty as soon as the memory is gone in which it was.
    std::fs::read(format!("/proc/{}/cmdline", process.as_raw_pid())).is_ok_and(|command| command.is_empty())
}

/// Takes the cluster's name on this machine, at once or when a service node on its way out gives it up.
fn name(paths: &ClusterPaths) -> anyhow::Result<Option<UnixListener>> {
    let end = Instant::now() + LOCK_TIME_MAX;
    loop {
        match presence::announce(paths) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            taken => return taken.map(Some).context("cannot take the cluster's name"),
        }
        if Instant::now() >= end {
            // The lock was free: if the other is ours, its state directory was deleted.
            return match presence::find(paths) {
                Some(present) => Err(up_already(paths, &present.process().as_raw_pid().to_string())),
                None => Ok(None),
            };
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
}

fn up_already(paths: &ClusterPaths, process: &str) -> anyhow::Error {
    anyhow!(
        "cluster '{}' is up already (coppiced is process {process}); end it with `coppice down`, or use another \
         --cluster name",
        paths.name()
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::has_no_memory;

    #[test]
    fn a_process_that_ends_has_no_memory() {
        assert!(!has_no_memory(rustix::process::getpid()));
        let mut child = Command::new("true").spawn().expect("a process");
        let process = rustix::process::Pid::from_child(&child);
        // It stays there as long as nobody asks for its status.
        rustix::process::waitid(
            rustix::process::WaitId::Pid(process),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .expect("it ends");
        assert!(has_no_memory(process));
        child.wait().expect("it has ended");
        assert!(!has_no_memory(process), "it is gone");
    }
}
