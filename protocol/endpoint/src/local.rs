//! Connections between two programs of one node: two rings in memory, and no packets.
//!
//! A byte is copied once into the ring of who is to receive it and once out of it, and nothing can be lost or late, so
//! there is nothing to number, to acknowledge or to time. What a program sees is what TCP would have shown it.

pub(crate) mod record;

use alloc::sync::Arc;
use core::net::Ipv4Addr;

use smoltcp::storage::RingBuffer;
use spin::Mutex;

use crate::SocketError;
use crate::accounts::{Accounts, Grant, Ticket};
use crate::cell::{Cell, Readiness};

/// Address and port.
pub(crate) type Name = (Ipv4Addr, u16);

/// Who connected.
const CONNECTOR: usize = 0;
/// Who accepted, or will.
const ACCEPTOR: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// For room in the listener's backlog.
    Waiting,
    Open,
    /// Never was or is not any more.
    Closed,
}

/// What belongs to one end.
struct Side {
    /// Received and not yet taken. Empty and without room when the end is gone.
    ring: RingBuffer<'static, u8>,
    grant: Option<Grant>,
    /// Who is told of changes; the acceptor's end has nobody before it is accepted.
    cell: Option<Arc<Cell>>,
    error: Option<SocketError>,
    /// shutdown(2) was called, per direction.
    read_shut: bool,
    write_shut: bool,
    /// The other end knows that nothing more will come from here.
    ended: bool,
    /// Nobody has this end any more.
    gone: bool,
}

impl Side {
    fn new(accounts: &Arc<Accounts>) -> Result<Self, SocketError> {
        let (ring, grant) = accounts.ring()?;
        let (cell, error) = (None, None);
        let (read_shut, write_shut, ended, gone) = (false, false, false, false);
        Ok(Self { ring: RingBuffer::new(ring), grant: Some(grant), cell, error, read_shut, write_shut, ended, gone })
    }

    /// Lets go of the ring.
    fn drop_ring(&mut self, wipe: fn(&mut [u8])) {
        while self.ring.dequeue_many_with(|bytes| (bytes.len(), wipe(bytes))).0 > 0 {}
        self.ring = RingBuffer::new(alloc::vec::Vec::new());
        self.grant = None;
    }
}

struct Link {
    phase: Phase,
    sides: [Side; 2],
    wipe: fn(&mut [u8]),
}

impl Link {
    /// The side of that number, and the other.
    fn split(&mut self, side: usize) -> (&mut Side, &mut Side) {
        let [connector, acceptor] = &mut self.sides;
        if side == CONNECTOR { (connector, acceptor) } else { (acceptor, connector) }
    }

    /// Says what each end can do now; `news`: who got something.
    fn update(&mut self, news: Option<usize>) {
        for side in [CONNECTOR, ACCEPTOR] {
            let phase = self.phase;
            let (own, other) = self.split(side);
            if let Some(cell) = &own.cell {
                cell.set(readiness(phase, own, other), news == Some(side));
            }
        }
    }
}

fn readiness(phase: Phase, own: &Side, other: &Side) -> Readiness {
    if phase == Phase::Waiting {
        return Readiness::NONE;
    }
    let closed = phase == Phase::Closed;
    let read_hang_up = closed || own.read_shut || other.ended;
    Readiness {
        readable: read_hang_up || !own.ring.is_empty(),
        writable: closed || own.write_shut || other.gone || other.ring.window() >= other.ring.len() / 2,
        error: own.error.is_some(),
        hang_up: closed || (read_hang_up && own.write_shut),
        read_hang_up,
    }
}

/// One end of a connection. It closes the connection when it is dropped.
pub(crate) struct End {
    link: Arc<Mutex<Link>>,
    side: usize,
    pub(crate) own: Name,
    pub(crate) peer: Name,
    /// The acceptor's, until it is accepted.
    pub(crate) ticket: Option<Ticket>,
}

