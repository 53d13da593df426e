//! Connections of a job with other nodes: how many there are, which are wanted, what goes over them.

use alloc::vec::Vec;
use core::task::Waker;

use coppice_protocol::pmi::Server;

use super::Job;

impl Job {
    /// One more connection with a node.
    pub(in crate::pmi) fn way_opened(&self, peer: u32) {
        *self.state.lock().ways.entry(peer).or_default() += 1;
    }

    /// One less.
    pub(in crate::pmi) fn way_closed(&self, peer: u32) {
        if let Some(ways) = self.state.lock().ways.get_mut(&peer) {
            *ways = ways.saturating_sub(1);
        }
        self.changed.wake_all();
    }

    /// Whether a node is to be called, if nobody but the caller of this is about to; `ahead`: with nothing to say.
    pub(in crate::pmi) fn wants_way(&self, peer: u32, ahead: bool) -> bool {
        let state = self.state.lock();
        let is_wanted = |server: &Server| server.has_output(peer) || ahead && server.calls_ahead(peer);
        state.ways.get(&peer) == Some(&1) && state.server.as_ref().is_some_and(is_wanted)
    }

    /// The next frame for a node.
    pub(in crate::pmi) fn next_frame(&self, peer: u32) -> Option<Vec<u8>> {
        self.state.lock().server.as_mut()?.poll_transmit(peer)
    }

    /// Has `waker` woken when there may be something to send to a node, or the job is over.
    pub(in crate::pmi) fn watch_peer(&self, peer: u32, waker: &Waker) {
        if let Some(watchers) = self.peers.get(&peer) {
            // There is one for each node, for which there always is room.
            let _ = watchers.watch(waker);
        }
    }
}
