//! Strangers: they call the I/O node and answer nodes, with a key of their own, with what they overheard, with noise.

use std::collections::BTreeMap;

use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Identity, Session};

use crate::checkers::{Violation, Who};
use crate::context::Context;
use crate::network::{ConnectionId, Holder, Side};

/// Length of a node's first frame, bytes.
const HELLO_BYTES: usize = 84;

/// What a stranger does at its end of a connection.
enum Stranger {
    /// Speaks the protocol with a wrong key (or on the wrong channel).
    Session { session: Box<Session>, key: NodeKey, channel: Channel },
    /// Plays this back once it hears something.
    Playback(Vec<u8>),
    /// Sends back what it hears.
    Echo,
    /// Says nothing.
    Silent,
}

/// All strangers of a run.
#[derive(Default)]
pub(crate) struct Strangers {
    ends: BTreeMap<(ConnectionId, Side), Stranger>,
}

impl Strangers {
    /// Calls the I/O node as this boot of a node, which it is not. `key` is the boot's own, for a stranger who calls
    /// the wrong port.
    pub(crate) fn call(
        &mut self,
        channel: Channel,
        identity: Identity,
        key: &NodeKey,
        context: &mut Context,
    ) -> ConnectionId {
        let connection = context.open(channel, [Holder::Stranger, Holder::IoNode]);
        let stranger = match context.random.between(0, 4) {
            0 => {
                let wrong = NodeKey(context.random.bytes());
                Self::speak(connection, channel, identity, wrong, context)
            }
            1 => {
                let other = if channel == Channel::Control { Channel::Ship } else { Channel::Control };
                Self::speak(connection, other, identity, key.clone(), context)
            }
            2 => Stranger::Silent,
            kind => {
                let from = if kind == 3 { Side::IoNode } else { Side::Node };
                let mut bytes = overheard(channel, from, context);
                // A patient one waits for the challenge before he goes on.
                let rest = bytes.split_off(bytes.len().min(HELLO_BYTES));
                context.put_on_wire(connection, Side::Node, &bytes);
                Stranger::Playback(rest)
            }
        };
        self.ends.insert((connection, Side::Node), stranger);
        connection
    }

    fn speak(
        connection: ConnectionId,
        channel: Channel,
        identity: Identity,
        key: NodeKey,
        context: &mut Context,
    ) -> Stranger {
        let nonce = context.random.bytes();
        let mut session = Session::connect(channel, identity, &key, nonce, context.now_ns);
        context.checkers.identities.calls(connection, Who { identity, key: key.0, channel });
        context.pump(connection, Side::Node, &mut session);
        Stranger::Session { session: Box::new(session), key, channel }
    }

    /// Answers a node in the I/O node's place.
    pub(crate) fn answer(&mut self, connection: ConnectionId, channel: Channel, context: &mut Context) {
        let stranger = match context.random.between(0, 3) {
            0 => {
                let session = Session::accept(channel, context.random.bytes(), context.now_ns);
                Stranger::Session { session: Box::new(session), key: NodeKey(context.random.bytes()), channel }
            }
            1 => Stranger::Playback(overheard(channel, Side::Node, context)),
            2 => Stranger::Echo,
            _ => Stranger::Silent,
        };
        self.ends.insert((connection, Side::IoNode), stranger);
    }

    pub(crate) fn arrive(
        &mut self,
        connection: ConnectionId,
        at: Side,
        bytes: &[u8],
        context: &mut Context,
    ) -> Result<(), Violation> {
        match self.ends.get_mut(&(connection, at)) {
            Some(Stranger::Session { session, key, channel }) => {
                let handled = context.feed(session, bytes)?;
                while let Some(event) = session.poll_event() {
                    match event {
                        Event::KeyWanted(identity) => {
                            let who = Who { identity, key: key.0, channel: *channel };
                            context.checkers.identities.answers(connection, who);
                            session.supply_key(Some(key));
                        }
                        Event::Established(_) | Event::Frame(_) => {
                            return Err(Violation::new(format!("a stranger got a session on connection {connection}")));
                        }
                    }
                }
                context.pump(connection, at, session);
                if handled.is_err() {
                    self.closed(connection, at, context);
                }
            }
            Some(Stranger::Playback(recorded)) => {
                let recorded = core::mem::take(recorded);
                context.put_on_wire(connection, at, &recorded);
            }
            Some(Stranger::Echo) => context.put_on_wire(connection, at, bytes),
            Some(Stranger::Silent) | None => {}
        }
        Ok(())
    }

    pub(crate) fn closed(&mut self, connection: ConnectionId, at: Side, context: &mut Context) {
        if self.ends.remove(&(connection, at)).is_some() {
            context.close(connection, at);
        }
    }
}

/// What travelled to that side of a recent connection, or noise if there was none.
fn overheard(channel: Channel, to: Side, context: &mut Context) -> Vec<u8> {
    let count = context.network.count();
    let recent = count - context.random.length(0, count.min(10));
    for connection in (0..recent).rev() {
        let link = context.network.get(connection);
        if link.channel == channel && !link.recorded(to).is_empty() {
            return link.recorded(to).to_vec();
        }
    }
    context.random.bytes::<100>().to_vec()
}
