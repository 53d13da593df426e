//! The I/O node: knows the key of the latest boot of each node, answers requests, gives orders, and looks after its
//! peers.

use std::collections::BTreeMap;

use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::ids::NodeId;
use coppice_protocol::limits::{HEARTBEAT_DEAD_NS, HEARTBEAT_INTERVAL_NS, REQUESTS_IN_FLIGHT_MAX, SEND_QUEUE_BYTES};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Frame, Identity, Session};
use coppice_protocol::ship::Request;

use crate::checkers::{Progress, Violation, Who, ensure};
use crate::context::Context;
use crate::network::{ConnectionId, Side};
use crate::orders::Orders;
use crate::schedule::Event as Planned;
use crate::work;

/// Longest time that an order and the answer to it are thought to take, ns.
const ORDER_NS_MAX: u64 = 200_000_000;

/// The I/O node's end of a connection.
struct Peer {
    session: Session,
    channel: Channel,
    /// As it says, or has proved once the session is established.
    identity: Option<Identity>,
    opened_ns: u64,
    heard_ns: u64,
    pings: u64,
    /// Requests that are not answered yet.
    under_way: usize,
}

/// The I/O node.
#[derive(Default)]
pub(crate) struct IoNode {
    pub(crate) is_up: bool,
    keys: BTreeMap<NodeId, (Identity, NodeKey)>,
    peers: BTreeMap<ConnectionId, Peer>,
    orders: Orders,
}

impl IoNode {
    /// This boot of a node may connect from now on, and no earlier one.
    pub(crate) fn register(&mut self, identity: Identity, key: NodeKey, context: &mut Context) {
        self.keys.insert(identity.node, (identity, key));
        self.orders.boots(identity);
        context.checkers.retention.registered(identity);
        let is_earlier = |peer: &Peer| peer.identity.is_some_and(|peer| peer.node == identity.node && peer != identity);
        self.drop_peers(is_earlier, context);
    }

    fn drop_peers(&mut self, is_meant: impl Fn(&Peer) -> bool, context: &mut Context) {
        self.peers.retain(|connection, peer| {
            let meant = is_meant(peer);
            if meant {
                context.close(*connection, Side::IoNode);
            }
            !meant
        });
    }

    /// It ends without a word, and what it knew is gone.
    pub(crate) fn crash(&mut self, context: &mut Context) {
        self.is_up = false;
        self.keys.clear();
        self.orders.forget();
        for (connection, _) in core::mem::take(&mut self.peers) {
            context.vanish(connection, Side::IoNode);
        }
    }

    pub(crate) fn accept(&mut self, connection: ConnectionId, channel: Channel, context: &mut Context) {
        let session = Session::accept(channel, context.random.bytes(), context.now_ns);
        context.watch(connection, Side::IoNode, &session);
        let now_ns = context.now_ns;
        let peer =
            Peer { session, channel, identity: None, opened_ns: now_ns, heard_ns: now_ns, pings: 0, under_way: 0 };
        self.peers.insert(connection, peer);
    }

    pub(crate) fn arrive(
        &mut self,
        connection: ConnectionId,
        bytes: &[u8],
        context: &mut Context,
    ) -> Result<(), Violation> {
        let Some(mut peer) = self.peers.remove(&connection) else { return Ok(()) };
        peer.heard_ns = context.now_ns;
        let handled = context.feed(&mut peer.session, bytes)?;
        while let Some(event) = peer.session.poll_event() {
            match event {
                Event::KeyWanted(identity) => self.supply_key(connection, &mut peer, identity, context),
                Event::Established(identity) => self.established(connection, &mut peer, identity, context)?,
                Event::Frame(frame) => {
                    let network = context.network.get(connection);
                    context.checkers.delivery.accepted(connection, network, Side::IoNode, &frame)?;
                    match peer.channel {
                        Channel::Control => self.control(connection, &peer, &frame, context)?,
                        Channel::Ship => request(connection, &mut peer, &frame, context)?,
                    }
                }
            }
        }
        context.pump(connection, Side::IoNode, &mut peer.session);
        match handled.err().or(peer.session.failure()) {
            Some(error) => {
                context.trace.note(context.now_ns, "I/O node fails session", format_args!("{connection}: {error}"));
                context.close(connection, Side::IoNode);
            }
            None => {
                self.peers.insert(connection, peer);
            }
        }
        Ok(())
    }

    fn supply_key(&self, connection: ConnectionId, peer: &mut Peer, identity: Identity, context: &mut Context) {
        peer.identity = Some(identity);
        let key = self.keys.get(&identity.node).filter(|(current, _)| *current == identity).map(|(_, key)| key);
        if let Some(key) = key {
            let who = Who { identity, key: key.0, channel: peer.channel };
            context.checkers.identities.answers(connection, who);
        }
        peer.session.supply_key(key);
    }

    fn established(
        &mut self,
        connection: ConnectionId,
        peer: &mut Peer,
        identity: Identity,
        context: &mut Context,
    ) -> Result<(), Violation> {
        let current = self.keys.get(&identity.node).map(|(current, key)| (*current, key.0));
        context.checkers.identities.io_node_accepts(connection, peer.channel, identity, current)?;
        context.trace.note(
            context.now_ns,
            "I/O node established",
            format_args!("{connection} {} of {identity:?}", peer.channel),
        );
        // A node has one connection of each kind: an older one is half open.
        self.drop_peers(|older| older.channel == peer.channel && older.identity == Some(identity), context);
        if peer.channel == Channel::Control {
            context.plan(0, Planned::Heartbeat { connection });
            let again = self.orders.again(identity);
            context.trace.count("orders said again", again.len() as u64);
            give(connection, peer, identity, again, context)?;
        }
        Ok(())
    }

