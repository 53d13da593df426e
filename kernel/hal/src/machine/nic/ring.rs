//! The two rings between driver and card, and which buffer is where.

use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{Ordering, fence};

use virtio_drivers::Error;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::pci::PciTransport;

use super::buffers::Buffers;
use super::{CARD_HEADER_BYTES, RECEIVE_FRAMES, RING, TRANSMIT_FRAMES};
use crate::machine::dma::Virtio;
use crate::machine::virtio::{Doorbell, Doorbells};
use crate::scrub::wipe;

/// The card's number of the queue it fills.
const QUEUE_RECEIVE: u16 = 0;

/// The card's number of the queue it sends from.
const QUEUE_TRANSMIT: u16 = 1;

/// A token that stands for no buffer.
const NO_SLOT: u8 = u8::MAX;

/// A queue, its doorbell, and the buffer that each of the queue's tokens stands for.
struct Ring {
    queue: VirtQueue<Virtio, RING>,
    doorbell: Doorbell,
    buffers: Buffers,
    slots: [u8; RING],
    /// Whether the card may interrupt.
    interrupts: bool,
}

// SAFETY: queue and buffers are memory of their own, reached through this value only.
unsafe impl Send for Ring {}

impl Ring {
    fn new(transport: &mut PciTransport, doorbells: &Doorbells, number: u16, buffers: Buffers) -> Result<Self, Error> {
        let doorbell = doorbells.set_up(number).ok_or(Error::Unsupported)?;
        let queue = VirtQueue::new(transport, number, false, false)?;
        Ok(Self { queue, doorbell, buffers, slots: [NO_SLOT; RING], interrupts: true })
    }

    /// The buffer that the next token the card gave back stands for, with the token.
    fn next_used(&self) -> Option<(u16, usize)> {
        let token = self.queue.peek_used()?;
        let slot = *self.slots.get(usize::from(token))?;
        (slot != NO_SLOT).then_some((token, usize::from(slot)))
    }

    /// Notes which buffer a token stands for, and tells the card if it wants to be told.
    fn submitted(&mut self, token: u16, slot: usize) {
        self.slots[usize::from(token)] = slot as u8;
        // What the card wants is read after the buffer is in the ring.
        fence(Ordering::SeqCst);
        if self.queue.should_notify() {
            self.doorbell.ring();
        }
    }

    /// Turns the card's interrupts for this ring on or off. What the card did before they were on is to be looked for
    /// afterwards.
    fn set_interrupts(&mut self, on: bool) {
        if self.interrupts != on {
            self.interrupts = on;
            self.queue.set_dev_notify(on);
            fence(Ordering::SeqCst);
        }
    }
}

/// How many bytes of each buffer frames were in since it was last wiped.
struct Used<const BUFFERS: usize>([u16; BUFFERS]);

impl<const BUFFERS: usize> Used<BUFFERS> {
    fn note(&mut self, slot: usize, bytes: usize) {
        self.0[slot] = self.0[slot].max(u16::try_from(bytes).unwrap_or(u16::MAX));
    }

    /// Zeroes what was used of a buffer.
    ///
    /// # Safety
    /// No frame in it is of interest, and nobody has a reference to its bytes.
    unsafe fn wipe(&mut self, slot: usize, buffers: &Buffers) {
        let bytes = usize::from(core::mem::take(&mut self.0[slot])).min(buffers.length());
        // SAFETY: inside the buffer; for the rest by the caller.
        unsafe { wipe(buffers.at(slot).as_ptr(), bytes) };
    }
}

/// Frames that come.
pub(super) struct ReceiveRing {
    ring: Ring,
    used: Used<RECEIVE_FRAMES>,
    /// Buffers with frames that somebody looks at, a bit each.
    taken: u32,
    /// All buffers were wiped, and what comes late is wiped as soon as it was looked at.
    is_clean: bool,
}

const _: () = assert!(RECEIVE_FRAMES <= u32::BITS as usize);

