//! Ranks that start others, and jobs that were started so.

use alloc::boxed::Box;
use alloc::sync::Arc;

use coppice_protocol::pmi::Server;
use coppice_protocol::spawn::{Origin, Spawned};

use super::Job;

impl Job {
    /// How it has come to be, and how many ranks there could be.
    pub(in crate::pmi) fn set_origin(&self, origin: Option<Box<Origin>>, universe: u32) {
        let mut state = self.state.lock();
        if let Some(server) = &mut state.server {
            server.set_origin(origin, universe);
        }
        state.pay();
    }

    /// Whether a rank of another job has started it.
    pub(in crate::pmi) fn was_spawned(&self) -> bool {
        self.state.lock().server.as_ref().is_some_and(Server::was_spawned)
    }

    /// This came of what a rank here wanted to be started.
    pub(in crate::pmi) fn spawned(self: &Arc<Self>, spawned: Spawned) {
        self.with(|server, _| server.spawned(spawned));
    }
}