    /// Asks whether the peer is alive, and orders something now and then.
    pub(crate) fn heartbeat(&mut self, connection: ConnectionId, context: &mut Context) -> Result<(), Violation> {
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        if context.now_ns - peer.heard_ns > HEARTBEAT_DEAD_NS {
            context.trace.note(context.now_ns, "silent peer", format_args!("{connection}"));
            context.close(connection, Side::IoNode);
            self.peers.remove(&connection);
            return Ok(());
        }
        if peer.session.queued_bytes() <= SEND_QUEUE_BYTES {
            peer.pings += 1;
            // Its nodes say again whatever they are asked for again.
            let ping = ToNode::Ping { sequence: peer.pings, realtime_ns: context.now_ns, taken: 0 };
            say(connection, peer, &ping, context)?;
            if let Some(identity) = peer.identity {
                let orders = self.orders.next(identity, context);
                give(connection, peer, identity, orders, context)?;
            }
            context.pump(connection, Side::IoNode, &mut peer.session);
        }
        context.plan(HEARTBEAT_INTERVAL_NS, Planned::Heartbeat { connection });
        Ok(())
    }

    /// A message from a node on the control channel.
    fn control(
        &mut self,
        connection: ConnectionId,
        peer: &Peer,
        frame: &Frame,
        context: &mut Context,
    ) -> Result<(), Violation> {
        let message = frame.message::<ToIoNode>().map_err(|error| Violation::new(format!("control: {error}")))?;
        let identity = peer.identity.ok_or_else(|| Violation::new(format!("nobody said {message:?}")))?;
        let holder = context.network.get(connection).holder(Side::Node);
        context.checkers.retention.accepted(holder, identity, &message)?;
        self.orders.heard(identity, message);
        Ok(())
    }

    /// At the end of a run every job was heard of.
    pub(crate) fn all_ended(&self) -> Result<(), Violation> {
        let open = self.orders.open();
        ensure(open.is_none(), || format!("the end of job {open:?} was not heard of"))
    }

    /// The answer to a request is there.
    pub(crate) fn serve(
        &mut self,
        connection: ConnectionId,
        id: u64,
        request: Box<Request>,
        bulk_bytes: usize,
        context: &mut Context,
    ) -> Result<(), Violation> {
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        if peer.session.queued_bytes() > SEND_QUEUE_BYTES {
            context.plan(10_000_000, Planned::Serve { connection, id, request, bulk_bytes });
            return Ok(());
        }
        let (reply, bulk) = work::answer(&request, bulk_bytes);
        let sent = context.send(connection, Side::IoNode, &mut peer.session, id, &reply, bulk)?;
        ensure(sent.is_ok(), || format!("reply {id} on connection {connection} was not sent: {sent:?}"))?;
        peer.under_way -= 1;
        context.pump(connection, Side::IoNode, &mut peer.session);
        Ok(())
    }

    pub(crate) fn closed(&mut self, connection: ConnectionId, context: &mut Context) {
        if self.peers.remove(&connection).is_some() {
            context.close(connection, Side::IoNode);
        }
    }

    pub(crate) fn timeout(&mut self, connection: ConnectionId, context: &mut Context) -> Result<(), Violation> {
        let Some(peer) = self.peers.get_mut(&connection) else { return Ok(()) };
        let ended = peer.session.handle_timeout(context.now_ns);
        Progress::handshake(&peer.session, context.now_ns - peer.opened_ns)?;
        if let Err(error) = ended {
            context.trace.note(context.now_ns, "handshake timeout", format_args!("I/O node {connection}: {error}"));
            self.closed(connection, context);
        }
        Ok(())
    }

    /// There is room on the wire again.
    pub(crate) fn pump(&mut self, connection: ConnectionId, context: &mut Context) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            context.pump(connection, Side::IoNode, &mut peer.session);
        }
    }
}

fn say(connection: ConnectionId, peer: &mut Peer, message: &ToNode, context: &mut Context) -> Result<(), Violation> {
    let sent = context.send(connection, Side::IoNode, &mut peer.session, 0, message, Vec::new())?;
    // The session may have failed on bytes behind those that established it.
    ensure(sent.is_ok() || peer.session.failure().is_some(), || format!("{message:?} was not sent: {sent:?}"))
}

/// Gives orders to a boot, one right behind the other. Often the connection breaks before all of that has come to its
/// end.
fn give(
    connection: ConnectionId,
    peer: &mut Peer,
    boot: Identity,
    orders: Vec<ToNode>,
    context: &mut Context,
) -> Result<(), Violation> {
    if !orders.is_empty() && context.is_faulty() && context.random.chance(150) {
        context.plan_within(ORDER_NS_MAX, Planned::Cut { connection });
    }
    for order in orders {
        context.checkers.retention.ordered(boot, &order);
        say(connection, peer, &order, context)?;
    }
    Ok(())
}

/// A request from a node: its answer takes a while, and may be overtaken by others.
fn request(connection: ConnectionId, peer: &mut Peer, frame: &Frame, context: &mut Context) -> Result<(), Violation> {
    let request = frame.message().map_err(|error| Violation::new(format!("request: {error}")))?;
    peer.under_way += 1;
    ensure(peer.under_way <= REQUESTS_IN_FLIGHT_MAX, || format!("{} requests under way", peer.under_way))?;
    let serve = Planned::Serve { connection, id: frame.id, request: Box::new(request), bulk_bytes: frame.bulk.len() };
    context.plan_within(500_000_000, serve);
    Ok(())
}
