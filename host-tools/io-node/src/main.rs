//! `coppice-io-node`: serves one pset over its standard input and output, and ends with them.

use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::process::ExitCode;

use anyhow::Context;
use coppice_io_node::limits::BLOCKING_THREADS_MAX;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tracing_subscriber::EnvFilter;

/// Linux's number of the signal for writing beyond the file size limit.
const SIGXFSZ: i32 = 25;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The one line that the service node passes on. It goes to a log, whose disk may be full.
            let _ = writeln!(std::io::stderr(), "coppice-io-node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_env("COPPICE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Standard error is a log, whose disk may be full. To say that there ends the process.
        .log_internal_errors(false)
        .init();
    // Modes come from the nodes with the program's own mask applied.
    rustix::process::umask(rustix::fs::Mode::empty());
    raise_descriptor_limit();
    // Before there is any other thread.
    if let Err(error) = coppice_io_node::privileges::give_up() {
        tracing::warn!(%error, "cannot give up privileges");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(LocalSet::new().run_until(serve()));
    // Not even a disk that never answers holds the end up.
    runtime.shutdown_background();
    result
}

async fn serve() -> anyhow::Result<()> {
    // Caught, so that a write beyond the limit is EFBIG for the program and not the end of this process.
    let _file_too_large = signal(SignalKind::from_raw(SIGXFSZ)).context("cannot catch SIGXFSZ")?;
    coppice_io_node::run(input()?, output()?).await
}

/// Every open file of every rank is a descriptor here.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

fn duplicate(stream: &impl AsFd) -> anyhow::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned().context("standard stream is not usable")
}

/// Standard input: a pipe in use, anything else in a test by hand.
fn input() -> anyhow::Result<Pin<Box<dyn AsyncRead>>> {
    Ok(match pipe::Receiver::from_owned_fd(duplicate(&std::io::stdin())?) {
        Ok(pipe) => Box::pin(pipe),
        Err(_) => Box::pin(tokio::io::stdin()),
    })
}

fn output() -> anyhow::Result<Pin<Box<dyn AsyncWrite>>> {
    Ok(match pipe::Sender::from_owned_fd(duplicate(&std::io::stdout())?) {
        Ok(pipe) => Box::pin(pipe),
        Err(_) => Box::pin(tokio::io::stdout()),
    })
}