impl ReceiveRing {
    /// A ring of which the card has all buffers.
    pub(super) fn new(transport: &mut PciTransport, doorbells: &Doorbells, buffers: Buffers) -> Result<Self, Error> {
        let ring = Ring::new(transport, doorbells, QUEUE_RECEIVE, buffers)?;
        let mut ring = Self { ring, used: Used([0; RECEIVE_FRAMES]), taken: 0, is_clean: false };
        for slot in 0..ring.ring.buffers.count() {
            ring.add(slot)?;
        }
        Ok(ring)
    }

    /// Tells the card that there are buffers.
    pub(super) fn ring(&self) {
        self.ring.doorbell.ring();
    }

    /// Start of a buffer.
    pub(super) fn buffer(&self, slot: usize) -> NonNull<u8> {
        self.ring.buffers.at(slot)
    }

    /// The buffer of the next frame that came, and the frame's length. It is the caller's until
    /// [`ReceiveRing::give_back`].
    pub(super) fn take(&mut self) -> Option<(usize, usize)> {
        loop {
            if let Some((slot, length)) = self.pop() {
                self.ring.set_interrupts(false);
                match length.checked_sub(CARD_HEADER_BYTES) {
                    Some(length) if length > 0 && length <= self.ring.buffers.length() - CARD_HEADER_BYTES => {
                        self.taken |= 1 << slot;
                        return Some((slot, length));
                    }
                    // The card wrote nothing that makes sense.
                    _ => self.give_back(slot),
                }
            } else if self.ring.interrupts {
                return None;
            } else {
                self.ring.set_interrupts(true);
            }
        }
    }

    /// Gives a buffer back to the card.
    pub(super) fn give_back(&mut self, slot: usize) {
        self.taken &= !(1 << slot);
        if self.is_clean {
            // SAFETY: whoever looked at the frame is done with it, and the card does not have the buffer yet.
            unsafe { self.used.wipe(slot, &self.ring.buffers) };
        }
        // There is room: the ring has a place for each buffer.
        if let Ok(token) = self.add(slot) {
            self.ring.submitted(token, slot);
        }
    }

    /// Takes a buffer out of the ring that the card is done with: its number, and how many bytes the card wrote.
    fn pop(&mut self) -> Option<(usize, usize)> {
        let (token, slot) = self.ring.next_used()?;
        // SAFETY: the same buffer as in `add`, which the card is done with.
        let bytes = unsafe {
            let buffer = slice::from_raw_parts_mut(self.buffer(slot).as_ptr(), self.ring.buffers.length());
            self.ring.queue.pop_used(token, &[], &mut [buffer]).ok()?
        };
        self.ring.slots[usize::from(token)] = NO_SLOT;
        self.used.note(slot, bytes as usize);
        Some((slot, bytes as usize))
    }

    /// Puts a buffer into the ring.
    fn add(&mut self, slot: usize) -> Result<u16, Error> {
        // SAFETY: the buffer is nobody's, and the card's alone until it is popped.
        let token = unsafe {
            let buffer = slice::from_raw_parts_mut(self.buffer(slot).as_ptr(), self.ring.buffers.length());
            self.ring.queue.add(&[], &mut [buffer])?
        };
        self.ring.slots[usize::from(token)] = slot as u8;
        Ok(token)
    }

    /// Zeroes what frames left in the buffers. Not all of it if there are frames that were not looked at, unless
    /// `force` says that they are to be lost. (Those that somebody looks at right now stay.) If it is all, what comes
    /// from then on leaves nothing either, until [`ReceiveRing::keep`].
    pub(super) fn scrub(&mut self, force: bool) -> bool {
        for slot in 0..self.ring.buffers.count() {
            if force {
                // Frames that were not looked at are not noted either.
                self.used.note(slot, self.ring.buffers.length());
            }
            if self.used.0[slot] == 0 {
                continue;
            }
            let taken = self.taken & 1 << slot != 0;
            if taken && force {
                continue;
            }
            if taken || !force && self.ring.queue.can_pop() {
                return false;
            }
            // SAFETY: nobody looks at this buffer. The card may write a frame to it at the same time; then the frame is
            // lost, as frames may be.
            unsafe { self.used.wipe(slot, &self.ring.buffers) };
        }
        self.is_clean = force || !self.ring.queue.can_pop();
        self.is_clean
    }

