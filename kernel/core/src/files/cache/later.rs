//! Which files have bytes that wait to be written, and one task for all of them that has these written in a while.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use coppice_protocol::limits::BULK_BYTES_MAX;

use super::FileCache;
use super::file::CachedFile;
use crate::executor;
use crate::limits::WRITE_BACK_NS;

impl FileCache {
    /// Something of a file is to be written later: begins to write whole pieces back, and has the rest written in a
    /// while.
    pub(crate) fn wrote(self: &Arc<Self>, file: &Arc<CachedFile>) {
        let (is_new, is_long) = file.is_written_on();
        if is_long {
            file.write_back(false);
        }
        if !is_new {
            return;
        }
        let begins = {
            let mut files = self.files.lock();
            files.written.insert(file.identity);
            !mem::replace(&mut files.is_writing_back, true)
        };
        if begins && !self.writes_back_soon() {
            // At once, and the next write to any of them tries again.
            self.not_timed().iter().for_each(|file| file.write_back(true));
        }
    }

    /// There is no task for what waits to be written. Gives the files.
    fn not_timed(&self) -> Vec<Arc<CachedFile>> {
        let mut guard = self.files.lock();
        let files = &mut *guard;
        files.is_writing_back = false;
        let written = files.written.iter().filter_map(|identity| Some(&files.known.get(identity)?.file));
        written.inspect(|file| file.is_not_timed()).map(Arc::clone).collect()
    }

    /// Has what waits to be written written in a while, and then what came to wait meanwhile. False: there is no task
    /// for it.
    fn writes_back_soon(self: &Arc<Self>) -> bool {
        let cache = Arc::downgrade(self);
        let spawned = executor::spawn_on(0, async move {
            loop {
                executor::sleep(WRITE_BACK_NS).await;
                // Once the job is over, nobody else holds it.
                let Some(cache) = cache.upgrade() else { return };
                let files = cache.still_written();
                if files.is_empty() {
                    return;
                }
                files.iter().for_each(|file| file.write_back(true));
            }
        });
        spawned.is_ok()
    }

    /// Those of which bytes wait to be written still. If there are none, the task is over.
    fn still_written(&self) -> Vec<Arc<CachedFile>> {
        let mut guard = self.files.lock();
        let files = &mut *guard;
        let mut still = Vec::new();
        files.written.retain(|identity| {
            let file = files.known.get(identity).map(|known| &known.file).filter(|file| file.is_timed_still());
            still.extend(file.map(Arc::clone));
            file.is_some()
        });
        files.is_writing_back = !still.is_empty();
        still
    }

    /// Those with bytes that are not written yet, and that calls on other files wait for.
    pub(super) fn unwritten(&self) -> Vec<Arc<CachedFile>> {
        let files = self.files.lock();
        let is_waited_for = |file: &&Arc<CachedFile>| file.is_waited_for();
        if self.mapped.count() > 0 {
            // Whoever writes to mappings says nothing.
            return files.known.values().map(|known| &known.file).filter(is_waited_for).map(Arc::clone).collect();
        }
        let written = files.written.iter().filter_map(|identity| Some(&files.known.get(identity)?.file));
        written.filter(is_waited_for).map(Arc::clone).collect()
    }
}

impl CachedFile {
    /// Something of it is to be written later. Whether that is not known of it yet, and whether it is a whole piece.
    fn is_written_on(&self) -> (bool, bool) {
        let mut state = self.state.lock();
        (!mem::replace(&mut state.is_timed, true), state.unwritten.bytes() >= BULK_BYTES_MAX as u64)
    }

    /// Whether something of it is to be written still, and is in a while.
    fn is_timed_still(&self) -> bool {
        let mut state = self.state.lock();
        state.is_timed = !state.is_written();
        state.is_timed
    }

    fn is_not_timed(&self) {
        self.state.lock().is_timed = false;
    }
}
