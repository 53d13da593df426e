//! Frames of page tables that nobody may use for anything else yet, because a core may still look into them
//! ([`crate::epochs`]). They wait in two batches: one gathers what comes, the other waits for its cores. The frames are
//! all zeros, as the tables were empty, and stay so: a processor that looks finds nothing, and writes nothing.

use super::info::FrameInfo;

/// End of a list.
const NONE: u32 = u32::MAX;

/// Frames that wait together.
#[derive(Clone, Copy)]
struct Batch {
    /// The first frame; the records link them.
    first: u32,
    /// Cores that may look into them, a bit each.
    cores: u64,
    /// When the last of them was retired.
    time: u64,
}

impl Batch {
    const EMPTY: Self = Self { first: NONE, cores: 0, time: 0 };
}

/// The frames that wait.
pub(super) struct Quarantine {
    gathering: Batch,
    waiting: Batch,
    count: u32,
}

impl Quarantine {
    /// None.
    pub(super) const fn new() -> Self {
        Self { gathering: Batch::EMPTY, waiting: Batch::EMPTY, count: 0 }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Lets a frame wait, whose record's word is free, until those cores do not know any more what was retired then.
    pub(super) fn put(&mut self, info: &[FrameInfo], index: u32, cores: u64, time: u64) {
        let Batch { first, cores: before, time: last } = self.gathering;
        info[index as usize].set_next(first);
        self.gathering = Batch { first: index, cores: before | cores, time: last.max(time) };
        self.count += 1;
    }

    /// Takes a frame out that has waited long enough, as `is_over(time, cores)` says.
    pub(super) fn take(&mut self, info: &[FrameInfo], is_over: impl Fn(u64, u64) -> bool) -> Option<u32> {
        if self.waiting.first == NONE {
            self.waiting = core::mem::replace(&mut self.gathering, Batch::EMPTY);
        }
        let Batch { first, cores, time } = self.waiting;
        if first == NONE || !is_over(time, cores) {
            return None;
        }
        self.waiting.first = info[first as usize].next();
        self.count -= 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::iter;
    use std::vec::Vec;

    use super::Quarantine;
    use crate::frames::info::FrameInfo;

    #[test]
    fn frames_come_out_when_all_their_cores_have_forgotten_them() {
        let info: Vec<FrameInfo> = iter::repeat_with(FrameInfo::default).take(8).collect();
        let mut quarantine = Quarantine::new();
        quarantine.put(&info, 3, 0b01, 5);
        quarantine.put(&info, 4, 0b10, 6);
        let never = |_, _| false;
        assert_eq!(quarantine.take(&info, never), None);
        // What comes later does not keep those that wait.
        quarantine.put(&info, 5, 0b100, 9);
        let asked = core::cell::Cell::new((0, 0));
        let over = |time, cores| {
            asked.set((time, cores));
            time < 9
        };
        let mut out = [quarantine.take(&info, over), quarantine.take(&info, over)];
        out.sort_unstable();
        assert_eq!(out, [Some(3), Some(4)]);
        assert_eq!((quarantine.take(&info, over), asked.get(), quarantine.count()), (None, (9, 0b100), 1));
        assert_eq!(quarantine.take(&info, |_, _| true), Some(5));
        assert_eq!((quarantine.take(&info, |_, _| true), quarantine.count()), (None, 0));
    }
}
