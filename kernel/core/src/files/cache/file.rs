//! One file: its lease, its length, its pages, and what is under way.
//!
//! Everything here is done under one lock for a moment; nobody who holds it waits, asks for memory that somebody would
//! have to give back, or makes a call. Nor is a client dropped under it: with the last of them goes what it has under
//! way, which takes the lock.

use alloc::sync::{Arc, Weak};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64};

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_protocol::lease::{FileId, Grant, Lease};
use coppice_protocol::ship::FileStatus;
use spin::Once;

use super::ahead::Ahead;
use super::extents::{EXTENTS_MAX, Extents};
use super::fill::Fills;
use super::incoming::Coming;
use super::left::LeftFile;
use super::mapped::Mappers;
use super::pages::Pages;
use super::write_back::Writing;
use super::writers::Writers;
use crate::errno::Errno;
use crate::executor::WaitQueue;
use crate::files::{Turn, Turns};
use crate::memory::{FileChange, FileIdentity, MappedPages, Retention, SharedMemory};
use crate::quota::Quota;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

pub(super) const PAGE: u64 = PAGE_BYTES as u64;

/// A file that has more than this share of the node's memory is long.
const LONG_FILE_SHARE: u64 = 8;

/// Of a mode: anybody may read it.
const S_IROTH: u32 = 0o004;

/// Pages of which only a part is known, as only that was written.
pub(super) const PARTIAL_MAX: usize = 8;

/// See this module.
pub(crate) struct CachedFile {
    pub(super) identity: FileIdentity,
    pub(super) frames: &'static FramePool,
    pub(super) retention: Arc<Retention>,
    pub(super) quota: Arc<Quota>,
    /// How many uses there were so far of all files of the job.
    pub(super) uses: Arc<AtomicU64>,
    /// Bytes of all files of the job that wait to be written.
    pub(super) waiting: Arc<AtomicU64>,
    /// Whose turn it is to write: what one call writes is in one piece.
    turns: Turns,
    /// Who has it mapped, if anybody ever had.
    pub(super) mappers: Once<Weak<dyn Mappers>>,
    /// Pages of all files of the job that mappings have written.
    pub(super) mapped_pages: Arc<MappedPages>,
    /// Whose turn it is to write those back.
    pub(super) mapped_turns: Turns,
    pub(super) state: Mutex<State>,
    /// What comes of it by itself.
    pub(super) incoming: Mutex<Option<Coming>>,
    /// Whether it is known that something does ([`super::incoming`]).
    pub(super) word: AtomicU8,
    /// Told when anything came, went, or was written.
    pub(super) changed: WaitQueue,
}

/// Under the lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) lease: Option<Grant>,
    /// Somebody wants the lease of that number; it is given back as soon as everything is written. Who it is said by.
    pub(super) leaving: Option<(Client, u64)>,
    /// What was written could not be: what is known is worth nothing until the next lease.
    pub(super) is_broken: bool,
    version: u64,
    /// Length, bytes, while there is a lease.
    pub(super) size: u64,
    pub(super) pages: Pages,
    pub(super) fills: Fills,
    pub(super) ahead: Ahead,
    /// Bytes that are to be written, and those that are being written.
    pub(super) unwritten: Extents,
    pub(super) writing: Writing,
    /// Pages of which these bytes alone are known.
    pub(super) partial: [Option<Range<u64>>; PARTIAL_MAX],
    /// Who has it open to write.
    pub(super) writers: Writers,
    /// Somebody here had, or has changed it otherwise.
    pub(super) was_written: bool,
    /// Anybody on the host may read it: what is left of it is no secret.
    is_public: bool,
    /// Pages that an earlier job has left, until somebody has counted them.
    found: u64,
    /// Nothing was heard of what is being written for so long that calls on other files do not wait for it.
    pub(super) is_slow: bool,
    /// What is unwritten is written back in a while ([`super::later`]).
    pub(super) is_timed: bool,
    /// When bytes were written last that were to be written later, by [`CachedFile::uses`].
    pub(super) written_at: u64,
    /// Of bytes that wait to be written, those that the job's count has.
    pub(super) counted: u64,
    /// Calls that are made at the I/O node.
    pub(super) outside: u32,
    /// What was not written, and nobody was told yet.
    pub(super) error: Option<Errno>,
    /// What shared mappings show.
    pub(super) mapped: Option<Arc<SharedMemory>>,
    /// Tasks that write back what mappings have written.
    pub(super) mapped_writing: u32,
}

