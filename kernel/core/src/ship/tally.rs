//! What a rank's calls on files came to: counted where the calls are made, told in the rank's report.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use coppice_protocol::ship::Call;

/// See this module. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Counts>);

#[derive(Default)]
struct Counts {
    lookups: AtomicU64,
    opened: AtomicU64,
    fetched: AtomicU64,
    found: AtomicU64,
}

/// What was counted so far, as in [`coppice_protocol::control::RankCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) lookups: u64,
    pub(crate) files_opened: u64,
    pub(crate) file_pages_fetched: u64,
    pub(crate) file_pages_found: u64,
}

impl Tally {
    /// A call is made at the I/O node.
    pub(super) fn calls(&self, call: &Call) {
        if call.looks_at_names() {
            self.0.lookups.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A file was opened, of which so many pages were here.
    pub(crate) fn opened(&self, found: u64) {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        self.0.found.fetch_add(found, Ordering::Relaxed);
    }

    /// Pages of a file came.
    pub(crate) fn fetched(&self, pages: u64) {
        self.0.fetched.fetch_add(pages, Ordering::Relaxed);
    }

    /// All of it.
    pub(crate) fn counted(&self) -> Counted {
        let [lookups, files_opened, file_pages_fetched, file_pages_found] =
            [&self.0.lookups, &self.0.opened, &self.0.fetched, &self.0.found]
                .map(|count| count.load(Ordering::Relaxed));
        Counted { lookups, files_opened, file_pages_fetched, file_pages_found }
    }
}
