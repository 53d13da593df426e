//! `coppice down`: ends a cluster and makes sure that it is gone.

use std::fmt::Display;
use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use coppice_api::holder::{self, Holder};
use coppice_api::{ApiError, Client, presence, shown};
use rustix::fs::FlockOperation;
use rustix::process::{PidfdFlags, Signal};

use crate::progress;
use crate::show::print;

/// How long a service node may take to end everything; it kills what does not end by itself much earlier.
pub(crate) const DOWN_TIME_MAX: Duration = Duration::from_secs(15);

/// How often to look whether it is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) async fn down(client: &Client) -> anyhow::Result<()> {
    end(client).await?;
    print(&format!("cluster '{}' is down\n", client.paths().name()))
}

/// Ends the cluster and waits until nothing of it is left.
pub(crate) async fn end(client: &Client) -> anyhow::Result<()> {
    let spinner = progress::spinner(format!("ending cluster '{}'", client.paths().name()));
    let result = match client.down().await {
        Ok(()) => wait_until_gone(client).await,
        Err(error @ ApiError::NotUp(_)) => remove_remains(client).and(Err(error.into())),
        // It may be ending already.
        Err(ApiError::Connection(_)) => wait_until_gone(client).await,
        // There is no socket to ask it through.
        Err(ApiError::Unreachable { .. }) => match terminate(client) {
            Ok(()) => wait_until_gone(client).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    };
    spinner.finish_and_clear();
    result
}

/// A service node that was killed leaves its sockets, and that this machine has the cluster. Without its lock nobody
/// uses them. What another machine has is left alone.
pub(crate) fn remove_remains(client: &Client) -> anyhow::Result<()> {
    let paths = client.paths();
    let left = Holder::of(paths).ok().flatten();
    if holder::check(paths).is_err() || !(paths.runtime().exists() || left.is_some()) || is_there(client)? {
        return Ok(());
    }
    if let Some(left) = left {
        holder::give_up(paths, &left).with_context(|| shown(&paths.holder()).to_string())?;
    }
    if paths.runtime().exists() {
        paths.remove_runtime()?;
    }
    Ok(())
}

/// A service node was asked to end and is still there.
pub(crate) fn does_not_end(process: impl Display) -> anyhow::Error {
    anyhow!(
        "coppiced, process {process}, has not ended after {} s; `kill -9 {process}` ends it and all of its nodes",
        DOWN_TIME_MAX.as_secs()
    )
}

/// Asks a service node to end by a signal, which does the same.
fn terminate(client: &Client) -> anyhow::Result<()> {
    let find = || presence::find(client.paths()).map(|present| present.process());
    let Some(process) = find() else { return Ok(()) };
    let asked = rustix::process::pidfd_open(process, PidfdFlags::empty()).and_then(|process_file| {
        // What was opened is the service node and not who got its number, if that still is the service node's.
        if find() == Some(process) { rustix::process::pidfd_send_signal(process_file, Signal::TERM) } else { Ok(()) }
    });
    match asked {
        // It has ended by itself.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        asked => asked.with_context(|| format!("cannot end coppiced, process {}", process.as_raw_pid())),
    }
}

/// The service node has its lock and its name as long as it lives; it has seen the end of every process before it ends
/// itself.
async fn wait_until_gone(client: &Client) -> anyhow::Result<()> {
    let start = Instant::now();
    while is_there(client)? {
        if start.elapsed() > DOWN_TIME_MAX {
            let owner = match presence::find(client.paths()) {
                Some(present) => present.process().as_raw_pid().to_string(),
                None => std::fs::read_to_string(client.paths().lock()).unwrap_or_default(),
            };
            return Err(does_not_end(owner.trim()));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

/// Whether the cluster has a service node.
fn is_there(client: &Client) -> anyhow::Result<bool> {
    Ok(is_locked(client)? || presence::find(client.paths()).is_some())
}

fn is_locked(client: &Client) -> anyhow::Result<bool> {
    let path = client.paths().lock();
    let Ok(file) = File::open(&path) else { return Ok(false) };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno).with_context(|| format!("cannot look at {}", shown(&path))),
    }
}
