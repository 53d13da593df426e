//! Pages that are on their way from the I/O node.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::Frame;
use coppice_hal::heap::block_bytes;
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::{Call, Handle, Reply};

use super::file::{CachedFile, PAGE, State};
use super::incoming::Incoming;
use super::pages;
use crate::limits::PART_CALL_BYTES;
use crate::quota::Charge;
use crate::ship::{Answer, Client, Taker, Tally};

/// Reads of a file that are on their way at a time: as many as what is read ahead, and some for who reads elsewhere.
const FILLS_MAX: usize = 12;

/// Pages in one.
const FILL_PAGES: u64 = BULK_BYTES_MAX as u64 / PAGE;

/// Those of one file.
#[derive(Default)]
pub(super) struct Fills {
    under_way: [Option<Fill>; FILLS_MAX],
    begun: u64,
}

/// One of them: some pages, counted from the file's start.
struct Fill {
    number: u64,
    pages: Range<u64>,
}

impl Fills {
    /// What comes is not wanted.
    pub(super) fn clear(&mut self) {
        self.under_way = Default::default();
    }

    /// The same of those with any byte of a range.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        for place in &mut self.under_way {
            place.take_if(|fill| fill.pages.start * PAGE < range.end && range.start < fill.pages.end * PAGE);
        }
    }

    /// Whether the page that an offset is in is on its way.
    pub(super) fn has(&self, offset: u64) -> bool {
        self.under_way.iter().flatten().any(|fill| fill.pages.contains(&(offset / PAGE)))
    }

    fn is_full(&self) -> bool {
        self.under_way.iter().all(Option::is_some)
    }

    fn take(&mut self, number: u64) -> Option<Fill> {
        let is_it = |fill: &mut Fill| fill.number == number;
        self.under_way.iter_mut().find_map(|place| place.take_if(is_it))
    }
}

impl State {
    /// The first of some pages that are neither here nor on their way, up to one that is, or a whole read's end.
    fn gap(&self, pages: Range<u64>) -> Option<Range<u64>> {
        let is_missing = |page: &u64| self.pages.at(page * PAGE).is_none() && !self.fills.has(page * PAGE);
        let first = pages.clone().find(is_missing)?;
        let end = pages.end.min((first / FILL_PAGES + 1) * FILL_PAGES);
        let end = (first..end).find(|page| !is_missing(page)).unwrap_or(end);
        Some(first..end)
    }
}

/// What there is not enough of to ask for this page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    /// As many reads are on their way as may be.
    OfPlaces(u64),
    OfMemory(u64),
}

impl Short {
    fn page(self) -> u64 {
        let (Self::OfPlaces(page) | Self::OfMemory(page)) = self;
        page
    }
}

/// Takes what comes.
struct Filler {
    file: Arc<CachedFile>,
    tally: Tally,
    number: u64,
    _charge: Charge,
}

impl Taker for Filler {
    fn take(self: Box<Self>, answer: Answer) {
        match answer {
            Ok((Reply::Data, bytes)) => {
                self.tally.fetched(bytes.len().div_ceil(PAGE_BYTES) as u64);
                self.file.filled(self.number, &bytes);
            }
            // It is about to come by itself.
            Ok(_) => self.file.is_told(true),
            Err(_) => {}
        }
        // Those who wait look again when this is dropped.
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.file.state.lock().fills.take(self.number);
        self.file.changed.wake_all();
    }
}

impl CachedFile {
    /// A read of these bytes is made: asks for the pages that it needs and those that reads like it will.
    pub(crate) fn ask(self: &Arc<Self>, (client, handle): (&Client, Handle), bytes: &Range<u64>) {
        let [needed, ahead] = {
            let mut state = self.state.lock();
            if !state.is_leased() {
                return;
            }
            let end = state.size.div_ceil(PAGE);
            if state.pages.count() >= end {
                // All of it is here.
                return;
            }
            state.ahead.read(bytes.start / PAGE..bytes.end.div_ceil(PAGE), end)
        };
        let asked = self.ask_for((client, handle), needed);
        // What comes by itself does so later if others ask for it, too.
        let ahead = if self.incoming().is_some_and(|incoming| incoming.is_coming()) { 0..0 } else { ahead };
        let asked = asked.and_then(|()| self.ask_for((client, handle), ahead));
        if let Err(short) = asked {
            self.state.lock().ahead.stops_before(short.page());
        }
    }

    /// Asks for those of some pages that are neither here nor on their way.
    ///
    /// # Errors
    /// What there is not enough of, and the first page that was not asked for.
    fn ask_for(self: &Arc<Self>, (client, handle): (&Client, Handle), wanted: Range<u64>) -> Result<(), Short> {
        let incoming = self.incoming();
        if let Some(incoming) = &incoming {
            self.take_incoming(&**incoming, wanted.clone());
        }
        while let Some((pages, filler)) = self.begin(wanted.clone(), incoming.as_deref(), client.tally())? {
            let length = (pages.end - pages.start) as u32 * PAGE as u32;
            let (offset, anyway) = (pages.start * PAGE, self.asks_anyway());
            client.ask_for(Call::Fill { file: handle, offset, length, anyway }, Box::new(filler));
        }
        Ok(())
    }

