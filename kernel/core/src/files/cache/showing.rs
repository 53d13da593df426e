//! Pages of a file that private mappings show: the very frames that are kept of it, so that a library is in a node's
//! memory once, however many ranks have it mapped. Who writes to one writes to a copy of its own; what calls write to
//! the file is taken out of mappings as it always is ([`crate::memory::FileChange`]).

use alloc::sync::Arc;
use core::ops::Range;

use coppice_hal::frames::Frame;
use coppice_protocol::ship::Handle;

use super::file::CachedFile;
use crate::ship::Client;

impl CachedFile {
    /// The page at an offset as it is, if all of it is known and nobody writes the file by mapping it.
    pub(crate) fn shown(&self, offset: u64) -> Option<Frame> {
        let state = self.state.lock();
        let is_known = state.is_leased() && !state.is_written_by_mappings() && state.run(offset, 1) > 0;
        // A page of which a part is known begins with none that is.
        state.pages.at(offset).filter(|_| is_known && offset < state.size).map(|page| page.frame())
    }

    /// Has the page at an offset come if it is not here, and those of a range around it as far as there is room.
    pub(crate) async fn fetch_to_show(self: &Arc<Self>, reader: (&Client, Handle), offset: u64, around: Range<u64>) {
        if self.shown(offset).is_some() {
            return;
        }
        let Some(size) = self.size().filter(|size| offset < *size) else { return };
        let end = around.end.min(size);
        if self.fetch(reader, &(offset..end)).await && around.start < offset {
            self.fetch(reader, &(around.start..offset)).await;
        }
    }
}
