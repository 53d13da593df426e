//! What a job's shared mappings of a file show, and writing it back: before anybody else reads or writes the file by
//! calls, when the I/O node wants the node's lease back, when it is asked for (`msync`, `fsync`, the end of the rank),
//! and in a while ([`MAPPED_WRITE_BACK_NS`](crate::limits::MAPPED_WRITE_BACK_NS)).
//!
//! What was read by calls and what is mapped are different pages: one is written where the other is forgotten.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::heap::block_bytes;
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::{Call, Handle, Owner, Reply};

use super::file::{CachedFile, State};
use crate::errno::Errno;
use crate::executor;
use crate::files::buffer;
use crate::limits::PART_CALL_BYTES;
use crate::memory::{FileChange, SharedMemory};
use crate::ship::Answer;

/// Those whose memory may show a file: the job's ranks on the node.
pub(crate) trait Mappers: Send + Sync {
    /// Nobody writes these bytes of it before saying so.
    fn protect(&self, memory: &Arc<SharedMemory>, bytes: &Range<u64>);

    /// Nobody has any page of it.
    fn forget(&self, memory: &Arc<SharedMemory>);
}

impl State {
    /// Whether a mapping has pages that are to be written.
    pub(super) fn is_written_by_mappings(&self) -> bool {
        self.mapped_writing > 0 || self.mapped.as_ref().is_some_and(|memory| memory.changed_pages() > 0)
    }
}

impl CachedFile {
    /// What shared mappings of it show.
    pub(crate) fn memory(&self, mappers: &Weak<dyn Mappers>) -> Arc<SharedMemory> {
        self.mappers.call_once(|| Weak::clone(mappers));
        let new = || Arc::new(SharedMemory::of_file(self.frames, &self.retention, &self.mapped_pages));
        // What nobody has mapped any more may be long past.
        self.forget_unmapped();
        let mut state = self.state.lock();
        Arc::clone(state.mapped.get_or_insert_with(new))
    }

    /// The same, once there is any.
    pub(crate) fn mapped(&self) -> Option<Arc<SharedMemory>> {
        self.state.lock().mapped.clone()
    }

    /// It is shown by this, which was written down with those who show it.
    pub(crate) fn is_shown_by(self: &Arc<Self>, memory: &Arc<SharedMemory>) {
        memory.shows_file_again(&self.mapped_pages);
        self.state.lock().mapped.get_or_insert_with(|| Arc::clone(memory));
    }

    /// Nothing of what mappings show stays if nobody has any of it and all is written.
    pub(super) fn forget_unmapped(&self) {
        let mut state = self.state.lock();
        let is_mapped = |memory: &Arc<SharedMemory>| Arc::strong_count(memory) > 1 || memory.changed_pages() > 0;
        let gone = if state.mapped_writing > 0 { None } else { state.mapped.take_if(|memory| !is_mapped(memory)) };
        drop(state);
        drop(gone);
    }

    /// Writes back what mappings have written a while ago.
    pub(super) async fn write_back_mapped(self: &Arc<Self>) {
        if self.state.lock().leaving.is_some() {
            self.leave_mapped().await;
        } else {
            self.settle_mapped().await;
        }
        self.forget_unmapped();
    }

    /// Writes back what mappings have written so far.
    pub(crate) async fn settle_mapped(self: &Arc<Self>) {
        if !self.state.lock().is_written_by_mappings() {
            return;
        }
        let _turn = self.mapped_turns.take().await;
        let Some(memory) = self.mapped() else { return };
        let writing = Writing::begin(self);
        let Ok(size) = self.size_for_mappings().await else {
            return self.mapped_is_lost(Errno::EIO);
        };
        let mut from = 0;
        while let Some(bytes) = memory.take_changed(from, BULK_BYTES_MAX as u64) {
            from = bytes.end;
            if let Some(mappers) = self.mappers.get().and_then(Weak::upgrade) {
                mappers.protect(&memory, &bytes);
            }
            // What is behind the end is nobody's, and is not to be seen when the file has grown.
            memory.zero_from(size);
            let in_file = bytes.start..bytes.end.min(size);
            if in_file.is_empty() {
                continue;
            }
            let taken = Taken { memory: &memory, bytes: &in_file };
            let written = self.write_mapped(&memory, &in_file).await;
            core::mem::forget(taken);
            if let Err(errno) = written {
                self.mapped_is_lost(errno);
            }
        }
        self.state.lock().is_slow = false;
        drop(writing);
    }

