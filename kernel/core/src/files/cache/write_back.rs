//! Writing back what was written on the node: in pieces as large as a call takes, several at a time, and none twice at
//! the same place. What fails is lost, and told once to whoever uses the file next.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::pin::Pin;
use core::sync::atomic::Ordering;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::heap::block_bytes;
use coppice_protocol::limits::{BULK_BYTES_MAX, REQUESTS_OWED_MAX};
use coppice_protocol::ship::{Call, Handle, Owner, Reply};

use super::file::{CachedFile, PAGE, State};
use crate::errno::Errno;
use crate::executor;
use crate::limits::PART_CALL_BYTES;
use crate::quota::Charge;
use crate::ship::{Answer, Client, Taker};

/// Pieces of a file that are being written at a time.
const WRITES_MAX: usize = REQUESTS_OWED_MAX + 2;

/// How often it is looked whether what is to be written can be, ns.
const SETTLE_LOOK_NS: u64 = 50_000_000;

/// The bytes of one file that are being written.
#[derive(Default)]
pub(super) struct Writing {
    ranges: [Option<Range<u64>>; WRITES_MAX],
    /// Longest piece, bytes, if there is little memory.
    piece_bytes: usize,
}

impl Writing {
    /// Whether none are.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.iter().all(Option::is_none)
    }

    /// How many.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().flatten().map(|range| range.end - range.start).sum()
    }

    pub(super) fn touches(&self, range: &Range<u64>) -> bool {
        self.ranges.iter().flatten().any(|own| own.start < range.end && range.start < own.end)
    }

    fn done(&mut self, range: &Range<u64>) {
        if let Some(place) = self.ranges.iter_mut().find(|own| own.as_ref() == Some(range)) {
            *place = None;
        }
    }
}

/// Takes what becomes of a piece.
struct Writer {
    file: Arc<CachedFile>,
    range: Range<u64>,
    /// What it is written with.
    with: (Owner, Handle),
    /// What became of it; nothing if nobody will ever know.
    outcome: Result<u64, Errno>,
    _charge: Option<Charge>,
}

impl Taker for Writer {
    fn take(mut self: Box<Self>, answer: Answer) {
        self.outcome = match answer {
            Ok((Reply::Written { bytes: bytes @ 1.., .. }, _)) => Ok(u64::from(bytes)),
            Ok(_) => Err(Errno::EIO),
            Err(errno) => Err(errno),
        };
        let file = Arc::clone(&self.file);
        drop(self);
        file.write_back(false);
        file.leave();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.file.written(&self.range, self.with, self.outcome);
    }
}

impl CachedFile {
    /// Begins to write back: all there is or, if not `all`, whole pieces, or whatever there is if somebody waits.
    pub(super) fn write_back(self: &Arc<Self>, all: bool) {
        loop {
            let next = self.state.lock().next_piece(all);
            let Some((range, (client, handle))) = next else { return };
            let (offset, length) = (range.start, (range.end - range.start) as usize);
            let charge = self.quota.charge(block_bytes(length) + PART_CALL_BYTES).ok();
            let mut bytes = Vec::new();
            // A page is always written, so that memory comes to be free.
            let may = charge.is_some() || length <= PAGE_BYTES;
            if !may || bytes.try_reserve_exact(length).is_err() {
                if !self.put_back(&range, (client.owner(), handle), (length / 2).next_multiple_of(PAGE_BYTES)) {
                    return;
                }
                continue;
            }
            let outcome = Err(Errno::EIO);
            let (file, with) = (Arc::clone(self), (client.owner(), handle));
            let writer = Writer { file, range: range.clone(), with, outcome, _charge: charge };
            self.copy_out(offset, length, &mut bytes);
            client.owe(Call::Write { file: handle, offset: Some(offset) }, bytes, Box::new(writer));
        }
    }

