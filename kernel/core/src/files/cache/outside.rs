//! Calls on a file that are made at the I/O node, though its node may have a lease or get one meanwhile.
//!
//! While there are any, nothing is written later. What a call has written there is not in what is known of the file
//! before it has come back: a lease may come first, with a length that is older. And what a call reads there is what
//! the disk makes of pieces that are written side by side: it would find a later one without an earlier.

use alloc::sync::Arc;

use super::file::CachedFile;

/// Such a call, until this is dropped.
pub(crate) struct Outside(Arc<CachedFile>);

impl CachedFile {
    /// A call is about to be made at the I/O node.
    #[must_use]
    pub(crate) fn outside(self: &Arc<Self>) -> Outside {
        self.state.lock().outside += 1;
        Outside(Arc::clone(self))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.0.state.lock().outside -= 1;
    }
}
