//! Things that happen while a call waits.

use alloc::sync::Arc;

use super::{Bench, idle};
use crate::executor;

impl Bench {
    /// Makes a call that waits, and does something a moment later. Gives its result; `None` if it still waits then.
    pub(crate) fn wait_while(&self, number: u32, arguments: &[u64], meanwhile: impl FnOnce(&Self)) -> Option<i64> {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let (sender, mut done) = executor::oneshot::channel();
        let spawned = executor::spawn(async move {
            // Nobody may wait for it any more.
            let _ = sender.send(idle(&process, &state).make(number.into(), all).await);
        });
        assert!(spawned.is_ok());
        self.rest();
        assert!(done.take().is_none(), "it was to wait");
        meanwhile(self);
        self.rest();
        done.take().map(|made| made.expect("the process goes on").cast_signed())
    }
}
