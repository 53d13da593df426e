//! The areas of an address space in order: finding, splitting, merging, and looking for room. They never overlap, and
//! neighbours that could be one are one.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::area::Area;
use super::limits::AREAS_MAX;
use crate::errno::Errno;
use crate::limits::{AREA_BYTES, AREAS_FREE};
use crate::quota::{Counted, Kind, Quota};

/// The areas by start address.
pub(super) struct Areas {
    /// Start → area.
    map: BTreeMap<u64, Area>,
    /// How many there may be.
    max: usize,
    /// What they are charged with.
    charged: Counted,
}

impl Default for Areas {
    fn default() -> Self {
        Self { map: BTreeMap::new(), max: AREAS_MAX, charged: Counted::new(AREA_BYTES, AREAS_FREE) }
    }
}

impl Areas {
    /// There may be no more than this from now on, and they are charged to `quota`.
    pub(super) fn limit(&mut self, max: usize, quota: &Arc<Quota>) {
        self.max = max;
        self.charged.charge_to(quota, Kind::Area);
    }

    /// The area an address lies in, with its start.
    pub(super) fn find(&self, address: u64) -> Option<(u64, &Area)> {
        let (start, area) = self.map.range(..=address).next_back()?;
        (address < area.end).then_some((*start, area))
    }

    /// All areas that touch `start..end`, in order.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Area)> {
        let first = self.find(start).map_or(start, |(first, _)| first);
        self.map.range(first..end.max(first)).map(|(start, area)| (*start, area))
    }

    /// Whether nothing is mapped in `start..end`.
    pub(super) fn is_free(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_none()
    }

    /// Whether every byte of `start..end` is mapped.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        self.covered_up_to(start, end) >= end
    }

    /// First address from `start` on that is not mapped, `end` at most.
    pub(super) fn covered_up_to(&self, start: u64, end: u64) -> u64 {
        let mut reached = start;
        for (start, area) in self.overlapping(start, end) {
            if start > reached {
                break;
            }
            reached = area.end;
        }
        reached.min(end)
    }

    /// The highest free run of `length` bytes inside `bottom..top`.
    pub(super) fn gap(&self, length: u64, bottom: u64, top: u64) -> Option<u64> {
        let mut top = top;
        for (start, area) in self.map.range(..top).rev() {
            if area.end < top && top - area.end >= length {
                break;
            }
            top = top.min(*start);
        }
        let place = top.checked_sub(length)?;
        (place >= bottom && self.is_free(place, top)).then_some(place)
    }

    /// Makes sure that `start..end` can be cut out and `more` areas added after.
    ///
    /// # Errors
    /// `ENOMEM` if that would be more areas than a process may have, or there is no memory for them.
    pub(super) fn check_room(&mut self, start: u64, end: u64, more: usize) -> Result<(), Errno> {
        let cuts = [start, end].into_iter().filter(|at| self.is_inside(*at)).count();
        let wanted = self.map.len() + cuts + more;
        if wanted > self.max {
            return Err(Errno::ENOMEM);
        }
        self.charged.cover(wanted)
    }

    /// Removes whatever is in `start..end`, cutting areas at its ends. Call [`Areas::check_room`] first.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        while let Some((first, _)) = self.map.range(start..end).next() {
            let first = *first;
            self.map.remove(&first);
        }
        self.settle();
    }

    /// Adds an area where nothing is, and merges it with its neighbours. Call [`Areas::check_room`] first.
    pub(super) fn insert(&mut self, start: u64, area: Area) {
        let end = area.end;
        self.map.insert(start, area);
        self.merge(end);
        self.merge(start);
    }

    /// Changes every area in `start..end`, cutting areas at its ends. Call [`Areas::check_room`] first.
    pub(super) fn change(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut Area)) {
        self.split(start);
        self.split(end);
        self.map.range_mut(start..end).for_each(|(_, area)| change(area));
        let mut at = start;
        while at <= end
            && let Some((next, area)) = self.map.range(at..=end).next()
        {
            let (next, after) = (*next, area.end);
            self.merge(next);
            at = after;
        }
        self.settle();
    }

    /// Gives back what there is no need for. What [`Self::check_room`] saw to is not done yet, perhaps.
    fn settle(&mut self) {
        const PENDING: usize = 3;
        self.charged.settle(self.map.len() + PENDING);
    }

    /// How many there may be.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// The first one, with its start.
    pub(super) fn first(&self) -> Option<(u64, &Area)> {
        self.map.first_key_value().map(|(start, area)| (*start, area))
    }

    /// Takes the first one out.
    pub(super) fn pop_first(&mut self) -> Option<(u64, Area)> {
        self.map.pop_first()
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether an address lies in an area but is not its start.
    fn is_inside(&self, at: u64) -> bool {
        self.find(at).is_some_and(|(start, _)| start < at)
    }

    /// Cuts the area that has `at` inside in two there.
    fn split(&mut self, at: u64) {
        let Some((start, area)) = self.find(at) else { return };
        if start == at {
            return;
        }
        let tail = Area { content: area.content.advanced(at - start), ..area.clone() };
        if let Some(head) = self.map.get_mut(&start) {
            head.end = at;
        }
        self.map.insert(at, tail);
    }

    /// Makes the area that starts at `at` and the one that ends there one, if they can be.
    fn merge(&mut self, at: u64) {
        let Some((&start, before)) = self.map.range(..at).next_back() else {
            return;
        };
        let Some(area) = self.map.get(&at) else { return };
        if before.end != at || !before.merges_with(start, area) {
            return;
        }
        let end = area.end;
        self.map.remove(&at);
        if let Some(before) = self.map.get_mut(&start) {
            before.end = end;
        }
    }
}
