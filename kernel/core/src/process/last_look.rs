//! Whoever looks at the ranks of a job here looks at each once more when it has ended and before it is gone.

use alloc::sync::Arc;

use super::{JobOnNode, Process};
use crate::sync::{LockLevel, Mutex};

/// What is done with a rank then.
type Look = Arc<dyn Fn(&Process) + Send + Sync>;

/// See this module.
pub(super) struct LastLook(Mutex<Option<Look>>);

impl LastLook {
    /// Nobody looks.
    pub(super) const fn none() -> Self {
        Self(Mutex::new(LockLevel::Fact, None))
    }
}

impl JobOnNode {
    /// Ranks that have ended are to be looked at with this, or no longer.
    pub(crate) fn look_last(&self, look: Option<Look>) {
        let before = core::mem::replace(&mut *self.last_look.0.lock(), look);
        drop(before);
    }

    /// A rank has ended, and will do nothing more.
    pub(crate) fn ended(&self, process: &Process) {
        let last_look = self.last_look.0.lock().clone();
        if let Some(look) = last_look {
            look(process);
        }
        self.leave(process);
    }
}
