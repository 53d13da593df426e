//! A slot of the region while it is filled.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::Frame;
use coppice_hal::region::{Full, Ticket};
use coppice_protocol::ids::JobId;
use coppice_protocol::region::{
    BLOCK_BYTES, Blocks, Extent, SLOTS, Slot, SlotKey, State, Table, TablePart, check, header_offset,
};

use super::{NotWritten, Region, Said, clean, free_blocks};
use crate::quota::{Charge, Quota};

/// Bytes that a table and an index have of each object at most, with what they have of a part.
const BYTES_OF_OBJECT: u64 = 256;

/// How much longer a table is in memory at most, as bytes and as what they say while that grows.
const TABLE_IN_MEMORY: usize = 16;

/// Blocks that are left for a table and an index, beside those for their objects.
const BLOCKS_LEFT: u64 = 4;

/// Blocks that must be free for a slot to be filled at all.
const BLOCKS_MIN: usize = 2 * BLOCKS_LEFT as usize;

/// See this module. Whoever drops it gives it up.
pub(crate) struct Filling {
    region: Arc<Region>,
    job: JobId,
    key: SlotKey,
    blocks: Blocks,
    objects: u64,
    /// What the engine has to do yet, in order.
    under_way: VecDeque<Ticket>,
    /// For an object's bytes, to be held against later.
    buffer: Vec<u8>,
    /// Ranks stand until it is done: what finds so many requests under way, or no room, is copied.
    copy: Option<u8>,
    /// Others may fill one when it goes. What the engine still does for it is waited for by whoever does. `None`: it is
    /// whole.
    taken: Option<Taken>,
    quota: Arc<Quota>,
    _charge: Charge,
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            clean::begin(taken, Arc::clone(&self.quota));
        }
    }
}

impl Region {
    /// Begins to fill a slot for a job. `None`: there is none, nor room; or somebody else is at it.
    pub(crate) async fn fill(
        self: &Arc<Self>,
        (job, key): (JobId, u64),
        copy: Option<u8>,
        quota: &Arc<Quota>,
    ) -> Result<Option<Filling>, NotWritten> {
        let Some(taken) = self.take_to_fill().await else { return Ok(None) };
        // It does not keep the order, and may still be writing for one that was given up.
        if self.answered(|| self.device.is_idle().then_some(())).await.is_err() {
            return Ok(None);
        }
        let bytes = Blocks::memory_bytes(self.device.bytes()) + BLOCK_BYTES as usize;
        let charge = quota.charge(bytes).map_err(|_| NotWritten::Memory)?;
        let (Some(slot), blocks) = self.free(Some(quota)).await? else { return Ok(None) };
        if blocks.free() < BLOCKS_MIN {
            return Ok(None);
        }
        let nowhere = Extent { offset: 0, bytes: 0, check: 0 };
        let header = Slot { state: State::Filling, job, key, table: nowhere, index: nowhere };
        self.write_bytes(header_offset(slot), &header.bytes()).await?;
        let region = Arc::clone(self);
        let (key, under_way, buffer) = (SlotKey { slot, key }, VecDeque::new(), Vec::new());
        let (taken, quota, _charge) = (Some(taken), Arc::clone(quota), charge);
        Ok(Some(Filling { region, job, key, blocks, objects: 0, under_way, buffer, copy, taken, quota, _charge }))
    }

    /// Takes the blocks that no slot has, to fill one, when nobody cleans them any more. `None`: they cannot be had, or
    /// somebody else fills one.
    async fn take_to_fill(self: &Arc<Self>) -> Option<Taken> {
        if !self.is_ready.load(Ordering::Acquire) || !self.is_answering() {
            return None;
        }
        let is_clean = || (self.has_free_blocks.load(Ordering::Acquire) != free_blocks::CLEANING).then_some(());
        self.answered(is_clean).await.ok()?;
        Taken::take(self, free_blocks::FILLING)
    }

    /// The first slot that nothing whole is in, and the blocks that no slot has. What their tables take meanwhile is
    /// charged to `quota`.
    pub(super) async fn free(&self, quota: Option<&Arc<Quota>>) -> Result<(Option<u8>, Blocks), NotWritten> {
        let mut blocks = Blocks::new(self.device.bytes()).map_err(|_| NotWritten::Memory)?;
        let mut free = None;
        for number in 0..SLOTS {
            // If it cannot be read at this moment, as the I/O node writes it, its blocks are not free for that.
            let slot = match self.said(number).await {
                Said::Slot(slot) if slot.state != State::Filling => slot,
                Said::Slot(_) | Said::Nothing | Said::Noise => {
                    free = free.or(Some(number));
                    continue;
                }
            };
            let bytes = usize::try_from(slot.table.bytes).unwrap_or(usize::MAX);
            let charge = quota.map(|quota| quota.charge(bytes.saturating_mul(TABLE_IN_MEMORY)));
            let _read = charge.transpose().map_err(|_| NotWritten::Memory)?;
            let table = self.table(&slot);
            // Of one that is damaged nothing will be read.
            blocks.use_slot(&slot, table.as_ref().ok());
        }
        self.note_used(&blocks);
        Ok((free, blocks))
    }
}

/// The blocks of a region that no slot has.
pub(super) struct Taken(Arc<Region>);

