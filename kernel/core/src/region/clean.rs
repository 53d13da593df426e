//! Blocks that no slot has become zeros: what was written there for a checkpoint that was given up is nobody's. Then
//! the slot is empty that was filled for it.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_protocol::region::{Blocks, Extent, SLOTS, State, header_offset};

use super::filling::Taken;
use super::{NotWritten, Region, SAID_BYTES, Said, free_blocks};
use crate::executor;
use crate::quota::Quota;

impl Region {
    /// Has it done for what was being written when the node went. The region may be used from now on.
    pub(super) async fn clean_at_boot(self: &Arc<Self>) {
        // Nobody else is here yet: neither to have them, nor to be charged.
        let taken = Taken::take(self, free_blocks::CLEANING);
        self.is_ready.store(true, Ordering::Release);
        if let Some(taken) = taken {
            clean(taken, None).await;
        }
    }
}

/// Has it done for what was written by whoever had the free blocks, and had given them up.
pub(super) fn begin(taken: Taken, quota: Arc<Quota>) {
    taken.set(free_blocks::CLEANING);
    let cleaning = executor::spawn(async move { clean(taken, Some(&quota)).await });
    if cleaning.is_err() {
        log::error!("the region keeps what was given up until the node boots: there are too many tasks");
    }
}

/// Whoever wants to fill a slot meanwhile waits for it, but not for long.
async fn clean(taken: Taken, quota: Option<&Arc<Quota>>) {
    let region = taken.region();
    let cleaned = loop {
        // The engine does not keep the order: what it still writes there comes first, whenever that is.
        region.changed.wait_until(|| region.device.is_idle().then_some(())).await;
        let cleaned = region.clean(quota).await;
        if cleaned != Err(NotWritten::Silent) {
            break cleaned;
        }
    };
    if let Err(error) = cleaned {
        log::error!("the region keeps what was given up until the node boots: {error}");
    }
}

impl Region {
    async fn clean(&self, quota: Option<&Arc<Quota>>) -> Result<(), NotWritten> {
        let (_, blocks) = self.free(quota).await?;
        self.zero_all(&blocks).await?;
        self.empty_filled().await
    }

    /// Empties slots that were being filled.
    async fn empty_filled(&self) -> Result<(), NotWritten> {
        for slot in 0..SLOTS {
            let was_filled = match self.said(slot).await {
                Said::Nothing => false,
                Said::Noise => true,
                Said::Slot(slot) => slot.state == State::Filling,
            };
            if was_filled {
                self.write_bytes(header_offset(slot), &[0; SAID_BYTES]).await?;
            }
        }
        self.flush().await
    }

    async fn zero_all(&self, blocks: &Blocks) -> Result<(), NotWritten> {
        if !self.device.has_engine() {
            // The processor would fill the whole of it.
            return Ok(());
        }
        for Extent { mut offset, bytes, .. } in blocks.free_runs() {
            let end = offset + bytes;
            while offset < end {
                let (ticket, zeroed) = self.answered(|| self.device.zero(offset, end - offset)).await?;
                self.done(ticket).await?;
                offset += zeroed;
            }
        }
        self.flush().await
    }

    /// Whether the engine may be given something: not before it has done all it was given, if it once did not answer.
    pub(super) fn is_answering(&self) -> bool {
        if self.is_silent.load(Ordering::Relaxed) && self.device.is_idle() {
            self.is_silent.store(false, Ordering::Relaxed);
        }
        !self.is_silent.load(Ordering::Relaxed)
    }
}
