//! What everybody in the simulated world shares: time, chance, the network, the checkers and the diary.

use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::session::{Channel, SendError, Session, SessionError};
use serde::Serialize;

use crate::Options;
use crate::checkers::{Checkers, Retention, Violation};
use crate::network::{ConnectionId, Holder, Network, Side};
use crate::random::Random;
use crate::schedule::{Event, Schedule};
use crate::trace::Trace;

/// Shared by all actors.
pub(crate) struct Context {
    pub(crate) now_ns: u64,
    pub(crate) options: Options,
    /// What nodes keep of programs: many with even seeds, one with odd ones.
    pub(crate) policy: RetentionPolicy,
    pub(crate) random: Random,
    pub(crate) schedule: Schedule,
    pub(crate) network: Network,
    pub(crate) checkers: Checkers,
    pub(crate) trace: Trace,
}

impl Context {
    pub(crate) fn new(seed: u64, options: &Options) -> Self {
        let policy = if seed.is_multiple_of(2) { RetentionPolicy::Many } else { RetentionPolicy::One };
        Self {
            now_ns: 0,
            policy,
            options: *options,
            random: Random::new(seed),
            schedule: Schedule::default(),
            network: Network::default(),
            checkers: Checkers { retention: Retention::new(policy), ..Checkers::default() },
            trace: Trace::new(),
        }
    }

    /// Things still go wrong.
    pub(crate) fn is_faulty(&self) -> bool {
        self.now_ns < self.options.faulty_ns
    }

    pub(crate) fn plan(&mut self, in_ns: u64, event: Event) {
        self.schedule.plan(self.now_ns + in_ns, event);
    }

    /// Programs still make requests; the last of them have time to be answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.now_ns + 20_000_000_000 < self.end_ns()
    }

    /// When the run ends.
    pub(crate) fn end_ns(&self) -> u64 {
        self.options.faulty_ns + self.options.quiet_ns
    }

    /// Plans an event some time from now, up to `high_ns`.
    pub(crate) fn plan_within(&mut self, high_ns: u64, event: Event) {
        let in_ns = self.random.delay(high_ns);
        self.plan(in_ns, event);
    }

    /// Queues a message in a session and tells the checkers what was sent. `from` is the side that sends.
    pub(crate) fn send<T: Serialize>(
        &mut self,
        connection: ConnectionId,
        from: Side,
        session: &mut Session,
        id: u64,
        message: &T,
        bulk: Vec<u8>,
    ) -> Result<Result<(), SendError>, Violation> {
        let body = postcard::to_allocvec(message).map_err(|error| Violation::new(format!("no body: {error}")))?;
        let sent = if self.random.chance(500) {
            session.send(id, message, &bulk)
        } else {
            session.send_owned(id, message, bulk.clone())
        };
        if sent.is_ok() {
            self.trace.count("frames sent", 1);
            self.checkers.delivery.sent(connection, from, id, body, bulk);
        }
        self.checkers.memory.check(session)?;
        Ok(sent)
    }

    /// Puts on the wire what a session has for it, as far as the window allows.
    pub(crate) fn pump(&mut self, connection: ConnectionId, from: Side, session: &mut Session) {
        loop {
            let room = self.network.get(connection).room(from.other());
            let available = session.transmit().len().min(room);
            if available == 0 {
                return;
            }
            // Sockets take what they like.
            let count = if self.random.chance(300) { self.random.length(1, available) } else { available };
            let piece = session.transmit()[..count].to_vec();
            session.consume(count);
            self.put_on_wire(connection, from, &piece);
        }
    }

    /// Puts bytes on the wire as they are.
    pub(crate) fn put_on_wire(&mut self, connection: ConnectionId, from: Side, piece: &[u8]) {
        let Self { now_ns, network, random, schedule, .. } = self;
        network.send(connection, from.other(), piece, *now_ns, random, schedule);
    }

    /// Hands a session what arrived, in pieces.
    pub(crate) fn feed(&mut self, session: &mut Session, bytes: &[u8]) -> Result<Result<(), SessionError>, Violation> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let whole = self.random.chance(700);
            let count = if whole { rest.len() } else { self.random.length(1, rest.len()) };
            let (piece, behind) = rest.split_at(count);
            let handled = session.handle_bytes(piece);
            self.checkers.memory.check(session)?;
            if handled.is_err() {
                return Ok(handled);
            }
            rest = behind;
        }
        Ok(Ok(()))
    }

    /// Opens a connection. In the faulty time some are tampered with until they break.
    pub(crate) fn open(&mut self, channel: Channel, holders: [Holder; 2]) -> ConnectionId {
        let latency_ns = 20_000 + self.random.delay(40_000_000);
        let tampered = self.is_faulty() && self.random.chance(120);
        let per_mille = if tampered { self.random.between(2, 60) } else { 0 };
        let connection = self.network.open(channel, holders, latency_ns, per_mille);
        if tampered {
            self.plan_within(30_000_000_000, Event::Cut { connection });
        }
        connection
    }

    /// Starts watching a session's timer.
    pub(crate) fn watch(&mut self, connection: ConnectionId, at: Side, session: &Session) {
        if let Some(at_ns) = session.poll_timeout() {
            self.schedule.plan(at_ns, Event::Timeout { connection, at });
        }
    }

    pub(crate) fn close(&mut self, connection: ConnectionId, by: Side) {
        self.network.close(connection, by, self.now_ns, &mut self.schedule);
        self.forget_unheld(connection);
    }

    fn forget_unheld(&mut self, connection: ConnectionId) {
        let link = self.network.get(connection);
        if !link.is_held(Side::Node) && !link.is_held(Side::IoNode) {
            self.checkers.delivery.forget(connection);
            self.checkers.identities.forget(connection);
            self.checkers.retention.forget(connection);
        }
    }

    pub(crate) fn vanish(&mut self, connection: ConnectionId, side: Side) {
        let Self { now_ns, network, random, schedule, .. } = self;
        network.vanish(connection, side, *now_ns, random, schedule);
        self.forget_unheld(connection);
    }

    pub(crate) fn cut(&mut self, connection: ConnectionId) {
        let Self { now_ns, network, random, schedule, .. } = self;
        network.cut(connection, *now_ns, random, schedule);
    }
}
