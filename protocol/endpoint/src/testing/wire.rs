//! A wire between two devices, in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::vec;
use std::vec::Vec;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use spin::Mutex;

/// Room for frames of an end that is on a wire, as many as a network card's ring has.
const RING: usize = 32;

#[derive(Default)]
struct Port {
    sent: VecDeque<Vec<u8>>,
    received: VecDeque<Vec<u8>>,
    watcher: Option<Waker>,
}

/// One end of a wire: a device for jumbo frames. Clones are handles to the same end.
#[derive(Clone)]
pub struct End {
    port: Arc<Mutex<Port>>,
    /// What it sends is received there, or waits to be taken from here.
    peer: Option<Arc<Mutex<Port>>>,
    ring: usize,
}

/// A wire on which a frame arrives at once.
#[must_use]
pub fn wire() -> (End, End) {
    let (left, right) = (Arc::<Mutex<Port>>::default(), Arc::<Mutex<Port>>::default());
    let end = |port: &Arc<_>, peer: &Arc<_>| End { port: Arc::clone(port), peer: Some(Arc::clone(peer)), ring: RING };
    (end(&left, &right), end(&right, &left))
}

impl End {
    /// An end of no wire, with room for `ring` frames that wait to be taken.
    pub(super) fn loose(ring: usize) -> Self {
        Self { port: Arc::default(), peer: None, ring }
    }

    /// Wakes `watcher` once a frame is there, which may be at once.
    pub fn on_frame(&self, watcher: &Waker) {
        let mut port = self.port.lock();
        if port.received.is_empty() {
            port.watcher = Some(watcher.clone());
        } else {
            watcher.wake_by_ref();
        }
    }

    /// Whether frames wait to be received.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        !self.port.lock().received.is_empty()
    }

    /// The frames that were sent.
    pub(super) fn take_sent(&self) -> Vec<Vec<u8>> {
        self.port.lock().sent.drain(..).collect()
    }

    /// Has a frame received.
    pub fn put(&self, frame: Vec<u8>) {
        receive(&self.port, frame);
    }
}

fn receive(port: &Mutex<Port>, frame: Vec<u8>) {
    let mut port = port.lock();
    port.received.push_back(frame);
    if let Some(watcher) = port.watcher.take() {
        watcher.wake();
    }
}

impl Device for End {
    type RxToken<'a> = Frame;
    type TxToken<'a> = Self;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 9014;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Frame, Self)> {
        let frame = self.port.lock().received.pop_front()?;
        Some((Frame(frame), self.clone()))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self> {
        let waiting = match &self.peer {
            Some(peer) => peer.lock().received.len(),
            None => self.port.lock().sent.len(),
        };
        (waiting < self.ring).then(|| self.clone())
    }
}

/// A frame that came.
pub struct Frame(Vec<u8>);

impl RxToken for Frame {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for End {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        match &self.peer {
            Some(peer) => receive(peer, frame),
            None => self.port.lock().sent.push_back(frame),
        }
        result
    }
}
