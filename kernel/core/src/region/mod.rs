//! The node's region ([`coppice_protocol::region`]): checkpoints lie there first, and what they have is found there
//! again by name. The I/O node pulls them from there, for which nothing is done here.
//!
//! One slot is filled at a time ([`Filling`]). Pages go by the engine, which fetches them from where they lie; what is
//! read here comes by the processor's way, and is believed when it was held against its check or its name.
//!
//! What was given up does not stay: blocks that no slot has become zeros, then and when the node boots ([`clean`]). If
//! the engine does not answer the region is left alone until it has done all it was given.

mod clean;
mod filling;
mod found;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::{Frame, FrameKind, FramePool};
use coppice_hal::region::{Full, PAGES_MAX, Region as Device, Ticket};
use coppice_protocol::region::{BLOCK_BYTES, header_offset};
use coppice_protocol::region::{Blocks, NoTable, REGION_BYTES_MIN, SLOTS, Slot, State, SuperBlock, Table};

pub(crate) use self::filling::Filling;
pub(crate) use self::found::Names;
use crate::executor::{self, WaitQueue};
use crate::limits::{REGION_LOOK_NS, REGION_LOOKS, REGION_SILENCE_NS};

/// [`REGION_SILENCE_NS`] as it is said.
const REGION_SILENCE_S: u64 = REGION_SILENCE_NS / 1_000_000_000;

/// Bytes of a header that say something.
const SAID_BYTES: usize = 512;

const _: () = assert!(PAGES_MAX * PAGE_BYTES == BLOCK_BYTES as usize, "a block is what the engine writes at once");

/// See this module.
pub struct Region {
    device: &'static Device,
    frames: &'static FramePool,
    /// The engine has done something.
    changed: WaitQueue,
    /// It can be used: it begins with what it is to.
    is_ready: AtomicBool,
    /// One of [`free_blocks`].
    has_free_blocks: AtomicU8,
    /// The engine has not answered in time.
    is_silent: AtomicBool,
    /// What slots had when somebody looked last, bytes.
    used: AtomicU64,
}

/// Who has the blocks that no slot has.
mod free_blocks {
    pub(super) const NOBODY: u8 = 0;
    /// A slot is being filled.
    pub(super) const FILLING: u8 = 1;
    /// They become zeros.
    pub(super) const CLEANING: u8 = 2;
}

/// What a header says.
enum Said {
    /// It is empty.
    Nothing,
    /// It is none, and stays that: it was torn when the node went.
    Noise,
    Slot(Slot),
}

/// Why something is not in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotWritten {
    /// The host could not.
    #[error("the host could not write to the node's region; is its disk full?")]
    Engine,
    /// The engine does not answer.
    #[error("the node's region has not answered for {REGION_SILENCE_S} s; is what it lies on still there?")]
    Silent,
    /// There is no memory for what is to be written.
    #[error("there is no memory for what goes to the node's region")]
    Memory,
    /// It is full.
    #[error("the node's region is too small (`coppice up --nmr`)")]
    Full,
}

impl Region {
    /// What the machine has. `None`: that is too small for anything.
    #[must_use]
    pub fn new(device: &'static Device, frames: &'static FramePool) -> Option<Arc<Self>> {
        if device.bytes() < REGION_BYTES_MIN {
            log::error!("the region has {} bytes, which is less than {REGION_BYTES_MIN}", device.bytes());
            return None;
        }
        let [is_ready, is_silent] = [false, false].map(AtomicBool::new);
        let has_free_blocks = AtomicU8::new(free_blocks::NOBODY);
        let (changed, used) = (WaitQueue::new(), AtomicU64::new(0));
        Some(Arc::new(Self { device, frames, changed, is_ready, has_free_blocks, is_silent, used }))
    }

    /// What is used of it, as far as was known when a slot was filled, or what was given up was cleaned, last, bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// These are free.
    fn note_used(&self, blocks: &Blocks) {
        let used = self.device.bytes().saturating_sub(blocks.free() as u64 * BLOCK_BYTES);
        self.used.store(used, Ordering::Relaxed);
    }

    /// Hears the engine, for ever.
    pub async fn hear(self: Arc<Self>) {
        loop {
            executor::region_interrupt().await;
            self.changed.wake_all();
        }
    }

    /// Has it begin with what it is to, if it does not yet: then nothing is in it.
    pub async fn prepare(self: Arc<Self>) {
        let mut header = [0; SAID_BYTES];
        let is_one = self.device.read(0, &mut header) && SuperBlock::is_at(&header, self.device.bytes());
        if !is_one && let Err(error) = self.make().await {
            return log::error!("the region is of no use: {error}");
        }
        self.clean_at_boot().await;
    }

    async fn make(&self) -> Result<(), NotWritten> {
        for slot in 0..SLOTS {
            self.write_bytes(header_offset(slot), &[0; SAID_BYTES]).await?;
        }
        self.flush().await?;
        self.write_bytes(0, &SuperBlock::of(self.device.bytes()).bytes()).await?;
        self.flush().await
    }