    async fn write_mapped(&self, memory: &SharedMemory, bytes: &Range<u64>) -> Result<(), Errno> {
        let mut at = bytes.start;
        while at < bytes.end {
            let left = (bytes.end - at) as usize;
            // There is always memory for a page, so that memory comes to be free.
            let charge = self.quota.charge(block_bytes(left) + PART_CALL_BYTES).ok();
            let mut part = buffer(if charge.is_some() { left } else { left.min(PAGE_BYTES) })?;
            let length = memory.read(at, &mut part);
            part.truncate(length);
            let call = |file| Call::Write { file, offset: Some(at) };
            let written = match self.call_by_writer(call, part).await? {
                (Reply::Written { bytes: bytes @ 1.., .. }, _) => u64::from(bytes).min(left as u64),
                _ => return Err(Errno::EIO),
            };
            // What was read by calls is forgotten.
            self.changed(&FileChange::Inside(at..at + written));
            at += written;
        }
        Ok(())
    }

    /// How long it is, bytes.
    async fn size_for_mappings(&self) -> Result<u64, Errno> {
        let known = self.state.lock().known_size();
        if let Some(size) = known {
            return Ok(size);
        }
        match self.call_by_writer(Call::HandleStat, Vec::new()).await? {
            (Reply::Status(status), _) => Ok(status.size),
            _ => Err(Errno::EIO),
        }
    }

    /// Makes a call with some handle of those who write the file.
    async fn call_by_writer(&self, call: impl FnOnce(Handle) -> Call, bytes: Vec<u8>) -> Answer {
        let writer = self.state.lock().writers.some();
        let (client, handle) = writer.ok_or(Errno::EIO)?;
        let using = Using { file: self, with: (client.owner(), handle) };
        let answer = client.call_owed(call(handle), bytes).await;
        drop(using);
        answer
    }

    /// What mappings have written could not be: who uses the file next is told.
    fn mapped_is_lost(&self, errno: Errno) {
        self.state.lock().error.get_or_insert(errno);
    }

    /// Waits until a page of it can be read to be mapped shared.
    pub(crate) async fn settled_for_mapping(self: &Arc<Self>) {
        let is_open = || {
            let is_closed = self.mapped().is_some_and(|memory| memory.is_closed());
            (!is_closed).then_some(())
        };
        self.changed.wait_until(is_open).await;
        self.settle_calls().await;
    }

    /// Gives up what mappings show, as others are to have the file: what was written is written back, and whoever
    /// touches it then reads it anew.
    pub(super) async fn leave_mapped(self: &Arc<Self>) {
        if let Some(memory) = self.mapped() {
            memory.close(true);
            let _open = Open(self, &memory);
            if let Some(mappers) = self.mappers.get().and_then(Weak::upgrade) {
                mappers.forget(&memory);
            }
            self.settle_mapped().await;
            memory.forget_file(&(0..u64::MAX));
        }
        self.leave();
    }

    /// The same soon, if anything is mapped. Whether that is so.
    pub(super) fn leaves_mapped(self: &Arc<Self>) -> bool {
        if self.mapped().is_none() {
            return false;
        }
        let file = Arc::clone(self);
        // If there is no task for it, it is done when what was written is written back in a while.
        executor::spawn_on(0, async move { file.leave_mapped().await }).is_ok() || self.is_unwritten()
    }
}

/// Mappings' pages are being written, until this is dropped.
struct Writing<'a>(&'a Arc<CachedFile>);

impl<'a> Writing<'a> {
    fn begin(file: &'a Arc<CachedFile>) -> Self {
        file.state.lock().mapped_writing += 1;
        Self(file)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.state.lock().mapped_writing -= 1;
        self.0.changed.wake_all();
        self.0.leave();
    }
}

/// A handle is used, until this is dropped.
struct Using<'a> {
    file: &'a CachedFile,
    with: (Owner, Handle),
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.file.state.lock().writers.used(self.with);
        self.file.changed.wake_all();
    }
}

/// Pages that are being written. If this is dropped, whoever waited for that has gone away, and they may not be.
struct Taken<'a> {
    memory: &'a SharedMemory,
    bytes: &'a Range<u64>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.memory.put_back(self.bytes);
    }
}

/// What is closed is open again when this is dropped.
struct Open<'a>(&'a CachedFile, &'a SharedMemory);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.1.close(false);
        self.0.changed.wake_all();
    }
}