    /// Begins to read the first of these pages that is missing, and those that follow. `None`: there is no need, or it
    /// is about to come by itself.
    fn begin(
        self: &Arc<Self>,
        wanted: Range<u64>,
        incoming: Option<&dyn Incoming>,
        tally: &Tally,
    ) -> Result<Option<(Range<u64>, Filler)>, Short> {
        let Some(gap) = self.state.lock().gap(wanted.clone()) else { return Ok(None) };
        if incoming.is_some_and(|incoming| incoming.is_next(gap.start)) {
            return Ok(None);
        }
        let bytes = (gap.end - gap.start) as usize * PAGE_BYTES;
        let charge = self.quota.charge(block_bytes(bytes) + PART_CALL_BYTES);
        let charge = charge.map_err(|_| Short::OfMemory(gap.start))?;
        let mut state = self.state.lock();
        // Another thread may have begun meanwhile.
        let Some(pages) = state.gap(wanted).filter(|again| *again == gap && state.is_leased()) else { return Ok(None) };
        state.fills.begun += 1;
        let number = state.fills.begun;
        let place = state.fills.under_way.iter_mut().find(|place| place.is_none());
        *place.ok_or(Short::OfPlaces(gap.start))? = Some(Fill { number, pages: pages.clone() });
        Ok(Some((pages, Filler { file: Arc::clone(self), tally: tally.clone(), number, _charge: charge })))
    }

    /// Some pages came.
    fn filled(&self, number: u64, bytes: &[u8]) {
        let Some(frames) = self.frames_with(bytes) else { return };
        let mut state = self.state.lock();
        let Some(fill) = state.fills.take(number) else { return };
        let end = fill.pages.start * PAGE + bytes.len() as u64;
        let is_writer = !state.writers.is_empty();
        if end < state.size.min(fill.pages.end * PAGE) && !is_writer {
            // It ends before it did: somebody on the host has cut it.
            return state.give_up(&self.retention);
        }
        // What was written here behind its end may be on its way yet; before that there are zeros.
        for (page, frame) in fill.pages.zip(frames) {
            if state.pages.at(page * PAGE).is_none() && !state.pages.insert(self.frames, page * PAGE, frame) {
                break;
            }
        }
    }

    /// The page that some bytes begin in is missing: has it come, with those behind it as far as there is room, if only
    /// a part of it is known by writing that first. False: it cannot be had.
    pub(crate) async fn fetch(self: &Arc<Self>, reader: (&Client, Handle), bytes: &Range<u64>) -> bool {
        let is_partial = self.state.lock().partial_at(bytes.start).is_some();
        if is_partial {
            self.settle().await;
            self.state.lock().forget_parts();
        }
        let pages = bytes.start / PAGE..bytes.end.div_ceil(PAGE);
        for _ in 0..FETCHES_MAX {
            if self.await_incoming(pages.clone()).await {
                return true;
            }
            while let Err(Short::OfPlaces(page)) = self.ask_for(reader, pages.clone()) {
                if page > pages.start {
                    break;
                }
                let has_place = || (!self.state.lock().fills.is_full()).then_some(());
                self.changed.wait_until(has_place).await;
            }
            self.came(bytes.start).await;
            if self.state.lock().run(bytes.start, 1) > 0 {
                return true;
            }
            self.learns_what_comes().await;
            if self.incoming().is_none() {
                return false;
            }
        }
        false
    }

    /// All that is in the file came with a lease, when it was opened.
    pub(super) fn came_with(&self, bytes: &[u8]) {
        let Some(frames) = self.frames_with(bytes) else { return };
        let mut state = self.state.lock();
        if !state.is_leased() || state.size != bytes.len() as u64 {
            return;
        }
        for (page, frame) in (0..).zip(frames) {
            if state.pages.at(page * PAGE).is_none() && !state.pages.insert(self.frames, page * PAGE, frame) {
                break;
            }
        }
    }

    /// Whether there are frames that nobody else wants.
    pub(super) fn has_spare_frames(&self) -> bool {
        self.frames.available_frames() > self.frames.total_frames() / CACHE_SPARE_SHARE
    }

    /// Frames with these bytes, as many as there is memory for that nobody else wants. `None`: not one.
    pub(super) fn frames_with(&self, bytes: &[u8]) -> Option<Vec<Frame>> {
        let mut frames = Vec::new();
        frames.try_reserve_exact(bytes.len().div_ceil(PAGE_BYTES)).ok()?;
        for content in bytes.chunks(PAGE_BYTES) {
            let is_spare = self.has_spare_frames();
            let Some(frame) = pages::frame(self.frames).filter(|_| is_spare || frames.is_empty()) else { break };
            frame.write(0, content);
            frames.push(frame);
        }
        Some(frames)
    }

    /// Waits until the page that an offset is in came, or nobody waits for it any more.
    pub(crate) async fn came(&self, offset: u64) {
        let is_over = || {
            let is_over = !self.state.lock().fills.has(offset);
            is_over.then_some(())
        };
        self.changed.wait_until(is_over).await;
    }
}

/// How often pages are asked for that are said to be about to come by themselves.
const FETCHES_MAX: usize = 4;

/// One of so many frames of the node stays free for who wants one.
const CACHE_SPARE_SHARE: u32 = 16;
