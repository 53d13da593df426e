//! A boot of a node: a control and a shipping connection, a program that makes requests, and what it does when a
//! connection is gone.

mod obey;

use std::collections::BTreeMap;

use coppice_protocol::control::{MemoryStatus, NodeStatus, ToIoNode};
use coppice_protocol::limits::{REQUESTS_IN_FLIGHT_MAX, SEND_QUEUE_BYTES};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Frame, Identity, Session};
use coppice_protocol::ship::Reply;

use crate::checkers::{Progress, Violation, Who, ensure};
use crate::context::Context;
use crate::network::{ConnectionId, Side};
use crate::schedule::Event as Planned;
use crate::tables::Tables;
use crate::work;

/// Number of a boot, never used again in a run.
pub(crate) type LifeId = usize;

/// Longest time from a node's boot to its first connection, ns.
const FIRST_CONNECT_NS_MAX: u64 = 500_000_000;

/// Longest pause before a node connects again, ns.
const RECONNECT_NS_MAX: u64 = 1_000_000_000;

/// Longest pause between two requests of a program, ns.
const REQUEST_PAUSE_NS_MAX: u64 = 2_000_000_000;

/// The node's end of a connection.
pub(crate) struct Link {
    pub(crate) connection: ConnectionId,
    pub(crate) session: Session,
    opened_ns: u64,
}

/// A boot of a node.
pub(crate) struct Life {
    id: LifeId,
    pub(crate) identity: Identity,
    pub(crate) key: NodeKey,
    pub(crate) alive: bool,
    links: [Option<Link>; 2],
    /// Requests under way and the answers to them.
    open: BTreeMap<u64, (Reply, Vec<u8>)>,
    requests: u64,
    is_issuing: bool,
    tables: Tables,
}

const fn index(channel: Channel) -> usize {
    match channel {
        Channel::Control => 0,
        Channel::Ship => 1,
    }
}

const MEMORY: MemoryStatus = MemoryStatus { total: 64 << 20, kernel: 6 << 20, free: 58 << 20, retained: 0 };

impl Life {
    pub(crate) fn new(id: LifeId, identity: Identity, key: NodeKey, context: &mut Context) -> Self {
        context.trace.note(context.now_ns, "boot", format_args!("life {id} of {identity:?}"));
        for channel in [Channel::Control, Channel::Ship] {
            context.plan_within(FIRST_CONNECT_NS_MAX, Planned::Connect { life: id, channel });
        }
        context.checkers.retention.boots(id, identity);
        let (open, links, tables) = (BTreeMap::new(), [None, None], Tables::new(identity.generation, context.policy));
        Self { id, identity, key, alive: true, links, open, requests: 0, is_issuing: false, tables }
    }

    pub(crate) fn wants_connection(&self, channel: Channel) -> bool {
        self.alive && self.links[index(channel)].is_none()
    }

    pub(crate) fn connect_later(&self, channel: Channel, context: &mut Context) {
        let pause_ns = context.random.between(RECONNECT_NS_MAX / 10, RECONNECT_NS_MAX);
        context.plan(pause_ns, Planned::Connect { life: self.id, channel });
    }

    /// The connection is there: says hello.
    pub(crate) fn call(&mut self, connection: ConnectionId, channel: Channel, context: &mut Context) {
        let nonce = context.random.bytes();
        let mut session = Session::connect(channel, self.identity, &self.key, nonce, context.now_ns);
        let who = Who { identity: self.identity, key: self.key.0, channel };
        context.checkers.identities.calls(connection, who);
        context.watch(connection, Side::Node, &session);
        context.pump(connection, Side::Node, &mut session);
        self.links[index(channel)] = Some(Link { connection, session, opened_ns: context.now_ns });
    }

    /// Which of its links this connection is.
    fn channel_of(&self, connection: ConnectionId) -> Option<Channel> {
        let is =
            |channel: &Channel| self.links[index(*channel)].as_ref().is_some_and(|link| link.connection == connection);
        [Channel::Control, Channel::Ship].into_iter().find(is)
    }

    pub(crate) fn arrive(
        &mut self,
        connection: ConnectionId,
        bytes: &[u8],
        context: &mut Context,
    ) -> Result<(), Violation> {
        let Some(channel) = self.channel_of(connection) else { return Ok(()) };
        let Some(mut link) = self.links[index(channel)].take() else { return Ok(()) };
        let handled = context.feed(&mut link.session, bytes)?;
        while let Some(event) = link.session.poll_event() {
            match event {
                Event::KeyWanted(identity) => {
                    return Err(Violation::new(format!("a node was asked for the key of {identity:?}")));
                }
                Event::Established(_) => self.established(channel, &mut link, context)?,
                Event::Frame(frame) => {
                    let network = context.network.get(connection);
                    context.checkers.delivery.accepted(connection, network, Side::Node, &frame)?;
                    match channel {
                        Channel::Control => self.obey(&mut link, &frame, context)?,
                        Channel::Ship => self.answered(connection, &frame, context)?,
                    }
                }
            }
        }
        context.pump(connection, Side::Node, &mut link.session);
        self.links[index(channel)] = Some(link);
        if let Err(error) = handled {
            context.trace.note(context.now_ns, "node fails session", format_args!("life {}: {error}", self.id));
            context.close(connection, Side::Node);
            self.lost(channel, context)?;
        }
        Ok(())
    }