    /// What frames leave in the buffers may stay there until the next [`ReceiveRing::scrub`].
    pub(super) fn keep(&mut self) {
        self.is_clean = false;
    }
}

/// Frames that go.
pub(super) struct TransmitRing {
    ring: Ring,
    /// Numbers of the buffers that are nobody's.
    free: [u8; TRANSMIT_FRAMES],
    /// How many.
    free_count: usize,
    /// Length of the frame in each buffer that is the card's, with the card's header.
    lengths: [u16; TRANSMIT_FRAMES],
    used: Used<TRANSMIT_FRAMES>,
}

impl TransmitRing {
    /// A ring of which the card has no buffer.
    pub(super) fn new(transport: &mut PciTransport, doorbells: &Doorbells, buffers: Buffers) -> Result<Self, Error> {
        let mut ring = Ring::new(transport, doorbells, QUEUE_TRANSMIT, buffers)?;
        ring.set_interrupts(false);
        Ok(Self {
            ring,
            free: core::array::from_fn(|slot| slot as u8),
            free_count: TRANSMIT_FRAMES,
            lengths: [0; TRANSMIT_FRAMES],
            used: Used([0; TRANSMIT_FRAMES]),
        })
    }

    /// Whether there is room for a frame. If not, the card will interrupt when there is.
    pub(super) fn has_room(&mut self) -> bool {
        self.reclaim();
        if self.free_count == 0 && !self.ring.interrupts {
            self.ring.set_interrupts(true);
            self.reclaim();
        }
        self.free_count > 0
    }

    /// Sends a frame.
    pub(super) fn send<R>(&mut self, length: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if !self.has_room() {
            return None;
        }
        self.ring.set_interrupts(false);
        let slot = usize::from(self.free[self.free_count - 1]);
        let bytes = CARD_HEADER_BYTES + length;
        self.used.note(slot, bytes);
        // SAFETY: the buffer is nobody's; the frame fits, which the caller checked. The card's header is in front, and
        // is all zeros since the memory was taken.
        let frame =
            unsafe { slice::from_raw_parts_mut(self.ring.buffers.at(slot).as_ptr().add(CARD_HEADER_BYTES), length) };
        let result = fill(frame);
        // SAFETY: the buffer is the card's alone from here until it is popped.
        let token = unsafe {
            let buffer = slice::from_raw_parts(self.ring.buffers.at(slot).as_ptr(), bytes);
            self.ring.queue.add(&[buffer], &mut []).ok()?
        };
        self.free_count -= 1;
        self.lengths[slot] = bytes as u16;
        self.ring.submitted(token, slot);
        Some(result)
    }

    /// Takes back the buffers of frames that are gone.
    fn reclaim(&mut self) {
        while let Some((token, slot)) = self.ring.next_used() {
            // SAFETY: the same buffer and length as in `send`, which the card is done with.
            let popped = unsafe {
                let buffer =
                    slice::from_raw_parts(self.ring.buffers.at(slot).as_ptr(), usize::from(self.lengths[slot]));
                self.ring.queue.pop_used(token, &[buffer], &mut [])
            };
            if popped.is_err() {
                break;
            }
            self.ring.slots[usize::from(token)] = NO_SLOT;
            self.free[self.free_count] = slot as u8;
            self.free_count += 1;
        }
    }

    /// Zeroes what frames left in the buffers. Not in those of frames that are on their way, unless `force` says that
    /// they are to be lost.
    pub(super) fn scrub(&mut self, force: bool) -> bool {
        self.reclaim();
        let slots = if force { TRANSMIT_FRAMES } else { self.free_count };
        for index in 0..slots {
            let slot = if force { index } else { usize::from(self.free[index]) };
            // SAFETY: nobody has a reference to the buffer. If it is the card's, it sends zeros instead of the frame,
            // which nobody takes for one.
            unsafe { self.used.wipe(slot, &self.ring.buffers) };
        }
        force || self.free_count == TRANSMIT_FRAMES
    }
}
