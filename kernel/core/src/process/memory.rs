//! Changes of a process's memory that take long: going on with them, in turns with everybody else.

use alloc::sync::Arc;

use coppice_hal::paging::Access;

use crate::executor;
use crate::memory::{ChangeNumber, SharedMemory};
use crate::process::Process;

/// What is left to be done of a call that has changed what is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unfinished {
    /// What the call returns, if nothing fails from here on.
    pub(crate) value: u64,
    /// The change it has begun.
    pub(crate) change: Option<ChangeNumber>,
    /// Where pages are to be brought in then: start, end, how they are to be usable.
    pub(crate) populate: Option<(u64, u64, Access)>,
}

impl Process {
    /// Does the rest of a call, and gives its result. Dropped meanwhile, the change is finished by whoever next changes
    /// the process's memory.
    pub(crate) async fn finish(&self, unfinished: Unfinished) -> u64 {
        let Unfinished { value, change, populate } = unfinished;
        if let Some(number) = change {
            let outcome = loop {
                executor::yield_now().await;
                let outcome = self.space.lock().finish(number);
                if let Some(outcome) = outcome {
                    break outcome;
                }
            };
            if let Err(errno) = outcome {
                return errno.to_rax();
            }
        }
        if let Some((mut at, end, access)) = populate {
            while at < end {
                let (reached, fetch) = self.space.lock().populate(at, end, access);
                at = reached;
                match fetch {
                    // The rest is brought in when it is touched.
                    Some(fetch) if self.fetch_for_copy(&fetch).await.is_err() => break,
                    _ => executor::yield_now().await,
                }
            }
        }
        value
    }

    /// Goes on with the change under way, whoever began it, until it is over.
    pub(crate) async fn after_change(&self) {
        loop {
            // Also if there is none: what was refused may have been refused for another reason, and is tried again.
            executor::yield_now().await;
            if self.space.lock().step() {
                return;
            }
        }
    }

    /// Takes the pages that show shared memory from its page number `first` on out of the process's memory.
    pub(crate) async fn forget_shared(&self, memory: &Arc<SharedMemory>, first: u64) {
        let mut from = Some(0);
        while let Some(at) = from {
            from = {
                let mut space = self.space.lock();
                if space.step() { space.forget_shared(memory, first, at) } else { Some(at) }
            };
            executor::yield_now().await;
        }
    }
}
