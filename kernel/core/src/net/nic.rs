//! The network card as smoltcp's kind of device.

use alloc::sync::Arc;
use alloc::vec;

use coppice_endpoint::ETHERNET_HEADER_BYTES;
use coppice_hal::nic::{Nic, RxFrame};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::sync::atomic::{AtomicU64, Ordering};

/// A network card that keeps nothing of what went through it.
pub trait Card: Device {
    /// Zeroes what frames left in its buffers. Returns whether that was all; if not, frames are still on their way out
    /// or wait to be received, and so it is to be called again. With `force` those are wiped too, and are lost.
    ///
    /// Frames that come late, until [`Card::keep`], leave nothing either.
    fn scrub(&mut self, force: bool) -> bool;

    /// Frames may leave something in its buffers until the next [`Card::scrub`].
    fn keep(&mut self);
}

/// What went through a card since the node booted. Whoever has the card counts, and anybody looks.
#[derive(Debug, Default)]
pub struct CardCounts {
    sent: Way,
    received: Way,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Way {
    frames: AtomicU64,
    bytes: AtomicU64,
}

/// What went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Went {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl Way {
    fn add(&self, bytes: usize) {
        add(&self.frames, 1);
        add(&self.bytes, bytes as u64);
    }

    fn went(&self) -> Went {
        Went { frames: self.frames.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// One has the card at a time.
fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl CardCounts {
    pub(crate) fn has_sent(&self, bytes: usize) {
        self.sent.add(bytes);
    }

    pub(crate) fn has_received(&self, bytes: usize) {
        self.received.add(bytes);
    }

    pub(crate) fn has_dropped(&self) {
        add(&self.dropped, 1);
    }

    /// Frames that were sent.
    pub(crate) fn sent(&self) -> Went {
        self.sent.went()
    }

    /// Frames that came.
    pub(crate) fn received(&self) -> Went {
        self.received.went()
    }

    /// Frames that were to be sent and were not.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The node's network card.
pub struct NicDevice {
    nic: Nic,
    counts: Arc<CardCounts>,
}

impl NicDevice {
    /// Takes the card over.
    #[must_use]
    pub fn new(nic: Nic) -> Self {
        Self { nic, counts: Arc::default() }
    }

    /// What goes through it.
    #[must_use]
    pub fn counts(&self) -> Arc<CardCounts> {
        Arc::clone(&self.counts)
    }
}

impl Card for NicDevice {
    fn scrub(&mut self, force: bool) -> bool {
        self.nic.scrub(force)
    }

    fn keep(&mut self) {
        self.nic.keep();
    }
}

impl Device for NicDevice {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Transmit<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(self.nic.mtu()) + ETHERNET_HEADER_BYTES;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        // Frames are taken even when there is no room for an answer: one that is lost is sent again, and the
        // acknowledgements in frames are what makes room.
        let transmit = Transmit(&self.nic, &self.counts);
        self.nic.receive().map(|frame| (Received(frame, &self.counts), transmit))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self::TxToken<'_>> {
        self.nic.can_transmit().then_some(Transmit(&self.nic, &self.counts))
    }
}

/// A frame that came in; its buffer goes back to the card when this is dropped.
pub struct Received<'a>(RxFrame<'a>, &'a CardCounts);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        self.1.has_received(self.0.len());
        f(&self.0)
    }
}

/// Room for a frame to send.
pub struct Transmit<'a>(&'a Nic, &'a CardCounts);

impl TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        if !self.0.can_transmit() {
            self.1.has_dropped();
            return f(&mut vec![0; length]);
        }
        let mut f = Some(f);
        let sent = self.0.transmit(length, |bytes| f.take().map(|f| f(bytes)));
        match (sent.flatten(), f) {
            (Some(result), _) => {
                self.1.has_sent(length);
                result
            }
            // The card changed its mind: the frame is lost, as frames may be.
            (None, Some(f)) => {
                self.1.has_dropped();
                f(&mut vec![0; length])
            }
            (None, None) => unreachable!("a transmitted frame has a result"),
        }
    }
}
