//! The network card as smoltcp's kind of device.

use alloc::vec;

use coppice_endpoint::ETHERNET_HEADER_BYTES;
use coppice_hal::nic::{Nic, RxFrame};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

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

/// The node's network card.
pub struct NicDevice(Nic);

impl NicDevice {
    /// Takes the card over.
    #[must_use]
    pub const fn new(nic: Nic) -> Self {
        Self(nic)
    }
}

impl Card for NicDevice {
    fn scrub(&mut self, force: bool) -> bool {
        self.0.scrub(force)
    }

    fn keep(&mut self) {
        self.0.keep();
    }
}

impl Device for NicDevice {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Transmit<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(self.0.mtu()) + ETHERNET_HEADER_BYTES;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        // Frames are taken even when there is no room for an answer: one that is lost is sent again, and the
        // acknowledgements in frames are what makes room.
        self.0.receive().map(|frame| (Received(frame), Transmit(&self.0)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self::TxToken<'_>> {
        self.0.can_transmit().then_some(Transmit(&self.0))
    }
}

/// A frame that came in; its buffer goes back to the card when this is dropped.
pub struct Received<'a>(RxFrame<'a>);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Room for a frame to send.
pub struct Transmit<'a>(&'a Nic);

impl TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        if !self.0.can_transmit() {
            return f(&mut vec![0; length]);
        }
        let mut f = Some(f);
        let sent = self.0.transmit(length, |bytes| f.take().map(|f| f(bytes)));
        match (sent.flatten(), f) {
            (Some(result), _) => result,
            // The card changed its mind: the frame is lost, as frames may be.
            (None, Some(f)) => f(&mut vec![0; length]),
            (None, None) => unreachable!("a transmitted frame has a result"),
        }
    }
}
