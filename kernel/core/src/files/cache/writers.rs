//! The handles with which what was written on the node can be written at the I/O node.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ship::{Handle, Owner};

use super::file::{CachedFile, State};
use crate::errno::Errno;
use crate::ship::Client;

/// The table of [`Writers`] has room for so many times as many as there are, at most.
const ROOM: usize = 4;

/// What a file that is open to be written is charged with for its place among [`Writers`], bytes.
pub(crate) const WRITER_BYTES: usize = ROOM * size_of::<Writer>();

/// Handles that a file is open to be written with, by whose they are. There are no more of them than open files.
#[derive(Default)]
pub(super) struct Writers(Vec<Writer>);

struct Writer {
    client: Client,
    handle: Handle,
    /// Calls that are about to be made with it, or under way: it is not to be closed before they are answered.
    uses: u32,
    /// It is to be closed: it is used if there is no other.
    is_leaving: bool,
}

impl Writer {
    fn key(&self) -> (Owner, Handle) {
        (self.client.owner(), self.handle)
    }
}

impl Writers {
    fn place(&self, owner: Owner, handle: Handle) -> Result<usize, usize> {
        self.0.binary_search_by_key(&(owner, handle), Writer::key)
    }

    fn get_mut(&mut self, owner: Owner, handle: Handle) -> Option<&mut Writer> {
        let place = self.place(owner, handle).ok()?;
        self.0.get_mut(place)
    }

    pub(super) fn has(&self, client: &Client, handle: Handle) -> bool {
        self.place(client.owner(), handle).is_ok()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Some handle for a call, of which [`Self::used`] is to be told when it was answered.
    pub(super) fn some(&mut self) -> Option<(Client, Handle)> {
        let place = self.0.iter().position(|writer| !writer.is_leaving).unwrap_or(0);
        let writer = self.0.get_mut(place)?;
        writer.uses += 1;
        Some((writer.client.clone(), writer.handle))
    }

    /// A call with a handle is answered, or was not made.
    pub(super) fn used(&mut self, (owner, handle): (Owner, Handle)) {
        if let Some(writer) = self.get_mut(owner, handle) {
            writer.uses = writer.uses.saturating_sub(1);
        }
    }

    /// Adds one, and says whether it is there: not if there is no memory.
    fn add(&mut self, client: &Client, handle: Handle) -> bool {
        let Err(place) = self.place(client.owner(), handle) else { return true };
        if self.0.try_reserve(1).is_err() {
            return false;
        }
        self.0.insert(place, Writer { client: client.clone(), handle, uses: 0, is_leaving: false });
        true
    }

    fn take(&mut self, client: &Client, handle: Handle) -> Option<Writer> {
        let taken = self.place(client.owner(), handle).ok().map(|place| self.0.remove(place));
        if self.0.capacity() > ROOM * self.0.len() {
            let mut smaller = Vec::new();
            // Who gives memory back finds some, or the next one does.
            if smaller.try_reserve_exact(self.0.len()).is_ok() {
                smaller.append(&mut self.0);
                self.0 = smaller;
            }
        }
        taken
    }
}

impl CachedFile {
    /// A rank has it open to be written, by this handle. If there is no memory to remember that, it writes at the I/O
    /// node: what is written later is always some handle's that is known.
    pub(crate) fn writes_with(&self, client: &Client, handle: Handle) {
        let mut state = self.state.lock();
        state.was_written = true;
        state.writers.add(client, handle);
    }

    /// A handle is about to be closed. False, and it still writes: something is being written with it, or nobody else
    /// can write what is not written yet. [`Self::can_stop`] is to be awaited.
    pub(crate) fn stops_writing(&self, client: &Client, handle: Handle) -> bool {
        let mut state = self.state.lock();
        let is_unwritten = !state.is_settled();
        let is_last = state.writers.0.len() == 1;
        let keeps = state.writers.get_mut(client.owner(), handle).is_some_and(|writer| {
            writer.is_leaving = true;
            writer.uses > 0 || is_last && is_unwritten
        });
        let gone = if keeps { None } else { state.writers.take(client, handle) };
        drop(state);
        drop(gone);
        !keeps
    }

    /// Waits for what a handle that is to be closed still has to write.
    pub(crate) async fn can_stop(self: &Arc<Self>, client: &Client, handle: Handle) {
        if !self.is_used(|writer| writer.key() == (client.owner(), handle)) {
            return self.settle().await;
        }
        let is_free = || (!self.is_used(|writer| writer.key() == (client.owner(), handle))).then_some(());
        self.changed.wait_until(is_free).await;
    }

    fn is_used(&self, by: impl Fn(&Writer) -> bool) -> bool {
        self.state.lock().writers.0.iter().any(|writer| by(writer) && writer.uses > 0)
    }

    /// A rank is about to end: what others write is not written with its handles any more, if there are others.
    pub(crate) fn is_left_by(&self, owner: Owner) {
        for writer in self.state.lock().writers.0.iter_mut().filter(|writer| writer.client.owner() == owner) {
            writer.is_leaving = true;
        }
    }

    /// Waits until nothing is being written with a rank's handles.
    pub(crate) async fn is_unused_by(&self, owner: Owner) {
        let is_free = || (!self.is_used(|writer| writer.client.owner() == owner)).then_some(());
        self.changed.wait_until(is_free).await;
    }

    /// A handle is gone, with its rank. If nobody else can write what is not written, it is lost.
    pub(crate) fn writes_no_more(&self, client: &Client, handle: Handle) {
        let mut state = self.state.lock();
        let gone = state.writers.take(client, handle);
        if state.writers.is_empty() && !state.unwritten.is_empty() {
            state.lose(Errno::EIO, &self.retention);
            state.count(&self.waiting);
        }
        drop(state);
        drop(gone);
        self.changed.wake_all();
    }

    /// How many write it, and for how many there is room.
    #[cfg(test)]
    pub(crate) fn writers_and_room(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.writers.0.len(), state.writers.0.capacity())
    }

    /// Its shared mappings may be written, with a handle among others'. Whether somebody will be able to write it back.
    pub(crate) fn may_be_mapped(&self, client: &Client, handle: Handle) -> bool {
        self.state.lock().writers.add(client, handle)
    }
}

impl State {
    /// Whether a handle is known to write.
    pub(super) fn is_writer(&self, client: &Client, handle: Handle) -> bool {
        self.writers.has(client, handle)
    }
}
