//! Pages that go, and bytes that are not written after all.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use coppice_hal::addr::PAGE_BYTES;

use super::file::{PAGE, State};
use crate::errno::Errno;
use crate::memory::Retention;

impl State {
    /// Drops the pages that any byte of a range is in, but those with bytes that are to be written yet: who wrote these
    /// meanwhile did so last.
    pub(super) fn drop_written(&mut self, range: &Range<u64>) {
        if self.is_written() {
            self.pages.drop_range(range.start, range.end);
            return self.forget_partial(range);
        }
        let mut from = range.start / PAGE * PAGE;
        while let Some(page) = self.pages.next(from).filter(|page| *page < range.end) {
            from = page + PAGE;
            let bytes = page..from;
            if !self.unwritten.touch(&bytes) && !self.writing.touches(&bytes) {
                self.pages.drop_range(page, from);
                self.forget_partial(&bytes);
            }
        }
    }

    /// Drops what lies behind a length. Of the page that it is in stays what is to be written yet, with zeros behind.
    pub(super) fn cut_pages(&mut self, length: u64) {
        let page = length / PAGE * PAGE;
        let stays = self.unwritten.touch(&(page..page + PAGE));
        if stays && let Some(last) = self.pages.at(length) {
            let inside = (length % PAGE) as usize;
            last.write(inside, &[0; PAGE_BYTES][inside..]);
        }
        let from = if stays { page + PAGE } else { page };
        self.pages.drop_range(from, u64::MAX);
        self.forget_partial(&(from..u64::MAX));
    }

    /// Drops some pages that are at the I/O node, those first that lie first. Whether there were any.
    pub(super) fn drop_clean(&mut self, some: u64) -> bool {
        let (mut from, mut dropped) = (0, 0);
        while dropped < some
            && let Some(page) = self.pages.next(from)
        {
            from = page + PAGE;
            let bytes = page..from;
            if !self.unwritten.touch(&bytes) && !self.writing.touches(&bytes) {
                self.pages.drop_range(page, from);
                dropped += 1;
            }
        }
        dropped > 0
    }

    /// What was to be written is not, for this reason.
    pub(super) fn lose(&mut self, errno: Errno, retention: &Retention) {
        self.error.get_or_insert(errno);
        // What is in the file now, the I/O node knows.
        self.unwritten.clear();
        self.give_up(retention);
    }

    /// What is counted for the job of bytes that wait to be written.
    pub(super) fn count(&mut self, waiting: &AtomicU64) {
        let now = self.unwritten.bytes() + self.writing.bytes();
        waiting.fetch_add(now.wrapping_sub(core::mem::replace(&mut self.counted, now)), Ordering::Relaxed);
    }

    /// Of pages that any byte of a range is in it is not known that a part is.
    pub(super) fn forget_partial(&mut self, range: &Range<u64>) {
        for known in &mut self.partial {
            known.take_if(|known| {
                known.start / PAGE * PAGE < range.end && range.start < (known.start / PAGE + 1) * PAGE
            });
        }
    }
}
