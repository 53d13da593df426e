//! Connections as TCP gives them: two streams of bytes in order, with a window, cut into pieces at will – until one
//! breaks. A tampered connection is one that somebody on the way changes.

use std::collections::VecDeque;

use coppice_protocol::session::Channel;

use crate::node::LifeId;
use crate::random::Random;
use crate::schedule::{Event, Schedule};

/// Bytes under way in one direction before the sender has to wait.
const WINDOW_BYTES: usize = 192 * 1024;

/// Bytes of each direction of a connection that somebody who listens keeps.
const RECORDED_BYTES_MAX: usize = 16 * 1024;

/// Number of a connection, never used again in a run.
pub(crate) type ConnectionId = usize;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The end that called.
    Node,
    /// The end that was called.
    IoNode,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Node => Self::IoNode,
            Self::IoNode => Self::Node,
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// Who is at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A boot of a node.
    Life(LifeId),
    /// The I/O node.
    IoNode,
    /// Neither.
    Stranger,
}

/// The stream towards one side.
#[derive(Debug, Default)]
struct Pipe {
    under_way: VecDeque<Vec<u8>>,
    under_way_bytes: usize,
    last_arrival_ns: u64,
    recorded: Vec<u8>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Which of the I/O node's ports it leads to.
    pub(crate) channel: Channel,
    /// Indexed by side.
    holders: [Holder; 2],
    latency_ns: u64,
    /// Indexed by the side they lead to.
    pipes: [Pipe; 2],
    /// Whether that side still holds its end.
    held: [bool; 2],
    /// Nothing travels any more, though not everybody may know.
    broken: bool,
    /// Somebody changes what travels, this many times in a thousand.
    tampered_per_mille: u64,
    tampered: bool,
}

impl Connection {
    /// Whether anything was changed on the way.
    pub(crate) fn is_tampered(&self) -> bool {
        self.tampered
    }

    /// Bytes that may still be put on the way to that side.
    pub(crate) fn room(&self, to: Side) -> usize {
        WINDOW_BYTES.saturating_sub(self.pipes[to.index()].under_way_bytes)
    }

    pub(crate) fn holder(&self, side: Side) -> Holder {
        self.holders[side.index()]
    }

    pub(crate) fn is_held(&self, side: Side) -> bool {
        self.held[side.index()]
    }

    /// What travelled towards that side, from the start.
    pub(crate) fn recorded(&self, to: Side) -> &[u8] {
        &self.pipes[to.index()].recorded
    }
}

/// All connections of a run.
#[derive(Debug, Default)]
pub(crate) struct Network {
    connections: Vec<Connection>,
}

impl Network {
    /// Opens a connection between these holders of its node's side and its I/O node's side.
    pub(crate) fn open(
        &mut self,
        channel: Channel,
        holders: [Holder; 2],
        latency_ns: u64,
        tampered_per_mille: u64,
    ) -> ConnectionId {
        self.connections.push(Connection {
            channel,
            holders,
            latency_ns,
            pipes: [Pipe::default(), Pipe::default()],
            held: [true; 2],
            broken: false,
            tampered_per_mille,
            tampered: false,
        });
        self.connections.len() - 1
    }