    /// Copies so many bytes from an offset on to an empty vector that has room for them.
    fn copy_out(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) {
        let state = self.state.lock();
        while bytes.len() < length {
            let at = offset + bytes.len() as u64;
            let inside = (at % PAGE) as usize;
            let count = (length - bytes.len()).min(PAGE_BYTES - inside);
            match state.pages.at(at) {
                Some(page) => page.append(inside, count, bytes),
                None => bytes.resize(bytes.len() + count, 0),
            }
        }
    }

    /// A piece was written, so many bytes of it, or not.
    fn written(&self, range: &Range<u64>, with: (Owner, Handle), outcome: Result<u64, Errno>) {
        let mut state = self.state.lock();
        state.writing.done(range);
        state.writers.used(with);
        state.writing.piece_bytes = 0;
        match outcome {
            Ok(bytes) if bytes >= range.end - range.start => {}
            // What is left is tried again, and says why it cannot be.
            Ok(bytes) => drop(state.unwritten.add(range.start + bytes..range.end)),
            Err(errno) => state.lose(errno, &self.retention),
        }
        state.is_slow = false;
        state.written_at = self.uses.load(Ordering::Relaxed);
        state.count(&self.waiting);
        drop(state);
        self.changed.wake_all();
    }

    /// There is no memory for a piece: smaller ones are tried. False: they are as small as they can be.
    fn put_back(&self, range: &Range<u64>, with: (Owner, Handle), most: usize) -> bool {
        let mut state = self.state.lock();
        state.writing.done(range);
        state.writers.used(with);
        // It was there, so there is a place.
        state.unwritten.add(range.clone());
        state.writing.piece_bytes = most;
        drop(state);
        self.changed.wake_all();
        most > 0 && (most as u64) < range.end - range.start
    }

    /// Waits until what is written now is at the I/O node, or is lost.
    pub(crate) async fn settle(self: &Arc<Self>) {
        if let Some(settled) = self.unsettled() {
            settled.await;
        }
    }

    /// The same to be waited for, if there is anything. In a box: calls have room for what most of them wait for.
    pub(crate) fn unsettled(self: &Arc<Self>) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        if self.is_unwritten() { Some(Box::pin(self.wait_until_settled())) } else { None }
    }

    async fn wait_until_settled(self: &Arc<Self>) {
        // Once: a mapping may be written all the time.
        self.settle_mapped().await;
        self.settle_calls().await;
    }

    /// Waits until what was written by calls is at the I/O node, or is lost.
    pub(super) async fn settle_calls(self: &Arc<Self>) {
        while !self.state.lock().is_written() {
            self.write_back(true);
            let came = self.changed.wait_until(|| self.state.lock().is_written().then_some(()));
            // If there was no memory, nobody says when there is.
            let _ = executor::timeout(SETTLE_LOOK_NS, came).await;
        }
    }

    /// Waits until there is room for more to be written.
    pub(crate) async fn make_room(self: &Arc<Self>) {
        let is_full = |state: &State| state.is_full(&self.waiting);
        if is_full(&self.state.lock()) {
            self.write_back(true);
            let came = self.changed.wait_until(|| (!is_full(&self.state.lock())).then_some(()));
            let _ = executor::timeout(SETTLE_LOOK_NS, came).await;
        } else {
            // Too many pieces, pages of which a part is known, or no memory.
            self.settle().await;
            self.state.lock().forget_parts();
        }
    }
}

impl State {
    /// The next piece that is to be written, and who writes it.
    fn next_piece(&mut self, all: bool) -> Option<(Range<u64>, (Client, Handle))> {
        let most = match self.writing.piece_bytes {
            0 => BULK_BYTES_MAX as u64,
            fewer => fewer as u64,
        };
        let all = all || self.leaving.is_some();
        let writing = &self.writing;
        let place = writing.ranges.iter().position(Option::is_none).filter(|_| !self.writers.is_empty())?;
        let may = |piece: &Range<u64>| (all || piece.end.is_multiple_of(most)) && !writing.touches(piece);
        let piece = self.unwritten.take(most, may)?;
        if let Some(place) = self.writing.ranges.get_mut(place) {
            *place = Some(piece.clone());
        }
        Some((piece, self.writers.some()?))
    }
}
