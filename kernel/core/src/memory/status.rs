//! How much memory a node has, and what it is used for.

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_protocol::control::MemoryStatus;

use super::Retention;

/// Of a machine that has `total` bytes: what the pool never had is the kernel's, too.
#[must_use]
pub fn status(total: u64, frames: &FramePool, retention: &Retention) -> MemoryStatus {
    let usage = frames.usage();
    let bytes = |frames: u32| u64::from(frames) * PAGE_BYTES as u64;
    let outside = total.saturating_sub(bytes(usage.total));
    MemoryStatus { total, kernel: outside + bytes(usage.kernel), free: bytes(usage.free), retained: retention.bytes() }
}