/// A connection from `from`, whose program has `cell`, to `to`. It is not open yet. Connector's end first.
pub(crate) fn pair(
    accounts: &Arc<Accounts>,
    ticket: Ticket,
    wipe: fn(&mut [u8]),
    (from, cell): (Name, Arc<Cell>),
    to: Name,
) -> Result<(End, End), SocketError> {
    let mut sides = [Side::new(accounts)?, Side::new(accounts)?];
    if let Some(connector) = sides.first_mut() {
        connector.cell = Some(cell);
    }
    let link = Arc::new(Mutex::new(Link { phase: Phase::Waiting, sides, wipe }));
    let connector = End { link: Arc::clone(&link), side: CONNECTOR, own: from, peer: to, ticket: None };
    let acceptor = End { link, side: ACCEPTOR, own: to, peer: from, ticket: Some(ticket) };
    Ok((connector, acceptor))
}

impl End {
    /// There is room in the backlog. False if the connector has given up.
    pub(crate) fn open(&self) -> bool {
        let mut link = self.link.lock();
        if link.split(self.side).1.gone {
            return false;
        }
        link.phase = Phase::Open;
        link.update(None);
        true
    }

    /// The listener is gone: the connector gets `error`.
    pub(crate) fn fail(&self, error: SocketError) {
        self.link.lock().break_off(self.side, error);
    }

    /// Has `cell` told of changes from now on.
    pub(crate) fn set_cell(&self, cell: Arc<Cell>) {
        let mut link = self.link.lock();
        link.split(self.side).0.cell = Some(cell);
        link.update(None);
    }

    /// Whether it waits for room in the backlog.
    pub(crate) fn is_waiting(&self) -> bool {
        self.link.lock().phase == Phase::Waiting
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.link.lock().phase == Phase::Open
    }

    /// Whether it is open in any direction.
    pub(crate) fn is_connected(&self) -> bool {
        let mut link = self.link.lock();
        let is_open = link.phase == Phase::Open;
        let (own, other) = link.split(self.side);
        is_open && !(own.ended && other.ended)
    }

    /// Received and not yet taken, bytes.
    pub(crate) fn received(&self) -> usize {
        self.link.lock().split(self.side).0.ring.len()
    }

    /// Sent and not yet taken by the other, bytes.
    pub(crate) fn unsent(&self) -> usize {
        self.link.lock().split(self.side).1.ring.len()
    }

    /// Room for bytes that are received, and for those that are sent.
    pub(crate) fn capacities(&self) -> (usize, usize) {
        let mut link = self.link.lock();
        let (own, other) = link.split(self.side);
        (own.ring.capacity(), other.ring.capacity())
    }

    pub(crate) fn take_error(&self) -> Option<SocketError> {
        let mut link = self.link.lock();
        let error = link.split(self.side).0.error.take();
        link.update(None);
        error
    }

    /// Has `fill` write into the free room, piece by piece, until it leaves some of a piece.
    pub(crate) fn send_with(&self, mut fill: impl FnMut(&mut [u8]) -> usize) -> Result<usize, SocketError> {
        let mut link = self.link.lock();
        let phase = link.phase;
        let (own, other) = link.split(self.side);
        if let Some(error) = own.error.take() {
            link.update(None);
            return Err(error);
        }
        if phase == Phase::Waiting {
            return Err(SocketError::WouldBlock);
        }
        if phase == Phase::Closed || own.write_shut {
            return Err(SocketError::Closed);
        }
        // Who is gone, or neither sends nor receives any more, answers with a reset.
        if other.gone || other.read_shut && other.write_shut {
            return Ok(link.send_to_nobody(self.side, fill));
        }
        if other.ring.is_full() {
            return Err(SocketError::WouldBlock);
        }
        let mut sent = 0;
        loop {
            let (filled, room) = other.ring.enqueue_many_with(|room| (fill(room).min(room.len()), room.len()));
            sent += filled;
            if filled < room || other.ring.is_full() {
                break;
            }
        }
        link.update((sent > 0).then_some(1 - self.side));
        Ok(sent)
    }

