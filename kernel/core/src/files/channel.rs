//! One direction of bytes between descriptors: what a pipe is, and what a pair of sockets has two of.
//!
//! A channel has a reading and a writing side; how many descriptors stand for a side is not its affair, only that a
//! side is closed once. It starts small and grows when more is written than is read, as far as [`Quota`] has memory; if
//! that has none, the channel stays as large as it is for good, so that it says truly whether there is room.

mod record;
mod transfer;

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use coppice_hal::heap::block_bytes;
use serde::{Deserialize, Serialize};

pub(crate) use self::record::ChannelRecord;
use super::readiness::{Level, Ready, Watchers};
use super::ring::Ring;
use super::stream::{Shape, Sink, Source, Taken};
use crate::errno::Errno;
use crate::limits::{CHANNEL_BYTES_MIN, CHANNEL_MESSAGES_MAX, PIPE_PACKETS_MAX};
use crate::quota::{Charge, Quota, shared_bytes};
use crate::sync::{LockLevel, Mutex};

/// Whether a channel keeps apart what was written apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// No, but writes of up to [`CHANNEL_BYTES_MIN`] bytes are in one piece or not made.
    Pipe,
    /// No.
    Stream,
    /// Yes: each write is a message, which is read as a whole or cut.
    Messages,
    /// The same of a pipe (`O_DIRECT`), whose writes are cut into packets of up to [`CHANNEL_BYTES_MIN`] bytes.
    Packets,
}

impl Kind {
    /// Whether what was written apart is kept apart.
    const fn keeps_apart(self) -> bool {
        matches!(self, Self::Messages | Self::Packets)
    }

    /// Whether it is a pipe.
    const fn is_pipe(self) -> bool {
        matches!(self, Self::Pipe | Self::Packets)
    }

    /// How many parts that are kept apart there may be.
    const fn parts_max(self) -> usize {
        if self.is_pipe() { PIPE_PACKETS_MAX } else { CHANNEL_MESSAGES_MAX }
    }
}

/// See this module.
pub(crate) struct Channel {
    kind: Kind,
    state: Mutex<State>,
    /// What the reading and the writing side can do.
    levels: (Level, Level),
    /// Those who wait for something to read.
    pub(crate) readers: Watchers,
    /// Those who wait for room.
    pub(crate) writers: Watchers,
}

struct State {
    ring: Ring,
    /// Lengths of the messages in it. Empty if it has none.
    lengths: VecDeque<u32>,
    /// What it may hold, bytes.
    limit: usize,
    charge: Charge,
    /// Nobody reads any more.
    reader_gone: bool,
    /// Nobody writes any more.
    writer_gone: bool,
    /// Nobody may write any more, of which the reader is told nothing.
    writer_stopped: bool,
    /// The reader is not there any more.
    reader_closed: bool,
    /// What the reader left unread, when it went, and nobody was told.
    lost: bool,
}

