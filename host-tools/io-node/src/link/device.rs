//! A network device that is two queues of Ethernet frames.

use std::collections::VecDeque;

use coppice_endpoint::ETHERNET_HEADER_BYTES;
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

use crate::limits::{FRAMES_PER_WAKE_MAX, FRAMES_QUEUED_MAX};

/// Received frames that the stack has not seen yet, and frames that wait for the socket.
#[derive(Debug)]
pub struct Device {
    received: VecDeque<Vec<u8>>,
    queued: VecDeque<Vec<u8>>,
    mtu: usize,
}

impl Device {
    /// A device whose link takes IP packets of `mtu` bytes.
    #[must_use]
    pub fn new(mtu: u16) -> Self {
        Self { received: VecDeque::new(), queued: VecDeque::new(), mtu: usize::from(mtu) }
    }

    /// Is there room for another received frame?
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.received.len() < FRAMES_PER_WAKE_MAX
    }

    /// A frame arrived. Dropped if there is no room.
    pub fn push_received(&mut self, frame: &[u8]) {
        if self.has_room() {
            self.received.push_back(frame.to_vec());
        }
    }

    /// The frames to send, oldest first. Whoever sends one takes it off.
    pub fn queued(&mut self) -> &mut VecDeque<Vec<u8>> {
        &mut self.queued
    }
}

impl phy::Device for Device {
    type RxToken<'a> = Received;
    type TxToken<'a> = Transmit<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + ETHERNET_HEADER_BYTES;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Received, Transmit<'_>)> {
        // A frame is only taken when there is room for its answer.
        if self.queued.len() >= FRAMES_QUEUED_MAX {
            return None;
        }
        let frame = self.received.pop_front()?;
        Some((Received(frame), Transmit(&mut self.queued)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Transmit<'_>> {
        (self.queued.len() < FRAMES_QUEUED_MAX).then_some(Transmit(&mut self.queued))
    }
}

/// A received frame on its way into the stack.
#[derive(Debug)]
pub struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Room for one frame to send.
#[derive(Debug)]
pub struct Transmit<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}