impl State {
    /// Whether its lease may be used.
    pub(super) fn is_leased(&self) -> bool {
        self.lease.is_some() && self.leaving.is_none() && !self.is_broken
    }

    /// Whether what is known is of that version.
    pub(super) fn is_of_version(&self, version: u64) -> bool {
        self.version == version
    }

    /// Whether bytes may be written later: not while calls are made at the I/O node ([`Outside`]).
    pub(super) fn is_sole(&self) -> bool {
        self.outside == 0 && self.is_leased() && self.lease.is_some_and(|grant| grant.lease == Lease::Sole)
    }

    /// Its length, bytes, if that is known, though perhaps not for long.
    pub(super) fn known_size(&self) -> Option<u64> {
        (self.lease.is_some() && !self.is_broken).then_some(self.size)
    }

    /// Whether everything that was written is at the I/O node.
    pub(super) fn is_settled(&self) -> bool {
        self.is_written() && !self.is_written_by_mappings()
    }

    /// The same of what was written by calls.
    pub(super) fn is_written(&self) -> bool {
        self.unwritten.is_empty() && self.writing.is_empty()
    }

    /// Whether there are pages of which a part is known.
    pub(super) fn has_parts(&self) -> bool {
        self.partial.iter().any(Option::is_some)
    }

    /// The part of a page that is known, if that is not all.
    pub(super) fn partial_at(&mut self, page: u64) -> Option<&mut Option<Range<u64>>> {
        self.partial.iter_mut().find(|known| known.as_ref().is_some_and(|known| known.start / PAGE == page / PAGE))
    }

    /// Pages that are known as a whole, from an offset on without a gap: how many bytes, `limit` at most.
    pub(super) fn run(&self, offset: u64, limit: u64) -> u64 {
        let run = self.pages.run(offset, limit);
        let partial = self.partial.iter().flatten().map(|known| known.start / PAGE * PAGE);
        let first = partial.filter(|page| page + PAGE > offset && *page < offset + run).min();
        first.map_or(run, |page| page.saturating_sub(offset))
    }

    /// What is known is worth nothing. Pages with bytes that are to be written stay until they are.
    pub(super) fn give_up(&mut self, retention: &Retention) {
        if self.is_written() {
            self.forget_pages(retention);
        }
        self.fills.clear();
        (self.is_broken, self.version) = (true, 0);
    }

    /// Pages of which a part is known are not.
    pub(super) fn forget_parts(&mut self) {
        for known in core::mem::take(&mut self.partial).into_iter().flatten() {
            if self.unwritten.touch(&known) || self.writing.touches(&known) {
                if let Some(place) = self.partial.iter_mut().find(|place| place.is_none()) {
                    *place = Some(known);
                }
            } else {
                self.pages.drop_range(known.start, known.end);
            }
        }
    }

    /// Nothing is known of what is in the file. What is unwritten stays.
    fn forget_pages(&mut self, retention: &Retention) {
        self.fills.clear();
        self.partial = Default::default();
        self.found = 0;
        if let Some(table) = self.pages.take() {
            retention.take_apart(table);
        }
    }
}

impl CachedFile {
    pub(super) fn new(
        identity: FileIdentity,
        frames: &'static FramePool,
        retention: &Arc<Retention>,
        quota: &Arc<Quota>,
        (uses, waiting, mapped_pages): (&Arc<AtomicU64>, &Arc<AtomicU64>, &Arc<MappedPages>),
    ) -> Self {
        let state = Mutex::new(LockLevel::KnownFile, State::default());
        Self {
            identity,
            frames,
            retention: Arc::clone(retention),
            quota: Arc::clone(quota),
            uses: Arc::clone(uses),
            waiting: Arc::clone(waiting),
            turns: Turns::new(),
            mappers: Once::new(),
            mapped_pages: Arc::clone(mapped_pages),
            mapped_turns: Turns::new(),
            state,
            incoming: Mutex::new(LockLevel::Fact, None),
            word: AtomicU8::new(0),
            changed: WaitQueue::new(),
        }
    }