    /// What a slot's header says, at last.
    async fn said(&self, slot: u8) -> Said {
        for _ in 0..REGION_LOOKS {
            let mut header = [0; SAID_BYTES];
            if !self.device.read(header_offset(slot), &mut header) || header == [0; SAID_BYTES] {
                return Said::Nothing;
            }
            if let Some(slot) = Slot::read(&header, self.device.bytes()) {
                return Said::Slot(slot);
            }
            executor::sleep(REGION_LOOK_NS).await;
        }
        Said::Noise
    }

    /// Whether the engine could take more.
    pub(crate) fn has_room(&self) -> bool {
        self.device.has_room()
    }

    /// What a slot's header says. `None`: nothing is in it.
    fn slot(&self, slot: u8) -> Option<Slot> {
        let mut header = [0; SAID_BYTES];
        let there = self.is_ready.load(Ordering::Acquire) && self.device.read(header_offset(slot), &mut header);
        there.then(|| Slot::read(&header, self.device.bytes()))?
    }

    /// Slots of which all is there.
    fn whole(&self) -> impl Iterator<Item = (u8, Slot)> {
        let slots = (0..SLOTS).filter_map(|number| Some((number, self.slot(number)?)));
        slots.filter(|(_, slot)| slot.state != State::Filling)
    }

    fn read(&self, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        let length = usize::try_from(bytes).ok().filter(|_| bytes <= self.device.bytes())?;
        let mut read = Vec::new();
        read.try_reserve_exact(length).ok()?;
        read.resize(length, 0);
        self.device.read(offset, &mut read).then_some(read)
    }

    /// The table of a slot.
    fn table(&self, slot: &Slot) -> Result<Table, NoTable> {
        let bytes = self.read(slot.table.offset, slot.table.bytes).ok_or(NoTable)?;
        Table::read(&bytes, slot, self.device.bytes())
    }

    /// What the engine has to say, which it may not do in time.
    async fn answered<T>(&self, look: impl FnMut() -> Option<T> + Unpin) -> Result<T, NotWritten> {
        let answered = executor::timeout(REGION_SILENCE_NS, self.changed.wait_until(look)).await;
        self.is_silent.fetch_or(answered.is_err(), Ordering::Relaxed);
        answered.map_err(|_| NotWritten::Silent)
    }

    /// Begins to have the engine write pages; waits if it has enough to do.
    async fn begin(&self, offset: u64, frames: Vec<Frame>) -> Result<Ticket, NotWritten> {
        self.answered(|| self.device.has_room().then_some(())).await?;
        // One at a time has anything written.
        self.device.write(offset, frames).map_err(|Full(_)| NotWritten::Engine)
    }

    /// Waits until the engine has done something.
    async fn done(&self, ticket: Ticket) -> Result<(), NotWritten> {
        let well = self.answered(|| self.device.is_done(&ticket)).await?;
        // There is room for another one.
        drop(ticket);
        self.changed.wake_all();
        if well { Ok(()) } else { Err(NotWritten::Engine) }
    }

    /// Writes bytes at the beginning of a page; what is behind them in the last is zeros then.
    async fn write_bytes(&self, offset: u64, bytes: &[u8]) -> Result<(), NotWritten> {
        for (chunk, at) in bytes.chunks(BLOCK_BYTES as usize).zip((offset..).step_by(BLOCK_BYTES as usize)) {
            let frames = self.frames_of(chunk)?;
            if !self.device.has_engine() {
                self.copy(at, &frames)?;
                continue;
            }
            let ticket = self.begin(at, frames).await?;
            self.done(ticket).await?;
        }
        Ok(())
    }

    /// Copies pages there, by the processor.
    fn copy(&self, offset: u64, frames: &[Frame]) -> Result<(), NotWritten> {
        let mut pages = frames.iter().zip((offset..).step_by(PAGE_BYTES));
        let copied = pages.all(|(frame, at)| self.device.copy(at, frame));
        if copied { Ok(()) } else { Err(NotWritten::Engine) }
    }

    /// Pages with these bytes.
    fn frames_of(&self, bytes: &[u8]) -> Result<Vec<Frame>, NotWritten> {
        let frames = bytes.chunks(PAGE_BYTES).map(|chunk| {
            let frame = self.frames.alloc(FrameKind::User).ok_or(NotWritten::Memory)?;
            frame.write(0, chunk);
            Ok(frame)
        });
        frames.collect()
    }

    /// Has all be on stable storage that was written.
    async fn flush(&self) -> Result<(), NotWritten> {
        if !self.device.has_engine() {
            // The host's kernel has it, whatever becomes of the machine.
            return Ok(());
        }
        let ticket = self.answered(|| self.device.flush()).await?;
        self.done(ticket).await
    }
}
