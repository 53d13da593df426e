//! The service node's side: its messages, one after the other, until it ends.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, bail};
use coppice_endpoint::{Config, Stack};
use coppice_protocol::control::ToNode;
use coppice_protocol::ids::{MacAddress, NETWORK_PREFIX};
use coppice_protocol::pset::{FromPset, MESSAGE_BYTES_MAX, ToPset, VERSION, decode};
use coppice_protocol::retain::Discard;
use coppice_protocol::session::{Channel, Identity};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::JoinSet;

use crate::accept;
use crate::clock::{Clock, random};
use crate::descriptors::Descriptors;
use crate::limits::SHUTDOWN_GRACE;
use crate::link::{Device, Port, drive};
use crate::opening::{Opener, Openings};
use crate::outbox::{Outbox, Queue, write_messages};
use crate::server::Server;
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
    let (outbox, queue) = Outbox::new();
    // Dropped with this future: nothing runs longer.
    let mut tasks = JoinSet::new();
    let server = configure(first, outbox.clone(), &mut tasks)?;
    let writing = tasks.spawn_local(write(queue, writer));
    outbox.send(FromPset::Listening).await;
    loop {
        let command = tokio::select! {
            command = commands.next() => command?,
            ended = tasks.join_next() => {
                // The others run for ever.
                debug_assert!(writing.is_finished() || ended.is_none());
                bail!("the service node takes no messages any more");
            }
        };
        match command {
            None => return Ok(()),
            Some(ToPset::Shutdown) => {
                power_off(&server).await;
                return Ok(());
            }
            Some(command) => execute(&server, command).await?,
        }
    }
}

async fn write(queue: Queue, writer: impl AsyncWrite + Unpin) {
    if let Err(error) = write_messages(queue, writer).await {
        tracing::warn!(%error, "write to the service node");
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Binds the sockets and starts the tasks that live as long as the I/O node.
fn configure(first: ToPset, outbox: Outbox, tasks: &mut JoinSet<()>) -> anyhow::Result<Rc<Server>> {
    let ToPset::Configure { version, pset, mtu, socket, fabric } = first else {
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
    confine(path(&socket));
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let openings = Openings::new(opener, Descriptors::of_limit(limit.unwrap_or(usize::MAX)));
    let server = Rc::new(Server::new(stack.clone(), clock, outbox, openings));
    for channel in [Channel::Control, Channel::Ship] {
        tasks.spawn_local(accept::Port::listen(&server, channel)?.accept(Rc::clone(&server)));
    }
    tasks.spawn_local(drive(stack, port, clock));
    tracing::info!(%pset, %address, "listening");
    Ok(server)
}

/// From here on, this thread and those it starts open no files. Nothing else is lost with that wall.
fn confine(socket: &Path) {
    match confine_to_nothing(socket.parent().unwrap_or(socket)) {
        Ok(Wall::Stands(version)) => tracing::info!(version, "Landlock holds jobs in their roots"),
        Ok(Wall::Missing) => tracing::warn!("this kernel has no Landlock to hold jobs in their roots a second time"),
        Err(error) => tracing::warn!(%error, "Landlock does not hold this process"),
    }
}

async fn execute(server: &Rc<Server>, command: ToPset) -> anyhow::Result<()> {
    let Some(command) = server.keep_for_later(command).await else { return Ok(()) };
    match command {
        ToPset::Configure { .. } => bail!("the service node configured this I/O node twice"),
        ToPset::AddNode { node, generation, key } => {
            server.end_ranks_on(node);
            server.nodes.borrow_mut().add(Identity { node, generation }, key);
        }
        ToPset::RemoveNode { node } => {
            server.end_ranks_on(node);
            server.nodes.borrow_mut().remove(node);
        }
        ToPset::Start(spec) => server.start(spec).await,
        ToPset::Discard { request, program, nodes } => server.discard(Discard { request, program }, &nodes),
        ToPset::Shutdown => {}
        ToPset::Ask => server.outbox.send(FromPset::Alive).await,
        other => server.execute_for_job(other),
    }
    Ok(())
}

/// Tells all nodes to power off, and waits a moment for them to hear it.
async fn power_off(server: &Server) {
    let lines = server.nodes.borrow().controls();
    let heard = async {
        for line in &lines {
            if let Err(error) = line.send(0, &ToNode::PowerOff, Vec::new()) {
                tracing::debug!(%error, "power-off was not sent");
            }
        }
        for line in &lines {
            line.flushed().await;
        }
    };
    if tokio::time::timeout(SHUTDOWN_GRACE, heard).await.is_err() {
        tracing::debug!("not every node took its power-off");
    }
}