    /// It begins with what an earlier job has left, which is true if the I/O node says so when it is opened.
    pub(super) fn with(self, left: Option<LeftFile>) -> Self {
        if let Some(left) = left {
            let mut state = self.state.lock();
            state.found = left.pages.count();
            (state.version, state.pages) = (left.version, left.pages);
        }
        self
    }

    /// Gives up what was read of it, with the version that it is of, if it was only read and is no
    /// secret of whose it is.
    pub(super) fn leave_pages(&self) -> Option<(u64, Pages)> {
        let mut state = self.state.lock();
        let is_worthless = state.version == 0 || state.is_broken || state.leaving.is_some() || state.error.is_some();
        if is_worthless
            || !state.is_public
            || state.was_written
            || state.has_parts()
            || !state.is_settled()
            || state.pages.count() == 0
        {
            return None;
        }
        state.fills.clear();
        Some((core::mem::take(&mut state.version), core::mem::take(&mut state.pages)))
    }

    /// Waits for one's turn to write a file that nobody else writes, where bytes may be written later: one who writes
    /// them at the I/O node waits until nobody here has any.
    pub(crate) async fn turn(&self) -> Option<Turn<'_>> {
        if self.state.lock().is_sole() { Some(self.turns.take().await) } else { None }
    }

    /// The same, if it is nobody's. `None`: it is to be waited for, or bytes are not written later.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        if self.state.lock().is_sole() { self.turns.try_take() } else { None }
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The same, as the I/O node is told it.
    pub(super) fn id(&self) -> FileId {
        FileId { device: self.identity.device, inode: self.identity.inode }
    }

    /// The number of its lease.
    #[cfg(test)]
    pub(super) fn lease(&self) -> Option<u64> {
        self.state.lock().lease.map(|grant| grant.number)
    }

    /// The I/O node has opened the file, which is this, with that lease. It was asked at that time, by
    /// [`Self::uses`], and no call is known to have changed the file there since, or one is. If it is not what it was,
    /// what is known here stays known, and nothing else is believed.
    pub(super) fn granted(&self, grant: Grant, status: &FileStatus, (asked, is_unchanged): (u64, bool)) {
        let mut state = self.state.lock();
        if state.lease.is_some_and(|known| known.number > grant.number) {
            return;
        }
        let is_known = state.lease.is_some() && !state.is_broken && state.version == grant.known;
        if !is_known && (!is_unchanged || state.written_at >= asked) {
            state.give_up(&self.retention);
            drop(state);
            return self.changed.wake_all();
        }
        if state.version != grant.known {
            if !state.is_written() {
                // What is worth nothing is still there, with what is to be written: the lease is of no use.
                (state.lease, state.is_broken) = (Some(grant), true);
                return;
            }
            state.forget_pages(&self.retention);
        }
        state.is_broken = false;
        // What is written here is not in what the I/O node says of it.
        if !is_known {
            state.size = status.size;
        }
        state.version = grant.version;
        state.lease = Some(grant);
        state.is_public = status.mode & S_IROTH != 0;
    }

    /// It is opened to be written, and that comes with no lease: others use it, too, by now. The lease that is here was
    /// no sole one any more to the I/O node since the last handle that wrote was closed.
    pub(crate) fn is_not_sole(&self) {
        if let Some(grant) = &mut self.state.lock().lease {
            grant.lease = Lease::Shared;
        }
    }

    /// Its last handle goes: it has no lease any more. What is known may be true later: whether anything is. Gives also
    /// whom the lease is to be given back by, and its number, if that is wanted.
    pub(super) fn rest(&self) -> (bool, Option<(Client, u64)>) {
        self.forget_unmapped();
        let mut state = self.state.lock();
        state.fills.clear();
        state.lease = None;
        let leaving = state.leaving.take();
        // Whoever opens it next is told what was lost.
        let knows_something = state.version != 0 && state.pages.count() > 0 || state.error.is_some();
        drop(state);
        self.changed.wake_all();
        (knows_something, leaving)
    }

    /// Nothing is known of it, nor to be written.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        state.unwritten.clear();
        state.count(&self.waiting);
        state.forget_pages(&self.retention);
        (state.lease, state.version) = (None, 0);
        let clients = (core::mem::take(&mut state.writers), state.leaving.take(), state.mapped.take());
        drop(state);
        drop((clients, self.came_in_vain()));
        self.changed.wake_all();
    }

    /// A lease is wanted back: it is given when everything is written.
    pub(super) fn recall(self: &Arc<Self>, client: &Client, number: u64) {
        {
            let mut state = self.state.lock();
            match state.lease {
                // A later one was given meanwhile; this is none any more.
                Some(grant) if grant.number > number => return,
                // The one that is wanted may be one that was not heard of yet, and takes the place of this.
                Some(_) => {
                    let before = state.leaving.replace((client.clone(), number));
                    drop(state);
                    drop(before);
                }
                None => {
                    drop(state);
                    return client.give_back(self.id(), number);
                }
            }
        }
        self.write_back(true);
        if !self.leaves_mapped() {
            self.leave();
        }
    }

    /// Gives the lease back, if that is wanted and everything is written.
    pub(super) fn leave(&self) {
        let (client, number) = {
            let mut state = self.state.lock();
            if !state.is_settled() {
                return;
            }
            let Some(leaving) = state.leaving.take() else { return };
            state.forget_pages(&self.retention);
            state.version = 0;
            state.lease = None;
            leaving
        };
        drop(self.came_in_vain());
        self.changed.wake_all();
        client.give_back(self.id(), number);
    }

    /// The file changed by a call that was made at the I/O node.
    pub(super) fn changed(&self, change: &FileChange) {
        let mut state = self.state.lock();
        state.was_written = true;
        match change {
            FileChange::Written(range) | FileChange::Inside(range) => {
                state.fills.forget(range);
                state.drop_written(range);
                if let FileChange::Written(range) = change {
                    state.size = state.size.max(range.end);
                }
            }
            FileChange::Cut(length) => {
                state.fills.forget(&(*length..u64::MAX));
                state.unwritten.cut(*length);
                state.count(&self.waiting);
                state.cut_pages(*length);
                state.size = *length;
            }
        }
        drop(state);
        self.changed.wake_all();
    }

    /// Whether it has more bytes than are kept of a file that is read once, and those at an offset are not here.
    pub(crate) fn is_long(&self, offset: u64) -> bool {
        let state = self.state.lock();
        let kept = u64::from(self.frames.total_frames()) / LONG_FILE_SHARE;
        state.size / PAGE > kept && state.pages.at(offset).is_none()
    }

    /// What became of it nobody knows.
    pub(super) fn is_unsure(&self) {
        self.state.lock().give_up(&self.retention);
        self.changed.wake_all();
    }

    /// Its length now, bytes, if that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        let state = self.state.lock();
        state.is_leased().then_some(state.size)
    }

    /// Pages of it that an earlier job has left and that are true, once.
    pub(crate) fn take_found(&self) -> u64 {
        core::mem::take(&mut self.state.lock().found)
    }

    /// Whether bytes are not written yet.
    pub(super) fn is_unwritten(&self) -> bool {
        !self.state.lock().is_settled()
    }

    /// What is being written takes long: until some of it is, calls on other files do not wait for it.
    pub(super) fn is_slow(&self) {
        self.state.lock().is_slow = true;
    }

    /// Whether bytes are not written yet that calls on other files wait for.
    pub(super) fn is_waited_for(&self) -> bool {
        let state = self.state.lock();
        !state.is_settled() && !state.is_slow
    }

    /// Whether bytes are not written yet, or something was lost.
    pub(crate) fn has_to_tell(&self) -> bool {
        let state = self.state.lock();
        !state.is_settled() || state.error.is_some()
    }

    /// Pages that may be given back.
    pub(super) fn spare_pages(&self) -> u64 {
        let state = self.state.lock();
        let unwritten = state.unwritten.bytes() + state.writing.bytes();
        // Those at both ends of a piece are not whole.
        let kept = unwritten.div_ceil(PAGE) + if unwritten > 0 { 2 * EXTENTS_MAX as u64 } else { 0 };
        let spare = state.pages.count().saturating_sub(kept);
        drop(state);
        spare + self.incoming_pages()
    }

    /// Gives some pages back. Whether there were any.
    pub(super) fn give_back(&self, pages: u64) -> bool {
        // What came is asked for again if it is wanted.
        if self.comes_no_more().is_some() {
            return true;
        }
        let mut state = self.state.lock();
        // They would be whole if the pages went and came again.
        state.forget_parts();
        state.drop_clean(pages)
    }

    /// What was not written, once.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }
}