    fn established(&mut self, channel: Channel, link: &mut Link, context: &mut Context) -> Result<(), Violation> {
        context.checkers.identities.node_accepts(link.connection)?;
        context.trace.note(context.now_ns, "node established", format_args!("life {} {channel}", self.id));
        match channel {
            Channel::Control => {
                let status = NodeStatus {
                    kernel: "simulated".to_owned(),
                    boot_ns: 1,
                    boot_idle_ns: 0,
                    cores: 1,
                    memory: MEMORY,
                };
                say(link, &ToIoNode::Ready(status), context)?;
                self.tables.said().iter().try_for_each(|message| say(link, message, context))
            }
            Channel::Ship => {
                if !self.is_issuing {
                    self.is_issuing = true;
                    context.plan_within(REQUEST_PAUSE_NS_MAX, Planned::Issue { life: self.id });
                }
                Ok(())
            }
        }
    }

    /// The program makes a request, if there is a connection and room.
    pub(crate) fn issue(&mut self, context: &mut Context) -> Result<(), Violation> {
        let link = self.links[index(Channel::Ship)].as_mut().filter(|link| link.session.is_established());
        let Some(link) = link.filter(|_| self.alive && context.is_busy()) else {
            self.is_issuing = false;
            return Ok(());
        };
        // Sometimes a burst that fills all there is.
        let burst = if context.random.chance(100) { 64 } else { 1 };
        for _ in 0..burst {
            if self.open.len() >= REQUESTS_IN_FLIGHT_MAX || link.session.queued_bytes() > SEND_QUEUE_BYTES {
                break;
            }
            self.requests += 1;
            let id = self.requests;
            let (request, bulk) = work::request(&mut context.random);
            let expected = work::answer(&request, bulk.len());
            context.checkers.requests.made(self.id, id)?;
            let sent = context.send(link.connection, Side::Node, &mut link.session, id, &request, bulk)?;
            ensure(sent.is_ok(), || format!("request {id} of life {} was not sent: {sent:?}", self.id))?;
            self.open.insert(id, expected);
        }
        context.pump(link.connection, Side::Node, &mut link.session);
        context.plan_within(REQUEST_PAUSE_NS_MAX, Planned::Issue { life: self.id });
        Ok(())
    }

    fn answered(&mut self, connection: ConnectionId, frame: &Frame, context: &mut Context) -> Result<(), Violation> {
        let id = frame.id;
        context.checkers.requests.answered(self.id, id)?;
        let expected = self.open.remove(&id);
        let reply = frame.message::<Reply>().map_err(|error| Violation::new(format!("reply {id}: {error}")))?;
        let tampered = context.network.get(connection).is_tampered();
        let right = expected.is_some_and(|(expected, bulk)| {
            expected == reply && if tampered { bulk.len() == frame.bulk.len() } else { bulk == frame.bulk }
        });
        ensure(right, || format!("request {id} of life {} got the answer to another", self.id))?;
        context.trace.count("requests answered", 1);
        if !context.is_faulty() {
            context.checkers.progress.answered_in_quiet(self.id);
        }
        Ok(())
    }

    /// It learns that a connection is gone.
    pub(crate) fn closed(&mut self, connection: ConnectionId, context: &mut Context) -> Result<(), Violation> {
        let Some(channel) = self.channel_of(connection) else { return Ok(()) };
        context.close(connection, Side::Node);
        self.lost(channel, context)
    }

    fn lost(&mut self, channel: Channel, context: &mut Context) -> Result<(), Violation> {
        self.links[index(channel)] = None;
        context.trace.note(context.now_ns, "connection lost", format_args!("life {} {channel}", self.id));
        if channel == Channel::Ship {
            for (id, _) in core::mem::take(&mut self.open) {
                context.checkers.requests.lost(self.id, id)?;
                context.trace.count("requests lost", 1);
            }
        }
        self.connect_later(channel, context);
        Ok(())
    }

    pub(crate) fn timeout(&mut self, connection: ConnectionId, context: &mut Context) -> Result<(), Violation> {
        let Some(channel) = self.channel_of(connection) else { return Ok(()) };
        let Some(link) = self.links[index(channel)].as_mut() else { return Ok(()) };
        let ended = link.session.handle_timeout(context.now_ns);
        Progress::handshake(&link.session, context.now_ns - link.opened_ns)?;
        if let Err(error) = ended {
            context.trace.note(context.now_ns, "handshake timeout", format_args!("life {}: {error}", self.id));
            context.close(connection, Side::Node);
            self.lost(channel, context)?;
        }
        Ok(())
    }

    /// There is room on the wire again.
    pub(crate) fn pump(&mut self, connection: ConnectionId, context: &mut Context) {
        if let Some(channel) = self.channel_of(connection)
            && let Some(link) = self.links[index(channel)].as_mut()
        {
            context.pump(connection, Side::Node, &mut link.session);
        }
    }

    /// The machine is switched off.
    pub(crate) fn end(&mut self, context: &mut Context) {
        if !self.alive {
            return;
        }
        self.alive = false;
        context.trace.note(context.now_ns, "end", format_args!("life {}", self.id));
        context.checkers.requests.ended(self.id);
        self.open.clear();
        for link in self.links.iter_mut().filter_map(Option::take) {
            context.vanish(link.connection, Side::Node);
        }
    }

    /// The sessions as they are.
    pub(crate) fn sessions(&self) -> [Option<&Session>; 2] {
        self.links.each_ref().map(|link| link.as_ref().map(|link| &link.session))
    }
}

fn say(link: &mut Link, message: &ToIoNode, context: &mut Context) -> Result<(), Violation> {
    let sent = context.send(link.connection, Side::Node, &mut link.session, 0, message, Vec::new())?;
    // The session may have failed on bytes behind the message that is answered here.
    ensure(sent.is_ok() || link.session.failure().is_some(), || format!("{message:?} was not sent: {sent:?}"))
}
