//! Files that change while they are mapped: what this node's programs do to a file is seen in its mappings as soon as
//! the call that does it returns, as on Linux. (What others do, on other nodes or on the host, is seen in pages that
//! are read later.)
//!
//! A page that was read from a file and not written since is mapped copy-on-write and marked so; when the file changes
//! it is dropped, and read again at the next touch. What lies behind the end of a file that became shorter is dropped
//! in any case, the program's own copies too: the next touch is `SIGBUS`. A page that was asked for before a change and
//! comes after it is not taken in ([`AddressSpace::is_stale`]).

use core::ops::Range;

use coppice_hal::addr::PageRange;
use coppice_hal::paging::{Marks, Verdict};

use super::area::Content;
use super::fetch::{Fetch, Source};
use super::limits::PAGE;
use super::space::AddressSpace;

/// Which file, at the I/O node, whatever it was opened as: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIdentity {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

/// What was done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// These bytes may be others now; if it ended before them, it does so behind them.
    Written(Range<u64>),
    /// These bytes may be others now; its length is not.
    Inside(Range<u64>),
    /// It was cut, or grew, to so many bytes.
    Cut(u64),
}

impl FileChange {
    /// The bytes that a mapping may show otherwise now.
    fn range(&self) -> Range<u64> {
        match self {
            Self::Written(range) | Self::Inside(range) => range.clone(),
            Self::Cut(length) => *length..u64::MAX,
        }
    }
}

/// Changes that are remembered for those who read meanwhile. An older one is taken to concern everybody.
const REMEMBERED: usize = 8;

/// The last changes to files that the space has mapped.
#[derive(Default)]
pub(super) struct Changes {
    /// How many there were.
    count: u64,
    last: [Option<(FileIdentity, Range<u64>)>; REMEMBERED],
}

impl Changes {
    fn note(&mut self, file: FileIdentity, range: Range<u64>) {
        self.last[(self.count % REMEMBERED as u64) as usize] = Some((file, range));
        self.count += 1;
    }

    /// Whether one behind the first `seen` changed these bytes.
    fn concern(&self, seen: u64, file: FileIdentity, bytes: &Range<u64>) -> bool {
        let missed = self.count.saturating_sub(seen);
        let concerns = |index: u64| {
            let change = self.last[(index % REMEMBERED as u64) as usize].as_ref();
            change.is_none_or(|(of, range)| *of == file && range.start < bytes.end && bytes.start < range.end)
        };
        missed > REMEMBERED as u64 || (self.count - missed..self.count).any(concerns)
    }
}

impl AddressSpace {
    /// Has mappings show what became of a file.
    pub fn file_changed(&mut self, file: FileIdentity, change: &FileChange) {
        // Pages that are on their way to another place are looked at there.
        while !self.step() {}
        let range = change.range();
        let mut is_mapped = false;
        let mut dropped = 0;
        for (start, area) in self.areas.overlapping(0, u64::MAX) {
            let (Content::File { file: shown, offset } | Content::Mapped { file: shown, offset, .. }) = &area.content
            else {
                continue;
            };
            if shown.identity() != file {
                continue;
            }
            is_mapped = true;
            // Where the area shows a byte of the file, whether or not it is inside the area.
            let place = |byte: u64| start.saturating_add(byte.saturating_sub(*offset)).min(area.end);
            let whole = match change {
                FileChange::Cut(length) => place(length.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)),
                FileChange::Written(_) | FileChange::Inside(_) => area.end,
            };
            let first = place(range.start) / PAGE * PAGE;
            let end = place(range.end).checked_next_multiple_of(PAGE).unwrap_or(area.end);
            let Some(pages) = PageRange::covering(first, end) else { continue };
            let walked = self.table.walk(pages, |page, entry| {
                let is_as_in_file = entry.get().marks == FILE_PAGE;
                if is_as_in_file || page.address() >= whole { Verdict::Drop } else { Verdict::Keep }
            });
            dropped += walked.dropped;
        }
        self.stats.pages -= dropped;
        if is_mapped {
            self.file_changes.note(file, range);
        }
    }

    /// How many changes it was told of: to be asked for before bytes of a file are read.
    #[must_use]
    pub fn file_changes(&self) -> u64 {
        self.file_changes.count
    }

    /// Whether what was read for `fetch` after the first `seen` changes may be what the file said before a later one.
    #[must_use]
    pub fn is_stale(&self, fetch: &Fetch, seen: u64) -> bool {
        let Source::File(file) = &fetch.source else { return false };
        let bytes = fetch.offset()..fetch.offset().saturating_add(fetch.length() as u64);
        self.file_changes.concern(seen, file.identity(), &bytes)
    }
}

/// Marks of a page as a mapped file has it. It is never writable, whatever its area allows.
pub(super) const FILE_PAGE: Marks = Marks::FILE.union(Marks::COPY_ON_WRITE);

#[cfg(test)]
mod tests {
    use super::{Changes, FileIdentity, REMEMBERED};

    #[test]
    fn a_change_concerns_who_read_the_same_bytes_before_it() {
        let (one, other) = (FileIdentity { device: 1, inode: 1 }, FileIdentity { device: 1, inode: 2 });
        let mut changes = Changes::default();
        changes.note(one, 100..200);
        assert!(changes.concern(0, one, &(150..160)) && changes.concern(0, one, &(0..101)));
        assert!(!changes.concern(0, one, &(200..300)) && !changes.concern(0, one, &(0..100)));
        assert!(!changes.concern(0, other, &(150..160)) && !changes.concern(1, one, &(150..160)));
        for _ in 0..REMEMBERED {
            changes.note(other, 0..1);
        }
        assert!(changes.concern(0, one, &(900..901)), "too many to know");
        assert!(!changes.concern(1, one, &(150..160)));
    }
}