impl Taken {
    /// Takes them for one of [`free_blocks`]. `None`: somebody has them.
    pub(super) fn take(region: &Arc<Region>, by: u8) -> Option<Self> {
        let had = &region.has_free_blocks;
        let taken = had.compare_exchange(free_blocks::NOBODY, by, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Self(Arc::clone(region)))
    }

    /// They are had for something else from now on.
    pub(super) fn set(&self, by: u8) {
        self.0.has_free_blocks.store(by, Ordering::Release);
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.0
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.set(free_blocks::NOBODY);
        self.0.changed.wake_all();
    }
}

impl Filling {
    /// Has an object of these pages be written. Nobody writes to them from now on.
    async fn put_pages(&mut self, frames: Vec<Frame>, bytes: usize) -> Result<Extent, NotWritten> {
        let offset = self.place().ok_or(NotWritten::Full)?;
        let check = self.check_of(&frames, bytes);
        self.reap()?;
        if !self.region.device.has_engine() {
            self.region.copy(offset, &frames)?;
        } else if let Some(pending) = self.copy {
            let is_below = self.under_way.len() < pending.into();
            match if is_below { self.region.device.write(offset, frames) } else { Err(Full(frames)) } {
                Ok(ticket) => self.under_way.push_back(ticket),
                Err(Full(frames)) => self.region.copy(offset, &frames)?,
            }
        } else {
            let ticket = self.begin(offset, frames).await?;
            self.under_way.push_back(ticket);
        }
        Ok(Extent { offset, bytes: bytes as u64, check })
    }

    /// Has an object of whole pages that are not zeros be written. Nobody writes to them from now on.
    ///
    /// # Errors
    /// [`NotWritten::Full`]: it is to go elsewhere.
    pub(crate) async fn put(&mut self, frames: Vec<Frame>) -> Result<Extent, NotWritten> {
        let bytes = frames.len() * PAGE_BYTES;
        self.put_pages(frames, bytes).await
    }

    /// Has an object of these bytes be written.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub(crate) async fn put_bytes(&mut self, bytes: &[u8]) -> Result<Extent, NotWritten> {
        if !self.has_room() {
            return Err(NotWritten::Full);
        }
        let frames = self.region.frames_of(bytes)?;
        self.put_pages(frames, bytes.len()).await
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        let left = ((self.objects + 1) * BYTES_OF_OBJECT).div_ceil(BLOCK_BYTES) + BLOCKS_LEFT;
        self.blocks.free() as u64 > left
    }

    /// One more object is named in the table, which lies elsewhere, or here already.
    pub(crate) fn names_another(&mut self) {
        self.objects += 1;
    }

    /// Writes what there is of all parts, and last that there is it.
    ///
    /// # Errors
    /// [`NotWritten`].
    pub(crate) async fn commit(mut self, parts: Vec<TablePart>) -> Result<SlotKey, NotWritten> {
        while let Some(ticket) = self.under_way.pop_front() {
            self.region.done(ticket).await?;
        }
        let table = Table { job: self.job, key: self.key.key, parts };
        let bytes = table.bytes().map_err(|_| NotWritten::Memory)?;
        let room = table.index_bytes_max();
        let at = self.blocks.alloc_run(bytes.len() as u64).ok_or(NotWritten::Full)?;
        let index = Extent { offset: self.blocks.alloc_run(room).ok_or(NotWritten::Full)?, bytes: room, check: 0 };
        let at = Extent { offset: at, bytes: bytes.len() as u64, check: check(&bytes) };
        self.region.write_bytes(at.offset, &bytes).await?;
        self.region.flush().await?;
        let header = Slot { state: State::Local, job: self.job, key: self.key.key, table: at, index };
        self.region.write_bytes(header_offset(self.key.slot), &header.bytes()).await?;
        self.region.flush().await?;
        // It has its blocks itself now.
        self.region.note_used(&self.blocks);
        self.taken = None;
        Ok(self.key)
    }

    fn place(&mut self) -> Option<u64> {
        let place = if self.has_room() { self.blocks.alloc() } else { None };
        self.objects += u64::from(place.is_some());
        place
    }

    fn check_of(&mut self, frames: &[Frame], bytes: usize) -> u64 {
        self.buffer.resize(frames.len() * PAGE_BYTES, 0);
        let pages = self.buffer.chunks_mut(PAGE_BYTES);
        pages.zip(frames).for_each(|(page, frame)| frame.read(0, page));
        check(&self.buffer[..bytes.min(self.buffer.len())])
    }

    /// Forgets what was done well.
    fn reap(&mut self) -> Result<(), NotWritten> {
        while let Some(well) = self.under_way.front().and_then(|first| self.region.device.is_done(first)) {
            self.under_way.pop_front();
            if !well {
                return Err(NotWritten::Engine);
            }
        }
        Ok(())
    }

    /// Begins to write, when there is room: whatever is done meanwhile makes some.
    async fn begin(&mut self, offset: u64, frames: Vec<Frame>) -> Result<Ticket, NotWritten> {
        while !self.region.has_room() {
            let Some(first) = self.under_way.pop_front() else { break };
            self.region.done(first).await?;
        }
        self.region.begin(offset, frames).await
    }
}