    /// Has `take` read what was received, piece by piece, until it leaves some of a piece. 0 at the end.
    pub(crate) fn receive_with(&self, mut take: impl FnMut(&[u8]) -> usize) -> Result<usize, SocketError> {
        let mut link = self.link.lock();
        let wipe = link.wipe;
        let (own, _) = link.split(self.side);
        if own.ring.is_empty() {
            return self.received_nothing(&mut link);
        }
        let mut taken = 0;
        while !own.ring.is_empty() {
            let (wiped, length) = own.ring.dequeue_many_with(|bytes| {
                let (length, wanted) = (bytes.len(), take(bytes));
                let bytes = bytes.get_mut(..wanted.min(length)).unwrap_or_default();
                wipe(bytes);
                (bytes.len(), length)
            });
            taken += wiped;
            if wiped < length {
                break;
            }
        }
        link.update(None);
        Ok(taken)
    }

    /// Copies what was received and leaves it there.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> Result<usize, SocketError> {
        let mut link = self.link.lock();
        let (own, _) = link.split(self.side);
        match own.ring.read_allocated(0, buffer) {
            0 if own.ring.is_empty() => self.received_nothing(&mut link),
            length => Ok(length),
        }
    }

    /// Why there is nothing.
    fn received_nothing(&self, link: &mut Link) -> Result<usize, SocketError> {
        let phase = link.phase;
        let (own, other) = link.split(self.side);
        // Who has read the end finds it again, whatever came behind it.
        if other.ended {
            return Ok(0);
        }
        if let Some(error) = own.error.take() {
            link.update(None);
            return Err(error);
        }
        let ended = phase == Phase::Closed || own.read_shut;
        if ended { Ok(0) } else { Err(SocketError::WouldBlock) }
    }

    /// shutdown(2), of a connection that is not over in both directions.
    pub(crate) fn shutdown(&self, read: bool, write: bool) -> Result<(), SocketError> {
        let mut link = self.link.lock();
        let is_closed = link.phase == Phase::Closed;
        let (own, other) = link.split(self.side);
        if is_closed || own.ended && other.ended {
            return Err(SocketError::NotConnected);
        }
        own.read_shut |= read;
        own.write_shut |= write;
        own.ended |= own.write_shut;
        link.update(None);
        Ok(())
    }

    /// Breaks the connection off; the other end gets a reset.
    pub(crate) fn abort(&self) {
        self.link.lock().reset(self.side);
    }
}

impl Link {
    /// Side `by` breaks the connection off with a reset.
    fn reset(&mut self, by: usize) {
        let (own, other) = self.split(by);
        match (own.ended, other.write_shut) {
            // It was over in both directions.
            (true, true) => self.phase = Phase::Closed,
            (true, false) => self.break_off(by, SocketError::Closed),
            (false, _) => self.break_off(by, SocketError::Reset),
        }
        self.update(None);
    }

    /// Side `by` sends to an end that takes nothing more, which answers with a reset. Gives how much was sent.
    fn send_to_nobody(&mut self, by: usize, mut fill: impl FnMut(&mut [u8]) -> usize) -> usize {
        let wipe = self.wipe;
        let limit = self.split(by).0.ring.capacity();
        let mut room = [0; 256];
        let mut sent = 0;
        while sent < limit {
            let filled = fill(&mut room).min(room.len());
            sent += filled;
            if filled < room.len() {
                break;
            }
        }
        wipe(&mut room);
        if sent > 0 {
            // Both ends learn of it.
            self.split(1 - by).0.error = Some(SocketError::Reset);
            self.reset(1 - by);
        }
        sent
    }

    /// Side `by` breaks the connection off; the other gets `error`.
    fn break_off(&mut self, by: usize, error: SocketError) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        let (_, other) = self.split(by);
        other.error = Some(error);
        self.update(None);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut link = self.link.lock();
        let wipe = link.wipe;
        let (own, _) = link.split(self.side);
        let unread = !own.ring.is_empty();
        own.gone = true;
        own.cell = None;
        own.drop_ring(wipe);
        if unread {
            // The other end must not believe that all it sent was read.
            link.reset(self.side);
        } else if link.phase != Phase::Closed {
            link.split(self.side).0.ended = true;
        }
        link.update(None);
    }
}
