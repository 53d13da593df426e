//! The type of the network card, of which there is none on the host.

use core::convert::Infallible;
use core::ops::Deref;

/// A network card; none can be made.
pub struct Nic(Infallible);

/// A frame that came in; none can.
pub struct RxFrame<'a>(Infallible, core::marker::PhantomData<&'a Nic>);

impl Nic {
    /// Its Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        match self.0 {}
    }

    /// Largest packet behind the Ethernet header, bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        match self.0 {}
    }

    /// The next frame that came in.
    pub fn receive(&self) -> Option<RxFrame<'_>> {
        match self.0 {}
    }

    /// Whether [`Nic::transmit`] would take a frame now.
    #[must_use]
    pub fn can_transmit(&self) -> bool {
        match self.0 {}
    }

    /// Sends a frame of `length` bytes, which `fill` writes.
    pub fn transmit<R>(&self, _length: usize, _fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        match self.0 {}
    }

    /// Zeroes what frames left in the buffers. Returns whether that was all.
    pub fn scrub(&self, _force: bool) -> bool {
        match self.0 {}
    }

    /// Frames may leave something until the next [`Nic::scrub`].
    pub fn keep(&self) {
        match self.0 {}
    }
}

impl Deref for RxFrame<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self.0 {}
    }
}
