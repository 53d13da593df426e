//! The connections of nodes, each with its session, from the first byte of the handshake to the end.
//!
//! What came on a connection is looked at piece by piece, and not at all while it would add to what somebody has to
//! take first: the service node its messages, the node its answers. Then the rest of it waits here, and what comes
//! behind it in the network ([`Machine::is_read`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use coppice_endpoint::NetError;
use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::limits::{HEARTBEAT_DEAD_NS, HEARTBEAT_INTERVAL_NS, SEND_QUEUE_BYTES};
use coppice_protocol::session::{
    Channel, Event, Frame, Identity, NONCE_BYTES, RestWatch, SendError, Session, SessionError,
};
use coppice_protocol::ship::Connection;
use serde::Serialize;

use super::effect::{Disconnected, Effect};
use super::nodes::{Attached, Loss};
use super::ship::{Nonsense, Request};
use super::timers::Timer;
use super::{Machine, Now, peers};
use crate::clock::ns;
use crate::limits::{HANDSHAKES_MAX, RECONNECT_GRACE};

/// A connection; no two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(u64);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    /// The node closed it.
    #[error("node closed the connection")]
    Closed,
    /// It broke.
    #[error("connection broke: {0}")]
    Broken(NetError),
    /// The peer does not keep to the protocol, or is not who it says.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An authenticated node sent something that is no message.
    #[error("node sent a message that cannot be read")]
    Message,
    /// It was cut from this side.
    #[error("{0}")]
    Cut(&'static str),
    /// The rest of a frame did not come for [`coppice_protocol::limits::HEARTBEAT_DEAD_NS`].
    #[error("the rest of a message did not come for {0} s")]
    Halfway(u64),
    /// The node answered nothing for [`coppice_protocol::limits::HEARTBEAT_DEAD_NS`].
    #[error("node did not answer for {0} s")]
    Silent(u64),
}

/// How far a connection has come.
#[derive(Debug)]
enum Phase {
    /// The peer has not proved who it is.
    Handshake,
    /// It has, and this is what is said here.
    Control(Identity, Pulse),
    /// As above.
    Ship(Identity, Connection),
}

/// What is known of a node's being alive.
#[derive(Debug, Default)]
struct Pulse {
    /// The next question's number.
    sequence: u64,
    /// Questions after which nothing at all came.
    silent: u64,
    /// Messages that must arrive, and did.
    taken: u64,
    /// There were ends of ranks among them since the node was told how many they are.
    is_owed: bool,
}

/// One connection.
#[derive(Debug)]
struct Line {
    session: Session,
    peer: (Ipv4Addr, u16),
    phase: Phase,
    /// Something arrived since this was last cleared.
    heard: bool,
    /// Looks whether the rest of a frame comes.
    rest: RestWatch,
    /// A request that waits, and those behind it.
    held: Option<Held>,
}

/// A request that is not begun before an earlier one of its slot is done, which its node does not wait for any more.
#[derive(Debug)]
struct Held {
    request: Request,
    /// Something was answered meanwhile.
    is_due: bool,
}

