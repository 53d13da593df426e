//! The network card: virtio-net over PCI, one queue each way.
//!
//! Memory for frames is taken once, in one piece, as buffers large enough for a whole frame each, because jumbo frames
//! are the rule here and merging small buffers would mean copying. When all receive buffers hold frames
//! nobody took, the card keeps what comes, and the wire behind it waits.
//!
//! Frames carry programs' bytes and are not wiped as they go, which would cost as much as copying them: buffers keep
//! what was in them, and note how much of it, until [`Nic::scrub`].
//!
//! The card interrupts only when somebody waits for it: after [`Nic::receive`] found nothing, or after
//! [`Nic::can_transmit`] found no room. Both look once more after turning interrupts on, so nothing is missed.

use core::fmt;
use core::ops::Deref;

use spin::Mutex;
use virtio_drivers::transport::Transport;
use virtio_drivers::transport::pci::bus::{DeviceFunction, PciRoot};
use virtio_drivers::transport::pci::{PciTransport, VirtioPciError};

use self::buffers::Buffers;
use self::ring::{ReceiveRing, TransmitRing};
use super::dma::Virtio;
use super::irq::VECTOR_NIC;
use super::msix;
use super::pci::{self, ConfigurationPorts};
use super::virtio::Doorbells;

mod buffers;
mod ring;

/// Frames that may have come in and not been looked at. The card may keep as many places in its ring.
pub const RECEIVE_FRAMES: usize = 32;

/// Frames that may be on their way out. With the others, the largest make half a MiB, which the pool has in one piece.
pub const TRANSMIT_FRAMES: usize = 24;

/// Places in the card's rings, a power of two.
const RING: usize = 32;

/// Largest packet if the card does not say, bytes.
const MTU_DEFAULT: u16 = 1500;

/// Largest packet that buffers are made for, bytes.
pub const MTU_MAX: u16 = 9216;

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;

/// Bytes the card puts in front of a frame.
const CARD_HEADER_BYTES: usize = 12;

/// Offsets in the card's configuration.
mod configuration {
    pub(super) const MAC: usize = 0;
    pub(super) const MTU: usize = 10;
}

bitflags::bitflags! {
    /// What card and driver can agree on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Features: u64 {
        /// The card says how long packets may be.
        const MTU = 1 << 3;
        /// The card has an address.
        const MAC = 1 << 5;
        /// The standard's first version, not what was before.
        const VERSION_1 = 1 << 32;
    }
}

/// A network card that is running.
pub struct Nic {
    mac: [u8; 6],
    mtu: u16,
    receive: Mutex<ReceiveRing>,
    transmit: Mutex<TransmitRing>,
}

/// Why a network card does not start.
#[derive(Debug)]
pub(super) enum NicError {
    /// The PCI side of it is not as it should be.
    Pci(VirtioPciError),
    /// The virtio side of it is not.
    Virtio(virtio_drivers::Error),
    /// Its registers are where the kernel cannot reach them.
    Registers,
    /// It cannot interrupt by message.
    NoMessages,
    /// It lacks features the driver needs.
    Features,
    /// There is no memory for its buffers.
    OutOfMemory,
}

impl fmt::Display for NicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(error) => write!(f, "{error}"),
            Self::Virtio(error) => write!(f, "{error}"),
            Self::Registers => f.write_str("its registers cannot be mapped"),
            Self::NoMessages => f.write_str("it cannot interrupt by message"),
            Self::Features => f.write_str("it has no address, or is older than virtio 1.0"),
            Self::OutOfMemory => f.write_str("no memory for its buffers"),
        }
    }
}

impl From<virtio_drivers::Error> for NicError {
    fn from(error: virtio_drivers::Error) -> Self {
        Self::Virtio(error)
    }
}

