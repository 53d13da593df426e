//! Pages of a file that come without being asked for: it is [broadcast](coppice_protocol::broadcast). They are copied
//! to where the file's pages are when they are wanted. As long as more come, nobody asks the I/O node for those that
//! are about to; who has waited in vain for some time does.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::Ordering;

use coppice_hal::addr::PAGE_BYTES;

use super::FileCache;
use super::file::{CachedFile, PAGE};
use crate::executor::{self, WaitQueue};
use crate::files::buffer;
use crate::memory::FileIdentity;

/// What comes of a file. Pages are counted from its start.
pub(crate) trait Incoming: Send + Sync {
    /// Whether a page has come, and is right.
    fn has(&self, page: u64) -> bool;

    /// Reads one that has, as much as the file has of it, if its memory was not given back.
    fn read(&self, page: u64, into: &mut [u8]) -> bool;

    /// Whether there is more to come.
    fn is_coming(&self) -> bool;

    /// Whether a page is likely to be among the next that come.
    fn is_next(&self, page: u64) -> bool;

    /// How many pieces have come.
    fn count(&self) -> u32;

    /// It was waited for in vain when that many had come: until there are more, none is likely to come.
    fn is_late(&self, count: u32);

    /// How long it is waited for the next piece, ns.
    fn patience_ns(&self) -> u64;

    /// Pages that it takes.
    fn pages(&self) -> u64;

    /// Told when something came, or nothing will any more.
    fn changed(&self) -> &WaitQueue;
}

/// What is known of whether pages of a file come by themselves: nothing, that they do, what that is.
const NO_WORD: u8 = 0;
const AWAITED: u8 = 1;
const CLEAR: u8 = 2;

/// How long who was told that pages come by themselves waits for more word of that, ns.
const TOLD_NS_MAX: u64 = 500_000_000;

/// Of which version of the file it is, and what comes.
pub(super) type Coming = (u64, Arc<dyn Incoming>);

impl FileCache {
    /// A file is broadcast, as it is in that version. What comes goes with what is known of the file.
    pub(crate) fn comes(&self, identity: FileIdentity, version: u64, incoming: Arc<dyn Incoming>) {
        let (file, before) = {
            let mut files = self.files.lock();
            match files.known.get(&identity).map(|known| Arc::clone(&known.file)) {
                Some(file) => {
                    let before = file.comes((version, incoming));
                    (Some(file), before)
                }
                // It is opened later, if at all.
                None => (None, files.early.insert(identity, (version, incoming))),
            }
        };
        drop(before);
        if let Some(file) = file {
            file.is_told(false);
        }
    }

    /// A file is broadcast, and nothing of that comes here.
    pub(crate) fn comes_not(&self, identity: FileIdentity) {
        let known = self.files.lock().known.get(&identity).map(|known| Arc::clone(&known.file));
        if let Some(file) = known {
            file.is_told(false);
        }
    }
}

impl CachedFile {
    /// This comes from now on. Gives what did before.
    pub(super) fn comes(&self, coming: Coming) -> Option<Coming> {
        self.word.store(CLEAR, Ordering::Release);
        self.incoming.lock().replace(coming)
    }

    /// Nothing comes any more, for want of memory. Gives what did.
    pub(super) fn comes_no_more(&self) -> Option<Coming> {
        self.incoming.lock().take()
    }

    /// The lease is given back, and what comes is worth nothing. Gives it.
    pub(super) fn came_in_vain(&self) -> Option<Coming> {
        self.word.store(NO_WORD, Ordering::Release);
        self.comes_no_more()
    }

    /// What comes, if it is what the file's lease says of it.
    pub(super) fn incoming(&self) -> Option<Arc<dyn Incoming>> {
        let (version, incoming) = self.incoming.lock().as_ref().map(|(version, it)| (*version, Arc::clone(it)))?;
        let is_it = {
            let state = self.state.lock();
            state.is_leased() && state.is_of_version(version)
        };
        is_it.then_some(incoming)
    }

    /// The I/O node has said that pages come by themselves, or it is clear whether they do.
    pub(super) fn is_told(&self, that_they_come: bool) {
        if that_they_come {
            let _ = self.word.compare_exchange(NO_WORD, AWAITED, Ordering::AcqRel, Ordering::Acquire);
        } else {
            self.word.store(CLEAR, Ordering::Release);
        }
        self.changed.wake_all();
    }

    /// Whether pages are to be sent even if they come by themselves: what comes is known here, or nothing does.
    pub(super) fn asks_anyway(&self) -> bool {
        self.word.load(Ordering::Acquire) == CLEAR
    }

    /// If the I/O node has said that pages come by themselves, waits until it is clear whether they do: the word of
    /// that goes another way.
    pub(super) async fn learns_what_comes(&self) {
        let is_clear = || (self.word.load(Ordering::Acquire) != AWAITED).then_some(());
        if is_clear().is_none()
            && Box::pin(executor::timeout(TOLD_NS_MAX, self.changed.wait_until(is_clear))).await.is_err()
        {
            self.word.store(CLEAR, Ordering::Release);
        }
    }

    /// Pages that are kept of what came.
    pub(super) fn incoming_pages(&self) -> u64 {
        self.incoming.lock().as_ref().map_or(0, |(_, incoming)| incoming.pages())
    }

    /// Takes those of some pages that have come, from the first on without a gap.
    pub(super) fn take_incoming(&self, incoming: &dyn Incoming, pages: Range<u64>) {
        let Ok(mut bytes) = buffer(PAGE_BYTES) else { return };
        let first = pages.start;
        for page in pages {
            let wanted = {
                let state = self.state.lock();
                if state.pages.at(page * PAGE).is_some() {
                    continue;
                }
                state.size.saturating_sub(page * PAGE).min(PAGE) as usize
            };
            let bytes = &mut bytes[..wanted];
            if bytes.is_empty() || !incoming.has(page) || !incoming.read(page, bytes) {
                return;
            }
            // The first is waited for.
            if page > first && !self.has_spare_frames() {
                return;
            }
            let Some(frame) = self.frames_with(bytes).and_then(|mut frames| frames.pop()) else { return };
            let mut state = self.state.lock();
            if !state.is_leased() || state.pages.at(page * PAGE).is_some() {
                return;
            }
            if !state.pages.insert(self.frames, page * PAGE, frame) {
                return;
            }
        }
    }

    /// Waits for a page as long as it is likely to be among the next that come, and takes it with those behind it.
    /// Whether it is there.
    pub(super) async fn await_incoming(&self, pages: Range<u64>) -> bool {
        let first = pages.start;
        while let Some(incoming) = self.incoming() {
            self.take_incoming(&*incoming, pages.clone());
            if self.state.lock().run(first * PAGE, 1) > 0 {
                return true;
            }
            if incoming.has(first) || !incoming.is_next(first) {
                break;
            }
            let count = incoming.count();
            let is_over = || (incoming.has(first) || !incoming.is_next(first)).then_some(());
            let waited = executor::timeout(incoming.patience_ns(), incoming.changed().wait_until(is_over));
            if Box::pin(waited).await.is_err() && incoming.count() == count {
                incoming.is_late(count);
            }
        }
        false
    }
}

#[cfg(test)]
impl CachedFile {
    /// Waits for a page that may come by itself. Whether it is there.
    pub(crate) async fn awaits(&self, page: u64) -> bool {
        self.await_incoming(page..page + 1).await
    }
}
