//! From one channel into another without a stop: splice(2), tee(2).

use super::{Channel, Kind, State};
use crate::errno::Errno;
use crate::files::stream::copy_from;
use crate::limits::CHANNEL_BYTES_MIN;
use crate::sync::MutexGuard;

impl Channel {
    /// Moves up to `limit` bytes, those of one packet if there are packets, to another channel, or copies them there if
    /// they are to be kept here. Gives how many; none at the end.
    ///
    /// # Errors
    /// `EAGAIN`: there are none, or there is no room. `EPIPE`: nobody would read them. `EINVAL`: it is the same
    /// channel.
    pub(crate) fn transfer(&self, to: &Self, limit: usize, keeps: bool) -> Result<usize, Errno> {
        if core::ptr::eq(self, to) {
            return Err(Errno::EINVAL);
        }
        let (mut source, mut target) = self.lock_both(to);
        let length = match source.lengths.front() {
            Some(length) => *length as usize,
            None if source.ring.len() == 0 && !source.writer_gone => return Err(Errno::EAGAIN),
            None => source.ring.len(),
        };
        if target.reader_gone || target.writer_gone {
            return Err(Errno::EPIPE);
        }
        let wanted = match to.kind {
            Kind::Packets => length.min(limit).min(CHANNEL_BYTES_MIN),
            _ => length.min(limit),
        };
        if wanted == 0 {
            return Ok(0);
        }
        if to.kind.keeps_apart() && target.lengths.len() >= to.kind.parts_max() {
            return Err(Errno::EAGAIN);
        }
        let room = target.make_room(wanted).min(wanted);
        if room == 0 || room < wanted && to.kind.keeps_apart() {
            to.tell(&target);
            return Err(Errno::EAGAIN);
        }
        let moved = source.ring.peek(room, &mut |bytes| {
            let filled = target.ring.fill(bytes.len(), &mut copy_from(bytes));
            target.ring.add(filled);
            filled
        });
        if to.kind.keeps_apart() {
            target.lengths.push_back(moved as u32);
        }
        if !keeps {
            source.forget(moved);
        }
        self.tell(&source);
        to.tell(&target);
        drop((source, target));
        self.writers.notify();
        to.readers.notify();
        Ok(moved)
    }

    /// Forgets the first `count` bytes, which have gone elsewhere, those of one packet if there are packets.
    pub(crate) fn forget(&self, count: usize) {
        {
            let mut state = self.state.lock();
            state.forget(count);
            self.tell(&state);
        }
        self.writers.notify();
    }

    /// Locks this and another, the one that comes first in memory first.
    fn lock_both<'a>(&'a self, other: &'a Self) -> (MutexGuard<'a, State>, MutexGuard<'a, State>) {
        if core::ptr::from_ref(self) < core::ptr::from_ref(other) {
            let first = self.state.lock();
            (first, other.state.lock_second())
        } else {
            let first = other.state.lock();
            (self.state.lock_second(), first)
        }
    }
}

impl State {
    fn forget(&mut self, count: usize) {
        self.ring.forget(count);
        // What is left of a packet is one.
        match self.lengths.front_mut() {
            Some(front) if *front as usize > count => *front -= count as u32,
            _ => drop(self.lengths.pop_front()),
        }
    }
}
