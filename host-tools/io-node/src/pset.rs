//! The service node's side: its messages, one after the other, until it ends.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, bail};
use coppice_endpoint::{Config, Stack};
use coppice_protocol::ids::{MacAddress, NETWORK_PREFIX};
use coppice_protocol::pset::{MESSAGE_BYTES_MAX, ToPset, VERSION, decode};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::JoinSet;

use crate::clock::{Clock, random};
use crate::disk::{Objects, Opener};
use crate::link::{Device, Port, drive};
use crate::shell::Shell;
use crate::wall::{Wall, confine_to_nothing};

/// Bytes read from the service node at a time.
const READ_BYTES: usize = 64 * 1024;

/// The service node's messages.
struct Commands<R> {
    reader: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Commands<R> {
    /// The next message; `None` at the end. Nothing is lost if the future is dropped.
    async fn next(&mut self) -> anyhow::Result<Option<ToPset>> {
        loop {
            if let Some((message, taken)) = decode(&self.buffer).context("message of the service node")? {
                self.buffer.drain(..taken);
                return Ok(Some(message));
            }
            // One message and a read at most: longer ones were refused just now.
            debug_assert!(self.buffer.len() <= MESSAGE_BYTES_MAX + READ_BYTES);
            self.buffer.reserve(READ_BYTES);
            if self.reader.read_buf(&mut self.buffer).await.context("read from the service node")? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Serves a pset until the service node ends or says so. Must run in a [`tokio::task::LocalSet`].
///
/// # Errors
/// If the service node does not keep to the protocol or the sockets cannot be bound.
pub async fn run(reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin + 'static) -> anyhow::Result<()> {
    let mut commands = Commands { reader, buffer: Vec::new() };
    let Some(first) = commands.next().await? else { return Ok(()) };
    // Dropped with this future: nothing runs longer.
    let mut tasks = JoinSet::new();
    let shell = configure(first, writer, &mut tasks)?;
    while !shell.is_stopping() {
        let order = async {
            let Some(order) = commands.next().await? else { return Ok(false) };
            shell.order(order).await.context("message of the service node")?;
            anyhow::Ok(true)
        };
        tokio::select! {
            goes_on = order => if !goes_on? { return Ok(()) },
            // All of them run for ever, but the one that writes.
            _ = tasks.join_next() => bail!("the service node takes no messages any more"),
        }
    }
    shell.over().await;
    Ok(())
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Binds the sockets and starts the tasks that live as long as the I/O node.
fn configure(
    first: ToPset,
    writer: impl AsyncWrite + Unpin + 'static,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<Rc<Shell>> {
    let ToPset::Configure { version, pset, mtu, socket, fabric, storage, regions } = first else {
        bail!("the service node's first message is not its configuration");
    };
    if version != VERSION {
        bail!("the service node speaks version {version} of the pset protocol, this is version {VERSION}");
    }
    let clock = Clock::start();
    let address: Ipv4Addr = pset.address();
    let seed = u64::from_le_bytes(random().context("no random numbers")?);
    let config = Config { mac: MacAddress::of(address), address, prefix: NETWORK_PREFIX, seed };
    let stack = Stack::new(Device::new(mtu), config, clock.now_ns());
    let port = Port::bind(path(&socket), path(&fabric))?;
    let opener = Opener::start().context("cannot start a thread")?;
    let [storage, regions] = [&storage, &regions].map(|directory| directory.as_ref().map(|bytes| path(bytes)));
    let objects = Objects::start(storage, regions).context("cannot start a thread")?;
    confine(path(&socket));
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let shell = Shell::start(&stack, pset, clock, (opener, objects, limit.unwrap_or(usize::MAX)), writer, tasks)?;
    tasks.spawn_local(drive(stack, port, clock));
    tracing::info!(%pset, %address, "listening");
    shell.begin();
    Ok(shell)
}

/// From here on, this thread and those it starts open no files. Nothing else is lost with that wall.
fn confine(socket: &Path) {
    match confine_to_nothing(socket.parent().unwrap_or(socket)) {
        Ok(Wall::Stands(version)) => tracing::info!(version, "Landlock holds jobs in their roots"),
        Ok(Wall::Missing) => tracing::warn!("this kernel has no Landlock to hold jobs in their roots a second time"),
        Err(error) => tracing::warn!(%error, "Landlock does not hold this process"),
    }
}
