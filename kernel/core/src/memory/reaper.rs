//! Page tables that nobody needs any more are taken apart in steps: what they hold has to be zeroed, and there may be
//! gigabytes of it.
//!
//! A table that is handed over here is out of everybody's reach at once. A task of the node's ([`Reaper::run`]) takes
//! it apart, in turns with the programs; whoever finds no free frame helps ([`Reaper::step`]), so nobody ever lacks
//! memory that is only waiting to be zeroed. Before the end of a job is reported, what it left is gone
//! ([`Reaper::rest`]).

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::PageRange;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::{Effort, PageTable, Verdict};

use super::limits::STEP_PAGES;
use super::shared::PageCount;
use crate::executor::{self, Notify};
use crate::sync::{LockLevel, Mutex};

/// Takes tables apart.
pub struct Reaper {
    tables: Mutex<Vec<Gone>>,
    came: Notify,
}

/// A table that nobody needs any more, as far as it is still there.
struct Gone {
    table: PageTable,
    /// Where its pages are that are left.
    rest: PageRange,
    /// Where they are counted.
    counted: Option<Arc<PageCount>>,
}

impl Default for Reaper {
    fn default() -> Self {
        Self { tables: Mutex::new(LockLevel::Reaper, Vec::new()), came: Notify::new() }
    }
}

impl Reaper {
    /// Takes a table apart that no core uses, sooner or later. Its pages are counted there until they are gone.
    pub(super) fn take_apart(&self, table: PageTable, counted: Option<Arc<PageCount>>) {
        let mut gone = Gone { table, rest: PageRange::ALL, counted };
        let refused = {
            let mut tables = self.tables.lock();
            match tables.try_reserve(1) {
                Ok(()) => {
                    tables.push(gone);
                    None
                }
                Err(_) => Some(gone),
            }
        };
        match refused {
            None => self.came.notify(),
            // Without memory to remember it, it goes at once.
            Some(refused) => {
                gone = refused;
                gone.step(&mut { Effort::WHOLE });
            }
        }
    }

    /// Takes a part of what there is apart, but not for long. Returns whether there was anything.
    pub fn step(&self) -> bool {
        let mut effort = Effort::of(STEP_PAGES);
        // Under the lock: who finds nothing here is to know that nothing is left.
        let mut tables = self.tables.lock();
        let Some(gone) = tables.last_mut() else { return false };
        if gone.step(&mut effort) {
            tables.pop();
        }
        true
    }

    /// Waits until nothing is left, and takes part in the work.
    pub async fn rest(&self) {
        while self.step() {
            executor::yield_now().await;
        }
    }

    /// As [`Self::rest`]; then the frames of tables are free, too, into which no core looks any more.
    pub async fn free(&self, frames: &'static FramePool) {
        self.rest().await;
        while frames.release_quarantined(STEP_PAGES) > 0 {
            executor::yield_now().await;
        }
    }

    /// Takes apart whatever comes, for ever.
    pub async fn run(&self, frames: &'static FramePool) {
        loop {
            self.free(frames).await;
            self.came.notified().await;
        }
    }
}

impl Gone {
    /// Takes a part of it apart. Returns whether that was the last.
    fn step(&mut self, effort: &mut Effort) -> bool {
        let (walked, rest) = self.table.walk_part(self.rest, effort, |_, _| Verdict::Drop);
        self.rest = rest;
        if let Some(counted) = &self.counted {
            counted.give(walked.dropped);
        }
        rest.is_empty()
    }
}