impl Line {
    fn identity(&self) -> Option<Identity> {
        match self.phase {
            Phase::Handshake => None,
            Phase::Control(identity, _) | Phase::Ship(identity, _) => Some(identity),
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    table: BTreeMap<LineId, Box<Line>>,
    /// Those on which something waits to be looked at.
    stalled: BTreeSet<LineId>,
    accepted: u64,
}

impl Lines {
    fn handshakes(&self, channel: Channel) -> usize {
        let of_it = self.table.values().filter(|line| line.session.channel() == channel);
        of_it.filter(|line| matches!(line.phase, Phase::Handshake)).count()
    }
}

impl Machine {
    /// A connection was accepted. `nonce` must be random. `None`: it is to be reset, as too many handshakes are under
    /// way.
    pub fn accept(
        &mut self,
        channel: Channel,
        peer: (Ipv4Addr, u16),
        nonce: [u8; NONCE_BYTES],
        now: Now,
    ) -> Option<LineId> {
        if self.lines.handshakes(channel) >= HANDSHAKES_MAX {
            return None;
        }
        self.lines.accepted += 1;
        let id = LineId(self.lines.accepted);
        let session = Session::accept(channel, nonce, now.ns);
        if let Some(at_ns) = session.poll_timeout() {
            self.timers.set(at_ns, Timer::Handshake(id));
        }
        let line =
            Line { session, peer, phase: Phase::Handshake, heard: false, rest: RestWatch::default(), held: None };
        self.lines.table.insert(id, Box::new(line));
        self.effects.push_move(id);
        Some(id)
    }

    /// Whether what arrives on a connection is to be taken from the network now.
    #[must_use]
    pub fn is_read(&self, line: LineId) -> bool {
        self.lines.table.contains_key(&line) && !self.lines.stalled.contains(&line)
    }

    /// Takes bytes that arrived on a connection. Call [`Machine::listen`] then.
    pub fn receive(&mut self, line: LineId, bytes: &[u8]) {
        if let Some(line) = self.lines.table.get_mut(&line) {
            line.heard = true;
            // A failure is found behind what came before it.
            let _outcome = line.session.handle_bytes(bytes);
        }
    }

    /// The bytes to put on the wire next; empty if there are none. Call again after [`Machine::consume`].
    #[must_use]
    pub fn transmit(&self, line: LineId) -> &[u8] {
        self.lines.table.get(&line).map_or(&[], |line| line.session.transmit())
    }

    /// So many bytes of a connection are on the wire.
    pub fn consume(&mut self, line: LineId, count: usize, now: Now) {
        if let Some(entry) = self.lines.table.get_mut(&line) {
            entry.session.consume(count);
            if self.lines.stalled.contains(&line) {
                self.listen(line, now);
            }
        }
    }

    /// A connection is no more.
    pub fn disconnected(&mut self, line: LineId, why: Disconnected, now: Now) {
        let error = match why {
            Disconnected::Closed => LineError::Closed,
            Disconnected::Broken(error) => LineError::Broken(error),
        };
        self.end_line(line, &error, now);
    }

    /// Looks at what waited because too much had to be taken first.
    pub(super) fn go_on(&mut self, now: Now) {
        for line in self.lines.stalled.clone() {
            self.listen(line, now);
        }
    }

    /// Looks at what arrived on a connection, as far as that may be done now.
    pub fn listen(&mut self, id: LineId, now: Now) {
        self.lines.stalled.remove(&id);
        loop {
            if self.must_wait(id) {
                self.lines.stalled.insert(id);
                return;
            }
            let Some(line) = self.lines.table.get_mut(&id) else { return };
            let heard = if let Some(Held { request, .. }) = line.held.take() {
                self.hear(id, request, now)
            } else if let Some(event) = line.session.poll_event() {
                self.happened(id, event, now)
            } else if let Some(failure) = line.session.failure() {
                Err(failure.into())
            } else {
                break self.say_taken(id);
            };
            if let Err(error) = heard {
                return self.end_line(id, &error, now);
            }
            // What is read from memory is to be seen in the queue of answers before more of it is asked for.
            if self.effects.have_calls() {
                self.lines.stalled.insert(id);
                return self.effects.push(Effect::Listen(id));
            }
        }
        self.effects.push_move(id);
    }

    /// Whether nothing of a connection is to be looked at now.
    fn must_wait(&self, id: LineId) -> bool {
        let Some(line) = self.lines.table.get(&id) else { return false };
        match &line.phase {
            Phase::Handshake => false,
            Phase::Control(identity, _) => self.outbox.is_full() || self.closing.has_of(identity.node),
            Phase::Ship(..) => {
                let is_held = line.held.as_ref().is_some_and(|held| !held.is_due);
                is_held || self.outbox.is_full() || line.session.queued_bytes() > SEND_QUEUE_BYTES
            }
        }
    }

    fn happened(&mut self, id: LineId, event: Event, now: Now) -> Result<(), LineError> {
        let Some(line) = self.lines.table.get_mut(&id) else { return Ok(()) };
        match (event, &mut line.phase) {
            (Event::KeyWanted(identity), Phase::Handshake) => {
                line.session.supply_key(self.nodes.key(identity).as_ref());
                Ok(())
            }
            (Event::Established(identity), Phase::Handshake) => self.established(id, identity, now),
            (Event::Frame(frame), Phase::Control(identity, pulse)) => {
                let (identity, message) = (*identity, frame.message::<ToIoNode>().map_err(|_| LineError::Message)?);
                pulse.taken += u64::from(message.must_arrive());
                pulse.is_owed |= matches!(message, ToIoNode::Ended(_));
                self.heard_control(identity, message, now);
                Ok(())
            }
            (Event::Frame(frame), Phase::Ship(..)) => self.heard_request(id, frame, now),
            _ => Err(LineError::Message),
        }
    }

    fn heard_request(&mut self, id: LineId, frame: Frame, now: Now) -> Result<(), LineError> {
        let request = Request::of(frame).ok_or(LineError::Message)?;
        self.hear(id, request, now)
    }

    fn hear(&mut self, id: LineId, request: Request, now: Now) -> Result<(), LineError> {
        let Some(Line { phase: Phase::Ship(identity, connection), .. }) = self.lines.table.get(&id).map(Box::as_ref)
        else {
            return Err(LineError::Message);
        };
        let later = self.request(*identity, *connection, request, now).map_err(|Nonsense| LineError::Message)?;
        if let (Some(request), Some(line)) = (later, self.lines.table.get_mut(&id)) {
            line.held = Some(Held { request, is_due: false });
        }
        Ok(())
    }

    /// A request of a node was answered: one that waits on its connection may be next.
    pub(super) fn look_at_held(&mut self, id: LineId, now: Now) {
        if let Some(Held { is_due, .. }) = self.lines.table.get_mut(&id).and_then(|line| line.held.as_mut()) {
            *is_due = true;
            self.listen(id, now);
        }
    }

    /// The peer has proved who it is.
    fn established(&mut self, id: LineId, identity: Identity, now: Now) -> Result<(), LineError> {
        let Some(line) = self.lines.table.get_mut(&id) else { return Ok(()) };
        let channel = line.session.channel();
        let Some(Attached { earlier, connection }) = self.nodes.attach(identity, channel, id) else {
            return Err(LineError::Cut("the node was rebooted or removed"));
        };
        line.phase = match connection {
            None => Phase::Control(identity, Pulse::default()),
            // What is answered from now on goes here, and only if it was asked for here.
            Some(connection) => Phase::Ship(identity, connection),
        };
        if let Some(earlier) = earlier {
            self.end_line(earlier, &LineError::Cut("the node connected again"), now);
        }
        self.check_ready(identity, now);
        match channel {
            Channel::Control => self.heartbeat(id, now),
            Channel::Ship => {
                self.recall_again(identity.node);
                self.recall_names_again(identity.node);
            }
        }
        Ok(())
    }

    pub(super) fn handshake_is_late(&mut self, id: LineId, now: Now) {
        let Some(line) = self.lines.table.get_mut(&id) else { return };
        if let (Phase::Handshake, Err(error)) = (&line.phase, line.session.handle_timeout(now.ns)) {
            self.end_line(id, &error.into(), now);
        }
    }

    /// Asks a node whether it is alive, and counts the questions after which nothing at all came. (Counting rather than
    /// reading a clock: a host that slept has not heard its nodes either, and that is not their fault.) What comes of
    /// half a frame is counted with it, on both of the node's connections, unless nothing comes any more at all: then
    /// the node is silent, and need not be given the time to come back.
    pub(super) fn heartbeat(&mut self, id: LineId, now: Now) {
        let node = self.lines.table.get(&id).and_then(|line| line.identity()).map(|identity| identity.node);
        let ship = node.and_then(|node| self.nodes.ship_of(node));
        // Whoever is not listened to is not silent: it is the service node then that takes nothing.
        let is_unheard = self.lines.stalled.contains(&id);
        let is_silent = !is_unheard && self.lines.table.get(&id).is_some_and(|line| !line.heard);
        for line in [Some(id).filter(|_| !is_silent), ship].into_iter().flatten() {
            self.look_for_rest(line, now);
        }
        let line = self.lines.table.get_mut(&id).map(Box::as_mut);
        let Some(Line { phase: Phase::Control(_, pulse), heard, .. }) = line else { return };
        let has_spoken = std::mem::take(heard) || is_unheard || pulse.sequence == 0;
        pulse.silent = if has_spoken { 0 } else { pulse.silent + 1 };
        if pulse.silent >= HEARTBEAT_DEAD_NS / HEARTBEAT_INTERVAL_NS {
            return self.end_line(id, &LineError::Silent(HEARTBEAT_DEAD_NS / 1_000_000_000), now);
        }
        let Pulse { sequence, taken, .. } = *pulse;
        let ping = ToNode::Ping { sequence, realtime_ns: now.realtime_ns, taken };
        pulse.sequence += 1;
        self.timers.set(now.ns + HEARTBEAT_INTERVAL_NS, Timer::Heartbeat(id));
        if let Err(error) = self.send(id, 0, &ping, Vec::new()) {
            // A queue full of what the node does not take: silence ends that.
            tracing::debug!(%error, "ping was not sent");
        }
    }

    /// Tells a node how much of what it said was read, if there were ends of ranks in it.
    fn say_taken(&mut self, id: LineId) {
        let line = self.lines.table.get_mut(&id).map(Box::as_mut);
        let Some(Line { phase: Phase::Control(_, pulse), .. }) = line else { return };
        if std::mem::take(&mut pulse.is_owed) {
            let taken = pulse.taken;
            if let Err(error) = self.send(id, 0, &ToNode::Taken { taken }, Vec::new()) {
                // The next ping says it.
                tracing::debug!(%error, "what was read was not said");
            }
        }
    }

    /// Looks whether more has come of what is half there on a connection.
    fn look_for_rest(&mut self, id: LineId, now: Now) {
        // What nobody listens to does not come.
        let is_unheard = self.lines.stalled.contains(&id);
        let Some(line) = self.lines.table.get_mut(&id) else { return };
        if is_unheard {
            line.rest = RestWatch::default();
        } else if line.rest.look(&line.session) >= HEARTBEAT_DEAD_NS / HEARTBEAT_INTERVAL_NS {
            self.end_line(id, &LineError::Halfway(HEARTBEAT_DEAD_NS / 1_000_000_000), now);
        }
    }

    /// Queues a message for a node.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub(super) fn send(
        &mut self,
        line: LineId,
        id: u64,
        message: &impl Serialize,
        bulk: Vec<u8>,
    ) -> Result<(), SendError> {
        let Some(entry) = self.lines.table.get_mut(&line) else { return Ok(()) };
        entry.session.send_owned(id, message, bulk)?;
        self.effects.push_move(line);
        Ok(())
    }

    /// Cuts connections of a boot that is over.
    pub(super) fn cut(&mut self, lines: impl IntoIterator<Item = LineId>, now: Now) {
        for line in lines {
            self.end_line(line, &LineError::Cut("the node was rebooted or removed"), now);
        }
    }

    /// A connection is over, and what follows from that.
    fn end_line(&mut self, id: LineId, error: &LineError, now: Now) {
        let Some(line) = self.lines.table.remove(&id) else { return };
        self.lines.stalled.remove(&id);
        tracing::debug!(peer = ?line.peer, session = ?line.session, %error, "connection ended");
        let last = matches!(error, LineError::Session(_)).then(|| line.session.transmit().to_vec());
        self.effects.push(Effect::End { line: id, last });
        self.flushed(id);
        if let LineError::Session(failure) = error
            && peers::is_bad(failure)
        {
            let event = self.bad_peers.event(now.ns, line.peer, *failure);
            let node = line.session.identity().map(|claimed| claimed.node).or_else(|| peers::node_at(line.peer.0));
            tracing::debug!(?node, %failure, "bad peer");
            if let (Some(event), Some(node)) = (event, node) {
                self.report(node, event);
            }
        }
        let Some(identity) = line.identity() else { return };
        let channel = line.session.channel();
        let reason = format!("{channel} connection lost: {error}");
        let Some(loss) = self.nodes.detach(identity, channel, id, reason) else { return };
        match error {
            LineError::Silent(_) => self.lose_node(identity, error.to_string(), now),
            _ => self.timers.set(now.ns + ns(RECONNECT_GRACE), Timer::Return(loss)),
        }
    }

    /// A node had the time to come back after it lost a connection.
    pub(super) fn look_for_return(&mut self, loss: Loss, now: Now) {
        if let Some(reason) = self.nodes.is_missing(loss) {
            self.lose_node(loss.identity, reason, now);
        }
    }
}
