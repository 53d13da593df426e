//! How much a program may have mapped (`RLIMIT_AS`) and of that, private and writable (`RLIMIT_DATA`). Counted when
//! something is mapped, as on Linux; what is there when a limit is lowered stays.

use coppice_hal::paging::Access;
use serde::{Deserialize, Serialize};

use super::area::{Area, Content};
use super::limits::STACK_TOP;
use super::space::AddressSpace;

/// The limits, bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct MemoryLimits {
    all: u64,
    data: u64,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { all: u64::MAX, data: u64::MAX }
    }
}

/// Whether `RLIMIT_DATA` counts what is mapped like that.
pub(super) fn is_data(access: Access, content: &Content) -> bool {
    let is_private = !matches!(content, Content::Shared { private: false, .. } | Content::Mapped { .. });
    access.contains(Access::WRITE) && is_private
}

impl AddressSpace {
    /// From now on no more than so many bytes are mapped in all, and private and writable.
    pub fn limit(&mut self, all: u64, data: u64) {
        self.limits = MemoryLimits { all, data };
    }

    /// Whether `bytes` more can be mapped, `is_data` or not, when what lies in `start..end` goes.
    pub(super) fn may_expand(&self, bytes: u64, is_data: bool, (start, end): (u64, u64)) -> bool {
        let limits = self.limits;
        if limits.all == u64::MAX && limits.data == u64::MAX {
            return true;
        }
        let (mut all, mut data) = (bytes, if is_data { bytes } else { 0 });
        for (at, area) in self.areas.overlapping(0, u64::MAX) {
            let overlap = area.end.min(end).saturating_sub(at.max(start));
            let stays = area.end - at - overlap;
            all = all.saturating_add(stays);
            if counts(area) {
                data = data.saturating_add(stays);
            }
        }
        all <= limits.all && (!is_data || data <= limits.data)
    }

    /// Whether `bytes` that are mapped can become private and writable.
    pub(super) fn may_become_data(&self, bytes: u64) -> bool {
        let data = self.areas.overlapping(0, u64::MAX).filter(|(_, area)| counts(area));
        let there: u64 = if self.limits.data == u64::MAX { 0 } else { data.map(|(at, area)| area.end - at).sum() };
        there.saturating_add(bytes) <= self.limits.data
    }
}

/// Whether `RLIMIT_DATA` counts an area: not the stack.
fn counts(area: &Area) -> bool {
    area.end != STACK_TOP && is_data(area.access, &area.content)
}