impl Nic {
    /// Starts the card at `function`.
    pub(super) fn start(mut root: PciRoot<ConfigurationPorts>, function: DeviceFunction) -> Result<Self, NicError> {
        pci::map_registers(&mut root, function).ok_or(NicError::Registers)?;
        let mut transport = PciTransport::new::<Virtio, _>(&mut root, function).map_err(NicError::Pci)?;
        let features = transport.begin_init(Features::all());
        if !features.contains(Features::MAC | Features::VERSION_1) {
            return Err(NicError::Features);
        }
        let mac = transport.read_consistent(|| transport.read_config_space::<[u8; 6]>(configuration::MAC))?;
        let mtu = if features.contains(Features::MTU) {
            transport.read_config_space::<u16>(configuration::MTU)?.min(MTU_MAX)
        } else {
            MTU_DEFAULT
        };
        let mut ports = ConfigurationPorts;
        msix::enable(&mut root, &mut ports, function, VECTOR_NIC).ok_or(NicError::NoMessages)?;
        let doorbells = Doorbells::find(&mut root, &mut ports, function).ok_or(NicError::NoMessages)?;
        let frame_bytes = CARD_HEADER_BYTES + ETHERNET_BYTES + usize::from(mtu);
        let (received, transmitted) = Buffers::take(frame_bytes).ok_or(NicError::OutOfMemory)?;
        let receive = ReceiveRing::new(&mut transport, &doorbells, received)?;
        let transmit = TransmitRing::new(&mut transport, &doorbells, transmitted)?;
        transport.finish_init();
        // Dropping it would reset the card.
        core::mem::forget(transport);
        receive.ring();
        Ok(Self { mac, mtu, receive: Mutex::new(receive), transmit: Mutex::new(transmit) })
    }

    /// Its Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Largest packet behind the Ethernet header, bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The next frame that came in. If there is none, the card will interrupt when there is.
    pub fn receive(&self) -> Option<RxFrame<'_>> {
        let (slot, length) = self.receive.lock().take()?;
        Some(RxFrame { nic: self, slot, length })
    }

    /// Whether [`Nic::transmit`] would take a frame now. If not, the card will interrupt when it would.
    #[must_use]
    pub fn can_transmit(&self) -> bool {
        self.transmit.lock().has_room()
    }

    /// Sends a frame of `length` bytes, which `fill` writes; the bytes it does not write are those of some earlier
    /// frame. `None`, and nothing is sent, if there is no room or the frame is too long.
    pub fn transmit<R>(&self, length: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if length > usize::from(self.mtu) + ETHERNET_BYTES {
            return None;
        }
        self.transmit.lock().send(length, fill)
    }

    /// Zeroes what frames left in the buffers. Returns whether that was all; if not, frames are still on their way out
    /// or wait to be received, and so it is to be called again. With `force` those are wiped too, and are lost.
    ///
    /// Frames that come later, until [`Nic::keep`], leave nothing once they were looked at: who sent them may not have
    /// heard that nobody wants them any more.
    ///
    /// The card has most of these buffers, for frames to come. A frame that comes in this very moment may be damaged,
    /// which its checksums show, and is sent again.
    pub fn scrub(&self, force: bool) -> bool {
        let (received, sent) = (self.receive.lock().scrub(force), self.transmit.lock().scrub(force));
        received && sent
    }

    /// Frames may leave something in the buffers until the next [`Nic::scrub`]: that is faster.
    pub fn keep(&self) {
        self.receive.lock().keep();
    }
}

/// A frame that came in, in the card's memory. Its room goes back to the card when it is dropped.
pub struct RxFrame<'a> {
    nic: &'a Nic,
    slot: usize,
    length: usize,
}

impl Deref for RxFrame<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let buffer = self.nic.receive.lock().buffer(self.slot);
        // SAFETY: the card has handed the buffer over, with at least as many bytes, and gets it back when this value,
        // which alone stands for it, is dropped.
        unsafe { core::slice::from_raw_parts(buffer.as_ptr().add(CARD_HEADER_BYTES), self.length) }
    }
}

impl Drop for RxFrame<'_> {
    fn drop(&mut self) {
        self.nic.receive.lock().give_back(self.slot);
    }
}
