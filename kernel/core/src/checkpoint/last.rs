//! What a node kept of a job last: of that, the next checkpoint of the job need keep again only what was written since.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::Rank;
use coppice_protocol::region::{Section, SlotKey};

use crate::errno::Errno;
use crate::memory::{Snapshot, Window};
use crate::quota::{Charge, Quota};
use crate::region::{Names, Region};

/// What was kept of a job.
pub(super) struct Last {
    /// Whose checkpoint it was.
    pub(super) by: u64,
    /// Where it went, if it went to the region.
    pub(super) slot: Option<SlotKey>,
    pub(super) pages: Vec<LastPages>,
}

/// Whose pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PagesOf {
    Rank(Rank),
    /// Memory that ranks share, by its number.
    Memory(u64),
}

/// What was kept of pages.
pub(super) struct LastPages {
    of: PagesOf,
    /// The number of the snapshot.
    number: u64,
    /// Windows in order, with the object of each that has bytes.
    windows: Vec<(Window, Option<Section>)>,
    _charge: Option<Charge>,
}

impl LastPages {
    /// What a snapshot of them had: windows, and the objects of those that have bytes, in the same order. What they
    /// take is charged already, together with others if there is no charge.
    pub(super) fn new(
        of: PagesOf,
        snapshot: &Snapshot,
        windows: Vec<Window>,
        sections: &mut impl Iterator<Item = Section>,
        charge: Option<Charge>,
    ) -> Self {
        let number = snapshot.number();
        let with_object = |window: Window| (window, if window.filled == 0 { None } else { sections.next() });
        Self { of, number, windows: windows.into_iter().map(with_object).collect(), _charge: charge }
    }
}

/// What was kept, with the names that its objects have got since.
pub(super) struct Known {
    last: Last,
    names: Option<Names>,
}

impl Known {
    /// What their objects are called, charged to `quota`.
    ///
    /// # Errors
    /// There is no memory for that.
    pub(super) fn new(last: Last, region: Option<&Region>, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let names = match (region, last.slot) {
            (Some(region), Some(slot)) => region.names(slot, quota)?,
            _ => None,
        };
        Ok(Self { last, names })
    }

    /// What is known of pages for their next snapshot.
    pub(super) fn of<'a>(&'a self, of: PagesOf, snapshot: &Snapshot) -> Option<KnownPages<'a>> {
        let pages = self.last.pages.iter().find(|pages| pages.of == of)?;
        snapshot.follows(pages.number).then_some(KnownPages { pages, names: self.names.as_ref() })
    }
}

/// See [`Known::of`].
#[derive(Clone, Copy)]
pub(super) struct KnownPages<'a> {
    pages: &'a LastPages,
    /// None: the region does not have them any more.
    names: Option<&'a Names>,
}

impl KnownPages<'_> {
    /// What a window was, if its object has a name.
    pub(super) fn window(self, number: u64) -> Option<Window> {
        let (window, section) = self.find(number)?;
        (section.is_none() || self.section(number).is_some()).then_some(window)
    }

    /// Its object.
    pub(super) fn section(self, number: u64) -> Option<Section> {
        match self.find(number)?.1? {
            Section::New(extent) => Some(Section::Known(self.names?.at(extent.offset)?, Some(extent))),
            Section::Known(name, extent) => Some(Section::Known(name, extent.filter(|_| self.names.is_some()))),
        }
    }

    fn find(self, number: u64) -> Option<(Window, Option<Section>)> {
        let windows = &self.pages.windows;
        let found = windows.binary_search_by_key(&number, |(window, _)| window.number).ok()?;
        Some(windows[found])
    }
}