impl Channel {
    /// An empty one, which holds up to `limit` bytes. What its sides can do it says in the levels of the end that
    /// reads and the one that writes.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(
        kind: Kind,
        limit: usize,
        (reader, writer): (&Level, &Level),
        quota: &Arc<Quota>,
    ) -> Result<Arc<Self>, Errno> {
        let parts = if kind.keeps_apart() { kind.parts_max() } else { 0 };
        let charge = quota.charge(Self::bytes(parts) + block_bytes(CHANNEL_BYTES_MIN))?;
        let ring = Ring::new(CHANNEL_BYTES_MIN)?;
        let mut lengths = VecDeque::new();
        lengths.try_reserve_exact(parts).map_err(|_| Errno::ENOMEM)?;
        let state = State {
            ring,
            lengths,
            limit,
            charge,
            reader_gone: false,
            writer_gone: false,
            writer_stopped: false,
            reader_closed: false,
            lost: false,
        };
        let channel = Self {
            kind,
            state: Mutex::new(LockLevel::OpenFile, state),
            levels: (reader.clone(), writer.clone()),
            readers: Watchers::new(quota),
            writers: Watchers::new(quota),
        };
        channel.tell(&channel.state.lock());
        Ok(Arc::new(channel))
    }

    /// What it takes of the heap beside the bytes in it, bytes, if it can keep so many messages apart.
    pub(super) const fn bytes(parts: usize) -> usize {
        let lengths = if parts > 0 { block_bytes(parts * size_of::<u32>()) } else { 0 };
        shared_bytes::<Self>() + 2 * Watchers::BYTES_FREE + lengths
    }

    /// Whether its writer was stopped.
    pub(crate) fn is_writer_stopped(&self) -> bool {
        self.state.lock().writer_stopped
    }

    /// Bytes of the first message that is in it.
    pub(crate) fn first_bytes(&self) -> usize {
        self.state.lock().lengths.front().map_or(0, |length| *length as usize)
    }

    /// Everything that is in it, bytes.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().ring.len()
    }

    /// What it may hold, bytes.
    pub(crate) fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// Has it hold no more than that; it still grows only as it is filled, and as there is memory.
    ///
    /// # Errors
    /// `EBUSY`: it holds more.
    pub(crate) fn set_limit(&self, bytes: usize) -> Result<(), Errno> {
        {
            let mut state = self.state.lock();
            if state.ring.len() > bytes {
                return Err(Errno::EBUSY);
            }
            state.limit = bytes;
            self.tell(&state);
        }
        self.writers.notify();
        Ok(())
    }

    /// See [`super::stream::Stream::take`].
    pub(crate) fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        let taken = {
            let mut state = self.state.lock();
            let length = match state.lengths.front() {
                Some(length) => *length as usize,
                None if state.ring.len() == 0 && !state.writer_gone => return Err(Errno::EAGAIN),
                None => state.ring.len(),
            };
            let wanted = length.min(limit);
            let copied = state.ring.peek(wanted, sink);
            if !peek {
                if !self.kind.keeps_apart() {
                    state.ring.forget(copied);
                } else if copied == wanted {
                    state.ring.forget(length);
                    state.lengths.pop_front();
                }
                self.tell(&state);
            }
            Taken { copied, length }
        };
        if !peek {
            self.writers.notify();
        }
        Ok(taken)
    }

    /// See [`super::stream::Stream::put`]; `EMSGSIZE` for a message for which there never will be room.
    pub(crate) fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        let written = {
            let mut state = self.state.lock();
            if state.reader_gone || state.writer_gone || state.writer_stopped {
                return Err(Errno::EPIPE);
            }
            // Parts of a packet's length each; the caller goes on with the rest.
            let length = if self.kind == Kind::Packets { length.min(CHANNEL_BYTES_MIN) } else { length };
            let whole = match self.kind {
                Kind::Pipe => length <= CHANNEL_BYTES_MIN,
                Kind::Stream => false,
                Kind::Messages if length > state.limit => return Err(Errno::EMSGSIZE),
                kind if kind.keeps_apart() && state.lengths.len() >= kind.parts_max() => return Err(Errno::EAGAIN),
                Kind::Messages | Kind::Packets => true,
            };
            let wanted = state.make_room(length).min(length);
            if wanted < length && (whole || wanted == 0) {
                // It may have given up growing.
                self.tell(&state);
                return Err(Errno::EAGAIN);
            }
            let filled = state.ring.fill(wanted, source);
            if whole && filled < length {
                return Ok(0);
            }
            state.ring.add(filled);
            if self.kind.keeps_apart() {
                state.lengths.push_back(filled as u32);
            }
            self.tell(&state);
            filled
        };
        self.readers.notify();
        Ok(written)
    }

    /// Whether what is written apart is kept apart, as messages or as packets.
    pub(crate) const fn keeps_apart(&self) -> bool {
        self.kind.keeps_apart()
    }

    /// Whether what is written apart is kept apart.
    pub(crate) fn shape(&self) -> Shape {
        match self.kind {
            Kind::Messages => Shape::Messages,
            Kind::Pipe | Kind::Stream | Kind::Packets => Shape::Bytes,
        }
    }

    /// Says what its sides can do now.
    fn tell(&self, state: &State) {
        let (reader, writer) = &self.levels;
        let any = state.ring.len() > 0 || !state.lengths.is_empty();
        let room = state.limit - state.ring.len() >= CHANNEL_BYTES_MIN
            && (!self.kind.keeps_apart() || state.lengths.len() < self.kind.parts_max());
        let over = state.reader_gone || state.writer_gone;
        let when = |is_so: bool, bits: u16| if is_so { bits } else { 0 };
        let (read, write) = (Ready::READ.bits(), when(room || over, Ready::WRITE.bits()));
        if self.kind.is_pipe() {
            let (end, gone) = (Ready::HANG_UP.bits(), Ready::ERROR.bits());
            let write = when(room, Ready::WRITE.bits());
            reader.set(read | end, when(any, read) | when(state.writer_gone, end));
            writer.set(Ready::WRITE.bits() | gone, write | when(state.reader_gone, gone));
        } else {
            let end = Ready::READ_HANG_UP.bits();
            reader.set(read | end, when(any || over, read) | when(over, end));
            // Whether that is the end of everything depends on the other direction.
            let (lost, stopped) = (Ready::ERROR.bits(), Level::LOOK_CLOSER);
            let write = write | when(state.lost, lost) | when(over || state.writer_stopped, stopped);
            writer.set(Ready::WRITE.bits() | lost | stopped, write);
        }
    }

    /// Nobody will write any more, which nobody who reads is told.
    pub(crate) fn stop_writer(&self) {
        {
            let mut state = self.state.lock();
            state.writer_stopped = true;
            self.tell(&state);
        }
        self.notify();
    }

    /// Nothing more is taken in. What is in it can still be read.
    pub(crate) fn refuse(&self) {
        {
            let mut state = self.state.lock();
            (state.reader_gone, state.writer_gone) = (true, true);
            self.tell(&state);
        }
        self.notify();
    }

    /// Whether everything was read that ever will be written.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.writer_gone && state.ring.len() == 0 && state.lengths.is_empty()
    }

    /// Whether its reader is not there any more.
    pub(crate) fn is_reader_closed(&self) -> bool {
        self.state.lock().reader_closed
    }

    /// Whether the reader went and left something unread. It is told once.
    pub(crate) fn take_lost(&self) -> bool {
        let mut state = self.state.lock();
        let lost = core::mem::take(&mut state.lost);
        if lost {
            self.tell(&state);
        }
        lost
    }

    /// Forgets what is in it.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        let held = state.ring.len();
        state.ring.forget(held);
        state.lengths.clear();
        self.tell(&state);
    }

    /// Nobody will read any more. What is in it is forgotten, unless it is a pipe.
    pub(crate) fn close_reader(&self) {
        {
            let mut state = self.state.lock();
            // One empty message in front is not missed.
            let missed = state.lengths.len() > usize::from(state.lengths.front() == Some(&0));
            state.lost = state.ring.len() > 0 || missed;
            (state.reader_gone, state.reader_closed) = (true, true);
            // A pipe is one object, which has what is in it as long as it is there.
            if !self.kind.is_pipe() {
                let held = state.ring.len();
                state.ring.forget(held);
                state.lengths.clear();
            }
            self.tell(&state);
        }
        self.notify();
    }

    /// Nobody will write any more.
    pub(crate) fn close_writer(&self) {
        {
            let mut state = self.state.lock();
            state.writer_gone = true;
            self.tell(&state);
        }
        self.notify();
    }

    fn notify(&self) {
        self.readers.notify();
        self.writers.notify();
    }
}

impl State {
    /// How many bytes can be put into it, after growing for `wanted` more if there is memory.
    fn make_room(&mut self, wanted: usize) -> usize {
        let needed = self.ring.len().saturating_add(wanted).min(self.limit);
        let has = self.ring.capacity();
        if needed > has && has < self.limit {
            let larger = needed.max(has * 2).min(self.limit);
            if self.charge.grow(larger - has).is_err() || self.ring.grow(larger).is_err() {
                self.limit = has;
            }
        }
        self.limit - self.ring.len()
    }
}
