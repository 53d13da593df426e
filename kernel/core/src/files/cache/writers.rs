//! The handles with which what was written on the node can be written at the I/O node.

use coppice_protocol::ship::Handle;

use super::file::{CachedFile, State};
use crate::errno::Errno;
use crate::ship::Client;

/// Handles that a file is open to be written with, of which one is remembered to write with.
pub(super) const WRITERS_MAX: usize = 16;

impl CachedFile {
    /// A rank has it open to be written, by this handle. Of more than [`WRITERS_MAX`] the others write at the I/O node:
    /// what is written later is always some handle's that is known.
    pub(crate) fn writes_with(&self, client: &Client, handle: Handle) {
        let mut state = self.state.lock();
        if let Some(place) = state.writers.iter_mut().find(|place| place.is_none()) {
            *place = Some((client.clone(), handle));
        }
    }

    /// A handle is about to be closed. False, and it still writes: nobody else can write what is not written yet.
    pub(crate) fn stops_writing(&self, client: &Client, handle: Handle) -> bool {
        let mut state = self.state.lock();
        let is_it = |place: &Option<_>| is_writer(place, client, handle);
        let is_last = state.writers.iter().filter(|place| place.is_some()).all(is_it);
        let keeps = !state.is_settled() && is_last && state.writers.iter().any(is_it);
        let gone = if keeps { None } else { state.take_writer(client, handle) };
        drop(state);
        drop(gone);
        !keeps
    }

    /// A handle is gone, with its rank. If nobody else can write what is not written, it is lost.
    pub(crate) fn writes_no_more(&self, client: &Client, handle: Handle) {
        let mut state = self.state.lock();
        let gone = state.take_writer(client, handle);
        if state.writers.iter().all(Option::is_none) && !state.unwritten.is_empty() {
            state.lose(Errno::EIO, &self.retention);
            state.count(&self.waiting);
        }
        drop(state);
        drop(gone);
        self.changed.wake_all();
    }

    /// Its shared mappings may be written, with a handle among others'. Whether somebody will be able to write it back.
    pub(crate) fn may_be_mapped(&self, client: &Client, handle: Handle) -> bool {
        let mut state = self.state.lock();
        if state.is_writer(client, handle) {
            return true;
        }
        let Some(place) = state.writers.iter_mut().find(|place| place.is_none()) else { return false };
        *place = Some((client.clone(), handle));
        true
    }
}

impl State {
    /// Whether a handle is known to write.
    pub(super) fn is_writer(&self, client: &Client, handle: Handle) -> bool {
        self.writers.iter().any(|place| is_writer(place, client, handle))
    }

    /// Takes out who writes with a handle.
    fn take_writer(&mut self, client: &Client, handle: Handle) -> Option<(Client, Handle)> {
        self.writers.iter_mut().find(|place| is_writer(place, client, handle)).and_then(Option::take)
    }
}

fn is_writer(place: &Option<(Client, Handle)>, client: &Client, handle: Handle) -> bool {
    place.as_ref().is_some_and(|(own, known)| own.owner() == client.owner() && *known == handle)
}