    pub(crate) fn count(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn get(&self, connection: ConnectionId) -> &Connection {
        &self.connections[connection]
    }

    /// Puts a piece of the stream on the way to `to`.
    pub(crate) fn send(
        &mut self,
        connection: ConnectionId,
        to: Side,
        piece: &[u8],
        now_ns: u64,
        random: &mut Random,
        schedule: &mut Schedule,
    ) {
        let link = &mut self.connections[connection];
        if link.broken {
            return;
        }
        let mut pieces = vec![piece.to_vec()];
        if random.chance(link.tampered_per_mille) {
            link.tampered = true;
            tamper(&mut pieces, link.recorded(to), random);
        }
        let pipe = &mut link.pipes[to.index()];
        for piece in pieces {
            let room = RECORDED_BYTES_MAX.saturating_sub(pipe.recorded.len());
            pipe.recorded.extend_from_slice(&piece[..piece.len().min(room)]);
            pipe.under_way_bytes += piece.len();
            pipe.under_way.push_back(piece);
            let arrival_ns = now_ns + link.latency_ns + random.delay(link.latency_ns);
            pipe.last_arrival_ns = arrival_ns.max(pipe.last_arrival_ns);
            schedule.plan(pipe.last_arrival_ns, Event::Arrive { connection, at: to });
        }
    }

    /// The piece that arrives now, if it does.
    pub(crate) fn arrive(&mut self, connection: ConnectionId, at: Side) -> Option<Vec<u8>> {
        let pipe = &mut self.connections[connection].pipes[at.index()];
        let piece = pipe.under_way.pop_front()?;
        pipe.under_way_bytes -= piece.len();
        Some(piece)
    }

    /// That side lets go; the other learns of it behind what is under way to it.
    pub(crate) fn close(&mut self, connection: ConnectionId, by: Side, now_ns: u64, schedule: &mut Schedule) {
        let link = &mut self.connections[connection];
        link.held[by.index()] = false;
        let other = by.other();
        if link.held[other.index()] && !link.broken {
            let at_ns = link.pipes[other.index()].last_arrival_ns.max(now_ns + link.latency_ns);
            schedule.plan(at_ns, Event::Closed { connection, at: other });
        }
    }

    /// That side is gone without a word: the other learns of it when it next sends, or at the latest after a while.
    pub(crate) fn vanish(
        &mut self,
        connection: ConnectionId,
        side: Side,
        now_ns: u64,
        random: &mut Random,
        schedule: &mut Schedule,
    ) {
        self.connections[connection].held[side.index()] = false;
        schedule.plan(now_ns + random.delay(15_000_000_000), Event::Closed { connection, at: side.other() });
    }

    /// The connection breaks: some of what is under way still arrives, and each side learns of it in its own time.
    pub(crate) fn cut(&mut self, connection: ConnectionId, now_ns: u64, random: &mut Random, schedule: &mut Schedule) {
        let link = &mut self.connections[connection];
        if link.broken {
            return;
        }
        link.broken = true;
        for pipe in &mut link.pipes {
            let kept = random.length(0, pipe.under_way.len());
            pipe.under_way.truncate(kept);
            if let Some(last) = pipe.under_way.back_mut() {
                let length = random.length(0, last.len());
                last.truncate(length);
            }
            pipe.under_way_bytes = pipe.under_way.iter().map(Vec::len).sum();
        }
        for at in [Side::Node, Side::IoNode] {
            let arrived_ns = link.pipes[at.index()].last_arrival_ns;
            let at_ns = arrived_ns.max(now_ns + random.delay(15_000_000_000));
            schedule.plan(at_ns, Event::Closed { connection, at });
        }
    }

    /// Connections that work and that both sides hold.
    pub(crate) fn working(&self) -> Vec<ConnectionId> {
        let works = |link: &Connection| !link.broken && link.held == [true; 2];
        self.connections.iter().enumerate().filter(|(_, link)| works(link)).map(|(id, _)| id).collect()
    }
}

/// Changes pieces of a stream: a bit, a piece left out, doubled, in the wrong order, or one from before.
fn tamper(pieces: &mut Vec<Vec<u8>>, recorded: &[u8], random: &mut Random) {
    match random.between(0, 4) {
        0 => {
            let piece = &mut pieces[0];
            if !piece.is_empty() {
                let place = random.length(0, piece.len() - 1);
                piece[place] ^= 1 << random.between(0, 7);
            }
        }
        1 => {
            let piece = &mut pieces[0];
            let length = random.length(0, piece.len());
            piece.truncate(length);
        }
        2 => pieces.push(pieces[0].clone()),
        3 => {
            let middle = random.length(0, pieces[0].len());
            let behind = pieces[0].split_off(middle);
            pieces.insert(0, behind);
        }
        _ => {
            let start = random.length(0, recorded.len());
            let end = random.length(start, recorded.len());
            pieces.push(recorded[start..end].to_vec());
        }
    }
}
