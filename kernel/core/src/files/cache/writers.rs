//! The handles with which what was written on the node can be written at the I/O node.

use alloc::vec::Vec;

use coppice_protocol::ship::{Handle, Owner};

use super::file::{CachedFile, State};
use crate::errno::Errno;
use crate::ship::Client;

/// The table of [`Writers`] has room for so many times as many as there are, at most.
const ROOM: usize = 4;

/// What a file that is open to be written is charged with for its place among [`Writers`], bytes.
pub(crate) const WRITER_BYTES: usize = ROOM * size_of::<(Client, Handle)>();

/// Handles that a file is open to be written with, by whose they are. There are no more of them than open files.
#[derive(Default)]
pub(super) struct Writers(Vec<(Client, Handle)>);

impl Writers {
    fn place(&self, owner: Owner, handle: Handle) -> Result<usize, usize> {
        self.0.binary_search_by_key(&(owner, handle), |(client, handle)| (client.owner(), *handle))
    }

    pub(super) fn has(&self, client: &Client, handle: Handle) -> bool {
        self.place(client.owner(), handle).is_ok()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Some handle to write with.
    pub(super) fn any(&self) -> Option<(Client, Handle)> {
        self.0.first().cloned()
    }

    /// Adds one, and says whether it is there: not if there is no memory.
    fn add(&mut self, client: &Client, handle: Handle) -> bool {
        let Err(place) = self.place(client.owner(), handle) else { return true };
        if self.0.try_reserve(1).is_err() {
            return false;
        }
        self.0.insert(place, (client.clone(), handle));
        true
    }

    fn take(&mut self, client: &Client, handle: Handle) -> Option<(Client, Handle)> {
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
        self.state.lock().writers.add(client, handle);
    }

    /// A handle is about to be closed. False, and it still writes: nobody else can write what is not written yet.
    pub(crate) fn stops_writing(&self, client: &Client, handle: Handle) -> bool {
        let mut state = self.state.lock();
        let is_last = state.writers.0.len() == 1 && state.writers.has(client, handle);
        let keeps = !state.is_settled() && is_last;
        let gone = if keeps { None } else { state.writers.take(client, handle) };
        drop(state);
        drop(gone);
        !keeps
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
