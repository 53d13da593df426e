//! Accepting connections: handshake, then the service of the port.

use std::cell::Cell;
use std::rc::Rc;

use coppice_endpoint::{BufferSizes, NetError, TcpListener, TcpStream};
use coppice_protocol::limits::{CONTROL_PORT, SHIP_PORT};
use coppice_protocol::session::{Channel, Event, Identity, Session};
use tokio::time::Instant;

use crate::clock::random;
use crate::limits::{ACCEPT_PAUSE, BACKLOG, CONTROL_BUFFER_BYTES, HANDSHAKES_MAX, SHIP_BUFFER_BYTES};
use crate::line::{Line, LineError};
use crate::link::Device;
use crate::peers;
use crate::server::Server;

/// A port that is listened on.
pub(crate) struct Port {
    channel: Channel,
    listener: TcpListener<Device>,
}

impl Port {
    /// Listens on the port of `channel`.
    ///
    /// # Errors
    /// As [`coppice_endpoint::Stack::listen`].
    pub(crate) fn listen(server: &Server, channel: Channel) -> Result<Self, NetError> {
        let (port, bytes) = match channel {
            Channel::Control => (CONTROL_PORT, CONTROL_BUFFER_BYTES),
            Channel::Ship => (SHIP_PORT, SHIP_BUFFER_BYTES),
        };
        let listener = server.stack.listen(port, BACKLOG, BufferSizes { receive: bytes, transmit: bytes })?;
        Ok(Self { channel, listener })
    }

    /// Accepts connections for ever, each into a task of its own.
    pub(crate) async fn accept(self, server: Rc<Server>) {
        let handshakes = Rc::new(Cell::new(0));
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, channel = %self.channel, "accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if handshakes.get() >= HANDSHAKES_MAX {
                stream.abort();
                continue;
            }
            let (server, handshakes) = (Rc::clone(&server), Rc::clone(&handshakes));
            tokio::task::spawn_local(serve(server, stream, self.channel, handshakes));
        }
    }
}

/// Counts a handshake as long as it lives.
struct Handshake(Rc<Cell<usize>>);

impl Handshake {
    fn new(count: Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Serves one connection from its first byte to its end.
async fn serve(server: Rc<Server>, stream: TcpStream<Device>, channel: Channel, handshakes: Rc<Cell<usize>>) {
    let handshake = Handshake::new(handshakes);
    let nonce = match random() {
        Ok(nonce) => nonce,
        Err(error) => {
            tracing::error!(%error, "no random numbers");
            stream.abort();
            return;
        }
    };
    let line = Rc::new(Line::new(stream, Session::accept(channel, nonce, server.clock.now_ns())));
    let authenticated = Cell::new(None);
    let error = tokio::select! {
        error = line.until_cut() => error,
        error = line.write() => error,
        error = serve_session(&server, &line, handshake, &authenticated) => error,
    };
    tracing::debug!(?line, %error, "connection ended");
    finish(&server, &line, authenticated.get(), error).await;
}

async fn serve_session(
    server: &Rc<Server>,
    line: &Rc<Line>,
    handshake: Handshake,
    authenticated: &Cell<Option<Identity>>,
) -> LineError {
    let identity = match authenticate(server, line).await {
        Ok(identity) => identity,
        Err(error) => return error,
    };
    drop(handshake);
    let attached = server.nodes.borrow_mut().attach(identity, line);
    let Some(answers) = attached else { return LineError::Cut("the node was rebooted or removed") };
    // At once: what is answered from now on goes to this line, and only if it was asked for here.
    let connection = (line.channel() == Channel::Ship).then(|| answers.connected());
    authenticated.set(Some(identity));
    server.check_ready(identity).await;
    match connection {
        None => crate::control::serve(server, line, identity).await,
        Some(connection) => crate::ship::serve(server, line, identity, (&answers, connection)).await,
    }
}

/// Waits until the peer has proved who it is.
async fn authenticate(server: &Server, line: &Line) -> Result<Identity, LineError> {
    let handshake = async {
        loop {
            match line.next_event().await? {
                Event::KeyWanted(identity) => {
                    let key = server.nodes.borrow().key(identity);
                    line.with_session(|session| session.supply_key(key.as_ref()));
                }
                Event::Established(identity) => return Ok(identity),
                Event::Frame(_) => return Err(LineError::Message),
            }
        }
    };
    let deadline_ns = line.with_session(|session| session.poll_timeout()).unwrap_or(0);
    match tokio::time::timeout_at(server.clock.instant(deadline_ns), handshake).await {
        Ok(result) => result,
        Err(_) => {
            let now_ns = server.clock.now_ns().max(deadline_ns);
            Err(line
                .with_session(|session| session.handle_timeout(now_ns))
                .err()
                .map_or(LineError::Message, Into::into))
        }
    }
}

/// What follows from the end of a connection.
async fn finish(server: &Rc<Server>, line: &Rc<Line>, authenticated: Option<Identity>, error: LineError) {
    match &error {
        LineError::Session(_) => line.end(),
        _ => line.abort(),
    }
    if let LineError::Session(failure) = &error
        && peers::is_bad(failure)
    {
        let event = server.bad_peers.borrow_mut().event(Instant::now(), line.peer(), *failure);
        let node = line.claimed().map(|claimed| claimed.node).or_else(|| peers::node_at(line.peer().0));
        tracing::debug!(?node, %failure, "bad peer");
        if let (Some(event), Some(node)) = (event, node) {
            server.report(node, event).await;
        }
    }
    let Some(identity) = authenticated else { return };
    let loss = server.nodes.borrow_mut().detach(identity, line);
    match (loss, &error) {
        (None, _) => {}
        (Some(_), LineError::Silent(_)) => server.lose_node(identity, error.to_string()).await,
        (Some(loss), _) => {
            let server = Rc::clone(server);
            let reason = format!("{} connection lost: {error}", line.channel());
            tokio::task::spawn_local(async move { server.wait_for_return(loss, identity, reason).await });
        }
    }
}
